/* Conditions on the names of overflow collections. */
#include "rules/rule/overflow_names.h"

#include "protocol/writer.h"
#include "rules/rule/glob.h"

#include <ctype.h>

/* Whether a hidden overflow of the rule may be in the database. */
static bool hides_in(const struct rule *rule, struct bytes database)
{
	return !rule->overflow.listed &&
	       rule_pattern_matches_database(rule_overflow_database(rule), database);
}

bool overflow_names_any(const struct rule_set *set, struct bytes database)
{
	for (size_t i = 0; i < rule_set_count(set); i++)
		if (hides_in(rule_set_at(set, i), database))
			return true;
	return false;
}

bool overflow_names_hide(const struct rule_set *set, struct bytes database, struct bytes collection)
{
	const struct rule *rule = rule_set_overflow(set, database, collection);

	return rule && !rule->overflow.listed;
}

/* Its name; of a rule on a pattern of collections, a pattern. */
static char *name_of(const struct rule *rule)
{
	return rule_overflow_collection(rule, bytes_of(rule->collection));
}

static void write_names(struct buffer *out, const struct rule_set *set, struct bytes database)
{
	size_t list = writer_open_array(out, "$in"), count = 0;
	char index[12];

	for (size_t i = 0; i < rule_set_count(set); i++) {
		auto_free char *name = NULL;

		if (!hides_in(rule_set_at(set, i), database))
			continue;
		name = name_of(rule_set_at(set, i));
		if (!glob_is(bytes_of(name)))
			writer_string(out, writer_index(index, count++), name);
	}
	writer_close(out, list);
}

/* The server's own collections match no pattern. */
static void write_pattern(struct buffer *out, const char *pattern)
{
	auto_buffer struct buffer text = {0};

	buffer_append(&text, "\\A(?!system\\.)", strlen("\\A(?!system\\.)"));
	for (const char *at = pattern; *at; at++) {
		if (*at == '*') {
			buffer_append(&text, ".*", 2);
			continue;
		}
		if (ispunct((unsigned char)*at) || *at == ' ')
			buffer_append(&text, "\\", 1);
		buffer_append(&text, at, 1);
	}
	buffer_append(&text, "\\z", 3); /* with its NUL */
	writer_string(out, "$regex", (const char *)text.data);
	writer_string(out, "$options", "s"); /* a `.` is any character */
}

/* `pattern` NULL: of all names that are none. */
static void append_condition(struct buffer *out, size_t *place, const struct rule_set *set,
			     struct bytes database, const char *pattern)
{
	char index[12];
	size_t condition = writer_open_document(out, writer_index(index, (*place)++)), name;

	writer_string(out, "type", "collection");
	name = writer_open_document(out, "name");
	if (pattern)
		write_pattern(out, pattern);
	else
		write_names(out, set, database);
	writer_close(out, name);
	writer_close(out, condition);
}

void overflow_names_splice(struct buffer *out, size_t *place, const struct rule_set *set,
			   struct bytes database)
{
	append_condition(out, place, set, database, NULL);
	for (size_t i = 0; i < rule_set_count(set); i++) {
		auto_free char *name = NULL;

		if (!hides_in(rule_set_at(set, i), database))
			continue;
		name = name_of(rule_set_at(set, i));
		if (glob_is(bytes_of(name)))
			append_condition(out, place, set, database, name);
	}
}

static void append_other(struct buffer *out, size_t *place, const char *field, const char *pattern)
{
	char index[12];
	size_t other = writer_open_document(out, writer_index(index, (*place)++));
	size_t condition = writer_open_document(out, field),
	       not = writer_open_document(out, "$not");

	write_pattern(out, pattern);
	writer_close(out, not );
	writer_close(out, condition);
	writer_close(out, other);
}

/* Regular expressions, which no collation concerns. (mongod 6.0 fails at a $nor of them.) */
static void append_event_condition(struct buffer *out, size_t *place, const char *database,
				   const char *collection)
{
	char index[12];
	size_t condition = writer_open_document(out, writer_index(index, (*place)++));
	size_t either = writer_open_array(out, "$or"), others = 0;

	append_other(out, &others, "ns.db", database);
	append_other(out, &others, "ns.coll", collection);
	writer_close(out, either);
	writer_close(out, condition);
}

void overflow_names_splice_events(struct buffer *out, size_t *place, const struct rule_set *set)
{
	for (size_t i = 0; i < rule_set_count(set); i++) {
		const struct rule *rule = rule_set_at(set, i);
		auto_free char *name = name_of(rule);

		append_event_condition(out, place, rule_overflow_database(rule), name);
	}
}
