/* Writes the stages of a distinct: {v: ...} goes down the path, part by part.
 *
 * As mongod does it: a number takes an array's element of that index, any other part goes through
 * an array's elements, but not through the arrays among them; what stands at the end is taken
 * apart. A field whose own name is what is left of the path it takes first: here an error, since no
 * path leads to such a field.
 *
 * A distinct without a query mongod answers from the keys of an index that begins with the path. An
 * index has null for a document without the field, undefined for an empty array, and an array that
 * lies in an array as one key, which the distinct then takes apart. */
#include "rules/stages/stage_distinct.h"

#include "rules/rule/known_indexes.h"
#include "rules/reassembly/raised.h"

#include <stdlib.h>

#define PARTS_MAX 200 /* of any path in mongod, which allows no deeper documents */
#define KEY_MAX 10000 /* bytes; each part is written with all behind it */
#define DIGITS_MAX 9  /* no array has more elements */

bool distinct_is_long(struct bytes key)
{
	size_t parts = 1;

	for (size_t i = 0; i < key.length; i++)
		parts += key.data[i] == '.';
	return parts > PARTS_MAX;
}

bool distinct_served(struct bytes key)
{
	for (size_t i = 0; i < key.length; i++) {
		bool starts = i == 0 || key.data[i - 1] == '.';

		if (key.data[i] == '\0' || (starts && (key.data[i] == '.' || key.data[i] == '$')))
			return false;
	}
	return key.length > 0 && key.length <= KEY_MAX && key.data[key.length - 1] != '.';
}

/* ---- down the path ---- */

static void write_unwind(struct buffer *out, size_t *place)
{
	template_append(out, place, "{$unwind: {path: '$v', preserveNullAndEmptyArrays: true}}");
}

/* What leads from one value to the next. */
struct step {
	const char *part;
	const char *before; /* stands before it in an expression's path: "$" or "$v." */
	const char *holder; /* the document that has it */
	const char *left;   /* the path from this part on; NULL: it is the last one */
};

/* An error, if the holder has a field whose own name is what is left of the path. */
static void write_no_field(struct buffer *out, size_t *place, const struct step *step)
{
	template_append(out, place,
			"{$match: {$expr: {$cond: [{$ne: [{$type: [{$getField: {"
			"field: @left, "
			"input: {$cond: [{$eq: [{$type: '@holder'}, 'object']}, '@holder', "
			"'$$REMOVE']}}}]}, 'missing']}, @error, 1]}}}",
			fill("left", step->left), fill("holder", step->holder),
			fill_template("error", RAISE(RAISED_DOTTED)));
}

static bool is_number(const char *part)
{
	return strspn(part, "0123456789") == strlen(part);
}

/* A number takes an array's element, or a document's field of this name. */
static void write_index(struct buffer *out, size_t *place, const struct step *step)
{
	const char *part = step->part;
	bool is_index = strlen(part) <= DIGITS_MAX && (*part != '0' || part[1] == '\0');

	template_append(out, place,
			"{$replaceWith: {v: {$cond: [{$isArray: '$v'}, @element, '$v.@part']}}}",
			fill("part", part),
			fill_template("element",
				      is_index ? "{$arrayElemAt: ['$v', @index]}" : "'$$REMOVE'"),
			fill("index", (int32_t)strtol(part, NULL, 10)));
}

static void write_part(struct buffer *out, size_t *place, const struct step *step, bool first)
{
	bool is_index = !first && is_number(step->part);

	if (!first && !is_index) {
		write_unwind(out, place);
		template_append(out, place, "{$match: {$expr: {$not: [{$isArray: '$v'}]}}}");
	}
	if (step->left)
		write_no_field(out, place, step);
	if (is_index)
		write_index(out, place, step);
	else
		template_append(out, place, "{$replaceWith: {v: '@before@part'}}",
				fill("before", step->before), fill("part", step->part));
}

static void write_there(struct buffer *out, size_t *place)
{
	template_append(out, place, "{$match: {v: {$exists: true}}}");
}

/* Each value once, in distinct's order: {values: [...]}. In a document, an array is compared as a
 * whole. */
static void write_ordered(struct buffer *out, size_t *place)
{
	template_append(out, place, "{$group: {_id: {v: '$v'}}}");
	template_append(out, place, "{$sort: {_id: 1}}");
	template_append(out, place, "{$group: {_id: null, values: {$push: '$_id.v'}}}");
}

/* ---- from the keys of an index ---- */

static bool has_number(struct bytes key)
{
	auto_free char *path = must_strndup((const char *)key.data, key.length);
	char *part = path, *dot;

	while ((dot = strchr(part, '.'))) {
		*dot = '\0';
		if (is_number(part))
			return true;
		part = dot + 1;
	}
	return is_number(part);
}

/* {} as mongod reads a distinct's query, or none. */
static bool asks_nothing(const struct element *query)
{
	return query->type != BSON_BYTE_DOCUMENT || query->value.length <= 5;
}

enum distinct_source distinct_source(const struct command *command,
				     const struct ruled_namespace *namespace)
{
	static const enum distinct_source sources[] = {
		[INDEX_SCAN_UNKNOWN] = DISTINCT_UNKNOWN,
		[INDEX_SCAN_NONE] = DISTINCT_OF_DOCUMENTS,
		[INDEX_SCAN_KEYS] = DISTINCT_OF_KEYS,
		[INDEX_SCAN_SPARSE] = DISTINCT_OF_SPARSE_KEYS,
		[INDEX_SCAN_FETCHES] = DISTINCT_OF_FETCHED,
		[INDEX_SCAN_AMBIGUOUS] = DISTINCT_AMBIGUOUS,
	};
	struct bytes key;

	if (!element_string(&command->fields[FIELD_KEY], &key) ||
	    !asks_nothing(&command->fields[FIELD_QUERY]) || has_number(key))
		return DISTINCT_OF_DOCUMENTS;
	return sources[known_indexes_scan(namespace->indexes, key,
					  collation_given(&command->fields[FIELD_COLLATION]))];
}

static bool has_key(const void *context, struct bytes index)
{
	const struct element *path = context;
	struct element keys, key;
	struct cursor cursor;
	struct bytes name;

	if (!document_find(index, "key", &keys) || keys.type != BSON_BYTE_DOCUMENT ||
	    !element_string(path, &name) || !cursor_open(&cursor, keys.value))
		return false;
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT)
		if (bytes_equal(key.name, name) || element_is(&key, "$**"))
			return true;
	return false;
}

bool distinct_may_scan(const struct command *command, const struct ruled_namespace *namespace)
{
	return command->kind == COMMAND_DISTINCT && !asks_nothing(&command->fields[FIELD_QUERY]) &&
	       known_indexes_any(namespace->indexes, has_key, &command->fields[FIELD_KEY]);
}

/* A document without the field has the key null, but none in a sparse index. */
static void write_key(struct buffer *out, size_t *place, const struct step *step, bool first,
		      bool sparse)
{
	if (!first)
		write_unwind(out, place);
	if (step->left)
		write_no_field(out, place, step);
	template_append(
		out, place,
		"{$replaceWith: {v: {$cond: [{$and: ["
		"{$eq: [{$type: '@holder'}, 'object']}, "
		"{$ne: [{$type: '@before@part'}, 'missing']}]}, '@before@part', @absent]}}}",
		fill("holder", step->holder), fill("before", step->before),
		fill("part", step->part), fill_template("absent", sparse ? "'$$REMOVE'" : "null"));
}

static void write_keys_end(struct buffer *out, size_t *place)
{
	template_append(out, place,
			"{$replaceWith: {v: {$cond: [{$eq: ['$v', []]}, {$literal: undefined}, "
			"'$v']}}}");
	write_unwind(out, place);
	write_unwind(out, place);
	write_there(out, place);
	write_ordered(out, place);
}

/* ---- all of it ---- */

/* Documents without the field have null's key, those with an empty array that of undefined. */
static void write_documents_end(struct buffer *out, size_t *place, bool fetched)
{
	write_unwind(out, place);
	write_there(out, place);
	if (fetched)
		template_append(out, place,
				"{$match: {$expr: {$cond: ["
				"{$in: [{$type: '$v'}, ['null', 'undefined']]}, @error, 1]}}}",
				fill_template("error", RAISE(RAISED_SHARED)));
	write_ordered(out, place);
}

void distinct_write(struct buffer *out, size_t *place, struct bytes key,
		    enum distinct_source source)
{
	bool sparse = source == DISTINCT_OF_SPARSE_KEYS;
	bool keys = source == DISTINCT_OF_KEYS || sparse;
	auto_free char *path = must_strndup((const char *)key.data, key.length);
	auto_free char *whole = must_strndup(path, key.length);
	struct step step = {.before = "$", .holder = "$$ROOT"};

	for (char *part = path, *dot = path; dot; part = dot ? dot + 1 : part) {
		bool first = part == path;

		dot = strchr(part, '.');
		if (dot)
			*dot = '\0';
		step.part = part;
		step.left = dot ? whole + (part - path) : NULL;
		if (keys)
			write_key(out, place, &step, first, sparse);
		else
			write_part(out, place, &step, first);
		step.before = "$v.";
		step.holder = "$v";
	}
	if (keys)
		write_keys_end(out, place);
	else
		write_documents_end(out, place, source == DISTINCT_OF_FETCHED);
}

/* That document's `_id` is null. */
bool distinct_too_large(const struct reply_summary *summary)
{
	static const char last[] = "First element: _id: null", push[] = "$push used too much";
	struct bytes text = summary->message;

	if (summary->ok || !text.data)
		return false;
	return summary->code == ERROR_BUFFER_TOO_LARGE ||
	       (summary->code == ERROR_OBJECT_TOO_LARGE &&
		memmem(text.data, text.length, last, strlen(last))) ||
	       (summary->code == ERROR_EXCEEDED_MEMORY_LIMIT &&
		memmem(text.data, text.length, push, strlen(push)));
}
