/* What a record of `spillway.rules` says. */
#include "proxy/ownership/recorded_rule.h"

#include "rules/rule/names.h"
#include "rules/rule/own_fields.h"
#include "rules/config/rule_document.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <openssl/evp.h>
#include <stdlib.h>

#define FORMAT 1

static void write_namespace(struct buffer *out, const char *name, const char *database,
			    const char *collection)
{
	auto_free char *text = bson_strdup_printf("%s.%s", database, collection);

	writer_string(out, name, text);
}

void recorded_rule_write_key(struct buffer *out, const struct mover_target *target)
{
	size_t key = writer_open_document(out, "_id");

	write_namespace(out, "namespace", target->database, target->collection);
	writer_string(out, "array", target->rule->array);
	writer_close(out, key);
}

static void write_layout(struct buffer *out, const struct mover_target *target)
{
	static const char *const keys[OWN_FIELDS] = {[OWN_FLAG] = "flag",
						     [OWN_TOTAL] = "total",
						     [OWN_DOCUMENTS] = "documents",
						     [OWN_REFERENCE] = "reference"};
	const struct rule *rule = target->rule;
	size_t layout = writer_open_document(out, "layout");

	write_namespace(out, "overflow", target->overflow_database, target->overflow_collection);
	writer_string(out, "kind", rule->overflow.layout == RULE_BATCHES ? "batches" : "elements");
	writer_string(out, "link", rule->overflow.link);
	if (rule->overflow.array)
		writer_string(out, "array", rule->overflow.array);
	if (rule->overflow.batch_field)
		writer_string(out, "batch", rule->overflow.batch_field);
	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++)
		if (own_field_name(rule, field))
			writer_string(out, keys[field], own_field_name(rule, field));
	if (rule->reference.format)
		writer_string(out, "format", rule->reference.format);
	writer_close(out, layout);
}

void recorded_rule_write_limits(struct buffer *out, const struct rule *rule)
{
	size_t limits = writer_open_document(out, "limits");

	writer_int64(out, "threshold", rule->threshold);
	writer_int64(out, "max_bytes", rule->max_bytes);
	writer_string(out, "when_outlier", rule->when_outlier == RULE_KEEP ? "keep" : "empty");
	writer_int64(out, "size", rule->overflow.batch_size);
	writer_int64(out, "batch_bytes", rule->overflow.batch_max_bytes);
	writer_close(out, limits);
}

static void write_resolved(struct buffer *out, const struct rule *rule)
{
	size_t resolved = writer_open_document(out, "resolved");

	rule_write(out, rule);
	writer_close(out, resolved);
}

static void write_hash(struct buffer *out, const struct mover_target *target)
{
	static const char digits[] = "0123456789abcdef";
	const struct rule *rule = target->rule;
	auto_buffer struct buffer stored = {0};
	size_t start = writer_open(&stored);
	uint8_t hash[EVP_MAX_MD_SIZE];
	char text[2 * sizeof(hash) + 1] = "";
	unsigned length;

	write_layout(&stored, target);
	recorded_rule_write_limits(&stored, rule);
	rule_write_own_fields(&stored, rule);
	if (rule->overflow.created)
		writer_string(&stored, "created", rule->overflow.created);
	writer_close(&stored, start);
	require(EVP_Digest(stored.data, stored.length, hash, &length, EVP_sha256(), NULL) == 1);
	for (size_t i = 0; i < length; i++) {
		text[2 * i] = digits[hash[i] >> 4];
		text[2 * i + 1] = digits[hash[i] & 15];
	}
	writer_string(out, "hash", text);
}

void recorded_rule_write(struct buffer *out, const struct mover_target *target)
{
	writer_int32(out, "format", FORMAT);
	writer_string(out, "rule", target->rule->name);
	write_layout(out, target);
	recorded_rule_write_limits(out, target->rule);
	write_resolved(out, target->rule);
	write_hash(out, target);
}

/* True where what the record has at `path` is what the rule would write now. */
static bool same_part(struct bytes record, const char *path, struct bytes now, const char *name)
{
	struct element was, is;

	return document_find_path(record, path, &was) && document_find(now, name, &is) &&
	       was.type == is.type && bytes_equal(was.value, is.value);
}

enum rule_record recorded_rule_compare(struct bytes record, const struct mover_target *target,
				       const char *limits)
{
	auto_buffer struct buffer written = {0};
	size_t start = writer_open(&written);
	struct bytes now;

	recorded_rule_write(&written, target);
	writer_close(&written, start);
	now = buffer_view(&written);
	if (!same_part(record, "layout", now, "layout"))
		return RULE_RECORD_OTHER;
	if (!same_part(record, limits, now, "limits"))
		return RULE_RECORD_LIMITS;
	if (!same_part(record, "rule", now, "rule") ||
	    !same_part(record, "resolved", now, "resolved") ||
	    !same_part(record, "hash", now, "hash"))
		return RULE_RECORD_OLDER;
	return RULE_RECORD_SAME;
}

/* No data: it is not there. */
static struct bytes layout_text(struct bytes record, const char *path)
{
	struct bytes text = {0};
	struct element element;

	if (document_find_path(record, path, &element))
		(void)!element_string(&element, &text);
	return text;
}

static void append_text(struct buffer *out, const char *words, struct bytes text)
{
	if (text.data)
		text_append(out, " %s '%s'", words, text_quote(text).text);
	else
		text_append(out, " %s not set", words);
}

void recorded_rule_tell_difference(struct buffer *out, struct bytes record,
				   const struct mover_target *target)
{
	static const struct {
		const char *path; /* in a record */
		const char *key;  /* in the file */
	} parts[] = {
		{"layout.overflow", "overflow.collection"},
		{"layout.kind", "overflow.layout"},
		{"layout.link", "overflow.link"},
		{"layout.array", "overflow.array"},
		{"layout.batch", "overflow.batch.field"},
		{"layout.flag", "flag.field"},
		{"layout.total", "counters.total' with 'owner: spillway"},
		{"layout.documents", "counters.documents"},
		{"layout.reference", "reference.field"},
		{"layout.format", "reference.format"},
	};
	auto_buffer struct buffer now = {0};
	size_t start = writer_open(&now);
	const char *before = ":";

	write_layout(&now, target);
	writer_close(&now, start);
	for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
		struct bytes was = layout_text(record, parts[i].path);
		struct bytes is = layout_text(buffer_view(&now), parts[i].path);

		if (bytes_equal(was, is))
			continue;
		text_append(out, "%s '%s'", before, parts[i].key);
		append_text(out, "was", was);
		append_text(out, "and is", is);
		text_append(out, " in the file");
		before = ",";
	}
}

must_check bool recorded_rule_main(struct bytes record, struct recorded_name *name)
{
	struct recorded_name found;
	struct element element;

	if (!document_find_path(record, "_id.array", &element) ||
	    !element_string(&element, &found.array) ||
	    !document_find_path(record, "_id.namespace", &element) ||
	    !element_string(&element, &found.namespace) ||
	    !name_split(found.namespace, &found.database, &found.collection))
		return false;
	*name = found;
	return true;
}

must_check bool recorded_rule_overflow(struct bytes record, struct recorded_name *name)
{
	struct recorded_name found = {0};
	struct element element;

	if (!document_find_path(record, "layout.overflow", &element) ||
	    !element_string(&element, &found.namespace) ||
	    !name_split(found.namespace, &found.database, &found.collection))
		return false;
	*name = found;
	return true;
}
