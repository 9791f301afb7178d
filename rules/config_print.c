/* Writes a configuration as the file that would give it. */
#include "rules/config.h"

#include "protocol/cursor.h"
#include "rules/rules_value.h"
#include "rules/setting.h"
#include "rules/text.h"
#include "rules/uri.h"

#include <ctype.h>
#include <inttypes.h>
#include <strings.h>

/* Texts that YAML takes as they are, also within braces; others are put in quotes. */
static bool is_plain(const char *text)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/";
	size_t length = strlen(text);

	return isalnum((unsigned char)*text) && strspn(text, allowed) == length &&
	       text[length - 1] != ':' && strcasecmp(text, "null") != 0;
}

static void print_text(struct buffer *out, const char *text)
{
	if (is_plain(text))
		text_append(out, "%s", text);
	else
		rules_value_print_quoted(out, bytes_of(text));
}

static void print_key(struct buffer *out, const char *key, const char *text)
{
	if (!text)
		return;
	text_append(out, "%s: ", key);
	print_text(out, text);
	text_append(out, "\n");
}

static void print_size(struct buffer *out, const char *key, int64_t bytes)
{
	char text[SETTING_TEXT_MAX];

	text_append(out, "%s: %s", key, setting_size_text(text, bytes));
}

static void print_duration(struct buffer *out, const char *key, int64_t milliseconds)
{
	char text[SETTING_TEXT_MAX];

	text_append(out, "%s: %s", key, setting_duration_text(text, milliseconds));
}

static void print_head(struct buffer *out, const struct config *config)
{
	auto_free char *uri = uri_masked(config->upstream_uri);

	text_append(out, "listen:\n");
	for (size_t i = 0; i < config->listen_count; i++) {
		print_key(out, "  - address", config->listen[i].address);
		print_key(out, "    server", config->listen[i].server);
		print_key(out, "    advertise", config->listen[i].advertise);
	}
	text_append(out, "upstream:\n");
	print_key(out, "  uri", uri);
	print_key(out, "admin", config->admin ? config->admin : "off");
	text_append(out, "workers: %d\n", config->workers);
}

static void print_limits(struct buffer *out, const struct config *config)
{
	static const char *const levels[] = {
		[CONFIG_LOG_ERROR] = "error",
		[CONFIG_LOG_WARNING] = "warning",
		[CONFIG_LOG_INFO] = "info",
		[CONFIG_LOG_DEBUG] = "debug",
	};

	text_append(out, "limits: { connections: %" PRId64, config->limits.connections);
	print_duration(out, ", handshake", config->limits.handshake_ms);
	print_duration(out, ", drain", config->limits.drain_ms);
	print_size(out, ", memory", config->limits.memory);
	text_append(out, " }\nlog: { level: %s, format: %s }\n", levels[config->log_level],
		    config->log_json ? "json" : "text");
}

static void print_bounds(struct buffer *out, const struct rule *rule)
{
	text_append(out, "    threshold: %" PRId64, rule->threshold);
	print_size(out, "\n    max_bytes", rule->max_bytes);
	text_append(out, "\n    when_outlier: %s",
		    rule->when_outlier == RULE_KEEP ? "keep" : "empty");
	print_duration(out, "\n    settle", rule->settle_ms);
	text_append(out, "\n    gather: %" PRId64, rule->gather);
	print_duration(out, "\n    quiet", rule->quiet_ms);
	print_duration(out, "\n    gc_delay", rule->gc_delay_ms);
	if (rule->sweep_ms == 0)
		text_append(out, "\n    sweep: off");
	else
		print_duration(out, "\n    sweep", rule->sweep_ms);
	text_append(out, "\n    access: %s\n", rule->read_only ? "read-only" : "full");
}

static void print_flag(struct buffer *out, const struct rule *rule)
{
	if (rule->flag.field) {
		text_append(out, "    flag: { field: ");
		print_text(out, rule->flag.field);
		text_append(out, ", value: ");
		rules_value_print(out, &rule->flag.value);
		text_append(out, ", otherwise: ");
		rules_value_print(out, &rule->flag.otherwise);
		text_append(out, " }\n");
	}
}

static void print_counters(struct buffer *out, const struct rule *rule)
{
	if (!rule->counters.total && !rule->counters.documents)
		return;
	text_append(out, "    counters: { ");
	if (rule->counters.total) {
		text_append(out, "total: ");
		print_text(out, rule->counters.total);
		text_append(out, ", ");
	}
	if (rule->counters.documents) {
		text_append(out, "documents: ");
		print_text(out, rule->counters.documents);
		text_append(out, ", ");
	}
	text_append(out, "owner: %s }\n", rule->counters.owned_by_app ? "app" : "spillway");
}

static void print_reference(struct buffer *out, const struct rule *rule)
{
	if (!rule->reference.field)
		return;
	text_append(out, "    reference: { field: ");
	print_text(out, rule->reference.field);
	text_append(out, ", format: ");
	print_text(out, rule->reference.format);
	text_append(out, " }\n");
}

static void print_exposed(struct buffer *out, const struct rule *rule)
{
	const char *const words[] = {rule->expose.flag ? "flag" : NULL,
				     rule->expose.counters ? "counters" : NULL,
				     rule->expose.reference ? "reference" : NULL};
	const char *comma = "";

	text_append(out, "    expose: [");
	for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
		if (!words[i])
			continue;
		text_append(out, "%s%s", comma, words[i]);
		comma = ", ";
	}
	text_append(out, "]\n");
}

static void print_index(struct buffer *out, struct bytes index)
{
	struct element keys, key;
	struct cursor cursor;
	const char *comma = "";

	require(document_find(index, "keys", &keys) && cursor_open(&cursor, keys.value));
	text_append(out, "        - keys: { ");
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT) {
		struct rule_value kind = {key.type, key.value};

		text_append(out, "%s", comma);
		rules_value_print_quoted(out, key.name);
		text_append(out, ": ");
		rules_value_print(out, &kind);
		comma = ", ";
	}
	text_append(out, " }\n");
}

static void print_indexes(struct buffer *out, struct bytes indexes)
{
	struct cursor cursor;
	struct element index;

	if (indexes.length == 0)
		return;
	text_append(out, "      indexes:\n");
	require(cursor_open(&cursor, indexes));
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		print_index(out, index.value);
}

static void print_batches(struct buffer *out, const struct rule *rule)
{
	print_key(out, "      array", rule->overflow.array);
	text_append(out, "      batch: { ");
	if (rule->overflow.batch_field) {
		text_append(out, "field: ");
		print_text(out, rule->overflow.batch_field);
		text_append(out, ", ");
	}
	text_append(out, "size: %" PRId64, rule->overflow.batch_size);
	print_size(out, ", max_bytes", rule->overflow.batch_max_bytes);
	text_append(out, " }\n");
}

static void print_overflow(struct buffer *out, const struct rule *rule)
{
	bool batches = rule->overflow.layout == RULE_BATCHES;
	const char *database = rule->overflow.database;
	auto_buffer struct buffer collection = {0};

	text_append(&collection, "%s%s%s", database ? database : "", database ? "." : "",
		    rule->overflow.collection);
	buffer_append(&collection, "", 1);
	text_append(out, "    overflow:\n");
	print_key(out, "      collection", (const char *)collection.data);
	print_key(out, "      layout", batches ? "batches" : "elements");
	print_key(out, "      link", rule->overflow.link);
	if (batches)
		print_batches(out, rule);
	print_key(out, "      created", rule->overflow.created);
	print_indexes(out, rule->overflow.indexes);
}

static void print_rule(struct buffer *out, const struct rule *rule)
{
	auto_buffer struct buffer namespace = {0};

	text_append(&namespace, "%s.%s", rule->database, rule->collection);
	buffer_append(&namespace, "", 1);
	print_key(out, "  - name", rule->name);
	print_key(out, "    namespace", (const char *)namespace.data);
	print_key(out, "    array", rule->array);
	print_bounds(out, rule);
	print_flag(out, rule);
	print_counters(out, rule);
	print_reference(out, rule);
	print_exposed(out, rule);
	print_overflow(out, rule);
}

char *config_print(const struct config *config)
{
	auto_buffer struct buffer out = {0};
	size_t count = rule_set_count(config->rules);

	print_head(&out, config);
	print_limits(&out, config);
	text_append(&out, count > 0 ? "rules:\n" : "rules: []\n");
	for (size_t i = 0; i < count; i++)
		print_rule(&out, rule_set_at(config->rules, i));
	return text_steal(&out);
}
