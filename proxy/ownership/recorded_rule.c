/* What a record of `spillway.rules` says. */
#include "proxy/ownership/recorded_rule.h"

#include "proxy/base/command_line.h"
#include "rules/rule/names.h"
#include "rules/config/rule_document.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <inttypes.h>
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

/* ---- The two parts that are compared: layout and limits. */

/* Whether the record has a field for the setting in the part that changes so. */
static bool is_recorded(const struct setting *setting, enum setting_change change, bool of_overflow)
{
	static const char overflow[] = "rules.overflow.";

	return setting->recorded && setting->change == change &&
	       (strncmp(setting->path, overflow, strlen(overflow)) == 0) == of_overflow;
}

static void write_part(struct buffer *out, enum setting_change change, bool of_overflow,
		       const struct rule *rule)
{
	for (const struct setting *setting = settings; setting->path; setting++)
		if (is_recorded(setting, change, of_overflow))
			rule_write_setting(out, setting->recorded, setting, rule);
}

/* What overflow documents are like comes first. The collection is a concrete one here. */
static void write_layout(struct buffer *out, const struct mover_target *target)
{
	size_t layout = writer_open_document(out, "layout");
	struct rule rule = *target->rule;

	rule.overflow.database = target->overflow_database;
	rule.overflow.collection = target->overflow_collection;
	if (rule.counters.owned_by_app)
		rule.counters.total = NULL;
	write_part(out, SETTING_UNDO, true, &rule);
	write_part(out, SETTING_UNDO, false, &rule);
	writer_close(out, layout);
}

void recorded_rule_write_limits(struct buffer *out, const struct rule *rule)
{
	size_t limits = writer_open_document(out, "limits");

	write_part(out, SETTING_ADAPTED, false, rule);
	write_part(out, SETTING_ADAPTED, true, rule);
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

int64_t recorded_rule_newer_format(struct bytes record)
{
	struct element format;
	int64_t number = 0;

	if (!document_find(record, "format", &format))
		return 0;
	if (!element_integer(&format, &number) || number < 1)
		return INT64_MAX;
	return number > FORMAT ? number : 0;
}

void recorded_rule_tell_newer(struct buffer *out, int64_t format)
{
	if (format == INT64_MAX)
		text_append(out, "is recorded in an unknown format");
	else
		text_append(out, "is recorded in format %" PRId64, format);
	text_append(out,
		    ", and Spillway %s knows none above %d: a newer Spillway has written that; "
		    "run the newer program, or fold all back with its 'spillway undo'",
		    program_version(), FORMAT);
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

	if (recorded_rule_newer_format(record))
		return RULE_RECORD_OTHER;
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
static struct bytes layout_text(struct bytes record, const char *name)
{
	auto_free char *path = bson_strdup_printf("layout.%s", name);
	struct bytes text = {0};

	(void)!document_find_string(record, path, &text);
	return text;
}

/* As it stands in the file. */
static const char *key_of(const struct setting *setting)
{
	if (strcmp(setting->path, "rules.counters.total") == 0)
		return "counters.total' with 'owner: spillway";
	return setting->path + strlen("rules.");
}

static void append_text(struct buffer *out, const char *words, struct bytes text)
{
	if (text.data)
		text_append(out, " %s '%s'", words, text_quote(text).text);
	else
		text_append(out, " %s not set", words);
}

/* False if they are the same; else `before` stands in front of the words. */
static bool tell_setting(struct buffer *out, const char *before, const struct setting *setting,
			 struct bytes record, struct bytes now)
{
	struct bytes was = layout_text(record, setting->recorded);
	struct bytes is = layout_text(now, setting->recorded);

	if (bytes_equal(was, is))
		return false;
	text_append(out, "%s '%s'", before, key_of(setting));
	append_text(out, "was", was);
	append_text(out, "and is", is);
	text_append(out, " in the file");
	return true;
}

void recorded_rule_tell_difference(struct buffer *out, struct bytes record,
				   const struct mover_target *target)
{
	auto_buffer struct buffer now = {0};
	size_t start = writer_open(&now);
	const char *before = ":";

	write_layout(&now, target);
	writer_close(&now, start);
	for (int other = 0; other < 2; other++)
		for (const struct setting *setting = settings; setting->path; setting++)
			if (is_recorded(setting, SETTING_UNDO, !other) &&
			    tell_setting(out, before, setting, record, buffer_view(&now)))
				before = ",";
}

must_check bool recorded_rule_main(struct bytes record, struct recorded_name *name)
{
	struct recorded_name found;

	if (!document_find_string(record, "_id.array", &found.array) ||
	    !document_find_string(record, "_id.namespace", &found.namespace) ||
	    !name_split(found.namespace, &found.database, &found.collection))
		return false;
	*name = found;
	return true;
}

must_check bool recorded_rule_overflow(struct bytes record, struct recorded_name *name)
{
	struct recorded_name found = {0};

	if (!document_find_string(record, "layout.overflow", &found.namespace) ||
	    !name_split(found.namespace, &found.database, &found.collection))
		return false;
	*name = found;
	return true;
}
