/* Notes what is read, and reads key patterns. */
#include "rules/query/reads.h"

#include "rules/rule/names.h"
#include "rules/rule/walk.h"

#include <stdio.h>

static bool looks_like_operator(struct bytes text)
{
	if (text.length < 2 || text.length > 40 || text.data[0] != '$')
		return false;
	for (size_t i = 1; i < text.length; i++) {
		uint8_t letter = text.data[i] | 0x20;

		if ((letter < 'a' || letter > 'z') && (letter < '0' || letter > '9') &&
		    text.data[i] != '_')
			return false;
	}
	return true;
}

void reads_say(char what[64], struct bytes text, const char *otherwise)
{
	if (!looks_like_operator(text))
		text = bytes_of(otherwise);
	snprintf(what, 64, "%.*s", (int)text.length, (const char *)text.data);
}

struct bytes element_operator(const struct element *element)
{
	struct cursor cursor;
	struct element first;

	if (element->type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, element->value) &&
	    cursor_next(&cursor, &first) == CURSOR_ELEMENT)
		return first.name;
	return bytes_of("");
}

void reads_note(struct reads *reads, enum reads_kind kind, const struct rule *rule,
		struct bytes what, const char *otherwise)
{
	if (kind <= reads->kind)
		return;
	reads->kind = kind;
	reads->rule = rule;
	reads_say(reads->what, what, otherwise);
}

void reads_note_path(struct reads *reads, const struct ruled_namespace *namespace,
		     struct bytes path, struct bytes what, const char *otherwise)
{
	const struct rule *rule = name_rule(path, namespace);

	if (name_is_state(path))
		reads_note(reads, READS_RESERVED, NULL, bytes_of(""), NAME_STATE);
	else if (rule)
		reads_note(reads, READS_ARRAY, rule, what, otherwise);
}

void reads_note_name(struct reads *reads, const struct ruled_namespace *namespace,
		     struct bytes path, struct bytes what, const char *otherwise)
{
	reads_note_path(reads, namespace, path, what, otherwise);
	if (reads->kind == READS_NOTHING && name_find_hidden(path, namespace))
		reads_note(reads, READS_ARRAY, namespace->targets[0].rule, what, otherwise);
}

void reads_note_document(struct reads *reads, const struct ruled_namespace *namespace,
			 struct bytes what)
{
	reads_note(reads, READS_ARRAY, namespace->targets[0].rule, what, "an unknown operator");
	reads->document = true;
}

void reads_note_broken(struct reads *reads)
{
	reads_note(reads, READS_BROKEN, NULL, bytes_of(""), "broken or too deep BSON");
}

void reads_join(struct reads *reads, const struct reads *other)
{
	bool searches = reads->searches || other->searches, asks = reads->asks || other->asks;
	bool document = reads->document || other->document;

	if (other->kind > reads->kind)
		*reads = *other;
	reads->document = document;
	reads->searches = searches;
	reads->asks = asks;
}

typedef void note_key(struct reads *reads, const struct ruled_namespace *namespace,
		      struct bytes path, struct bytes what, const char *otherwise);

static struct reads read_keys(struct bytes keys, const struct ruled_namespace *namespace,
			      note_key *note)
{
	struct reads reads = {0};
	struct cursor cursor;
	struct element key;
	enum cursor_step step = CURSOR_INVALID;

	if (cursor_open(&cursor, keys))
		step = cursor_next(&cursor, &key);
	while (step == CURSOR_ELEMENT) {
		if (key.name.length == 0 || key.name.data[0] != '$')
			note(&reads, namespace, key.name, bytes_of(""), "a key");
		else if (!element_is(&key, "$natural"))
			reads_note_document(&reads, namespace, key.name); /* `$**` */
		step = cursor_next(&cursor, &key);
	}
	if (step != CURSOR_END)
		reads_note_broken(&reads);
	return reads;
}

struct reads reads_of_keys(struct bytes keys, const struct ruled_namespace *namespace)
{
	return read_keys(keys, namespace, reads_note_path);
}

struct reads reads_of_sort(struct bytes keys, const struct ruled_namespace *namespace)
{
	return read_keys(keys, namespace, reads_note_name);
}

static bool is_lost(struct bytes word)
{
	return bytes_are(word, "recordId") || bytes_are(word, "indexKey") ||
	       bytes_are(word, "sortKey");
}

static bool is_none_of_finds(struct bytes word)
{
	return !bytes_are(word, "textScore");
}

static bool is_any(struct bytes word)
{
	return word.data != NULL;
}

static bool finds_meta(const struct element *field, bool (*wanted)(struct bytes word))
{
	struct walk walk;
	struct element element;
	struct bytes word;
	enum cursor_step step;

	if (field->type != BSON_BYTE_DOCUMENT && field->type != BSON_BYTE_ARRAY)
		return false;
	step = walk_first(&walk, field->type, field->value, &element);
	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		if (element_is(&element, "$meta") && element_string(&element, &word) &&
		    wanted(word))
			return true;
		if (!walk_within(&walk, &element))
			return false;
	}
	return false;
}

bool reads_meta(const struct element *field, bool find)
{
	return finds_meta(field, find ? is_none_of_finds : is_lost);
}

bool reads_any_meta(const struct element *field)
{
	return finds_meta(field, is_any);
}

static bool is_simple(const struct element *collation)
{
	struct element locale;
	struct bytes name;

	return collation->type != BSON_BYTE_DOCUMENT ||
	       (document_find(collation->value, "locale", &locale) &&
		element_string(&locale, &name) && bytes_are(name, "simple"));
}

bool reads_by_id(const struct element *sort, const struct element *collation)
{
	struct cursor cursor;
	struct element key;

	return is_simple(collation) && sort->type == BSON_BYTE_DOCUMENT &&
	       cursor_open(&cursor, sort->value) && cursor_next(&cursor, &key) == CURSOR_ELEMENT &&
	       element_is(&key, "_id") && cursor_next(&cursor, &key) == CURSOR_END;
}
