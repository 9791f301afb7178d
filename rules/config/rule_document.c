/* Writes a rule as the configuration file would have it, but as BSON. */
#include "rules/config/rule_document.h"

#include "rules/config/setting.h"
#include "rules/rule/text.h"

static void write_dotted(struct buffer *out, const char *name, const char *database,
			 const char *collection)
{
	auto_buffer struct buffer text = {0};

	text_append(&text, "%s%s%s", database ? database : "", database ? "." : "", collection);
	writer_text(out, name, buffer_view(&text));
}

static void write_optional(struct buffer *out, const char *name, const char *text)
{
	if (text)
		writer_string(out, name, text);
}

static void write_duration(struct buffer *out, const char *name, int64_t milliseconds)
{
	char text[SETTING_TEXT_MAX];

	writer_string(out, name, setting_duration_text(text, milliseconds));
}

static void write_bounds(struct buffer *out, const struct rule *rule)
{
	writer_int64(out, "threshold", rule->threshold);
	writer_int64(out, "max_bytes", rule->max_bytes);
	writer_string(out, "when_outlier", rule->when_outlier == RULE_KEEP ? "keep" : "empty");
	write_duration(out, "settle", rule->settle_ms);
	writer_int64(out, "gather", rule->gather);
	write_duration(out, "quiet", rule->quiet_ms);
	write_duration(out, "gc_delay", rule->gc_delay_ms);
	if (rule->sweep_ms == 0)
		writer_string(out, "sweep", "off");
	else
		write_duration(out, "sweep", rule->sweep_ms);
	writer_string(out, "access", rule->read_only ? "read-only" : "full");
	writer_string(out, "change_streams", rule->streams_as_stored ? "as_stored" : "refuse");
}

static void write_value(struct buffer *out, const char *name, const struct rule_value *value)
{
	if (value->type)
		writer_renamed(out, name,
			       &(struct element){.type = value->type, .value = value->value});
	else
		writer_string(out, name, "absent");
}

static void write_flag(struct buffer *out, const struct rule *rule)
{
	size_t flag;

	if (!rule->flag.field)
		return;
	flag = writer_open_document(out, "flag");
	writer_string(out, "field", rule->flag.field);
	write_value(out, "value", &rule->flag.value);
	write_value(out, "otherwise", &rule->flag.otherwise);
	writer_close(out, flag);
}

static void write_counters(struct buffer *out, const struct rule *rule)
{
	size_t counters;

	if (!rule->counters.total && !rule->counters.documents)
		return;
	counters = writer_open_document(out, "counters");
	write_optional(out, "total", rule->counters.total);
	write_optional(out, "documents", rule->counters.documents);
	writer_string(out, "owner", rule->counters.owned_by_app ? "app" : "spillway");
	writer_close(out, counters);
}

static void write_reference(struct buffer *out, const struct rule *rule)
{
	size_t reference;

	if (!rule->reference.field)
		return;
	reference = writer_open_document(out, "reference");
	writer_string(out, "field", rule->reference.field);
	writer_string(out, "format", rule->reference.format);
	writer_close(out, reference);
}

void rule_write_own_fields(struct buffer *out, const struct rule *rule)
{
	write_flag(out, rule);
	write_counters(out, rule);
	write_reference(out, rule);
}

static void write_exposed(struct buffer *out, const struct rule *rule)
{
	const char *const words[] = {rule->expose.flag ? "flag" : NULL,
				     rule->expose.counters ? "counters" : NULL,
				     rule->expose.reference ? "reference" : NULL};
	size_t exposed = writer_open_array(out, "expose"), index = 0;
	char name[12];

	for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
		if (words[i])
			writer_string(out, writer_index(name, index++), words[i]);
	writer_close(out, exposed);
}

static void write_batches(struct buffer *out, const struct rule *rule)
{
	size_t batch;

	writer_string(out, "array", rule->overflow.array);
	batch = writer_open_document(out, "batch");
	write_optional(out, "field", rule->overflow.batch_field);
	writer_int64(out, "size", rule->overflow.batch_size);
	writer_int64(out, "max_bytes", rule->overflow.batch_max_bytes);
	writer_close(out, batch);
}

static void write_overflow(struct buffer *out, const struct rule *rule)
{
	bool batches = rule->overflow.layout == RULE_BATCHES;
	size_t overflow = writer_open_document(out, "overflow");

	write_dotted(out, "collection", rule->overflow.database, rule->overflow.collection);
	writer_string(out, "layout", batches ? "batches" : "elements");
	writer_string(out, "link", rule->overflow.link);
	if (batches)
		write_batches(out, rule);
	write_optional(out, "created", rule->overflow.created);
	if (rule->overflow.indexes.length > 0)
		writer_array(out, "indexes", rule->overflow.indexes);
	writer_close(out, overflow);
}

void rule_write(struct buffer *out, const struct rule *rule)
{
	writer_string(out, "name", rule->name);
	write_dotted(out, "namespace", rule->database, rule->collection);
	writer_string(out, "array", rule->array);
	write_bounds(out, rule);
	rule_write_own_fields(out, rule);
	write_exposed(out, rule);
	write_overflow(out, rule);
}
