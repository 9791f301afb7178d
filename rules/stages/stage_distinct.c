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

#include "rules/reassembly/call_writer.h"
#include "rules/rule/known_indexes.h"
#include "rules/reassembly/reassemble.h"

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

static size_t open_stage(struct buffer *out, size_t *place)
{
	char name[12];

	return writer_open_document(out, writer_index(name, (*place)++));
}

/* {$unwind: {path: "$v", preserveNullAndEmptyArrays: true}} */
static void write_unwind(struct buffer *out, size_t *place)
{
	size_t stage = open_stage(out, place), unwind = writer_open_document(out, "$unwind");

	writer_string(out, "path", "$v");
	writer_bool(out, "preserveNullAndEmptyArrays", true);
	writer_close(out, unwind);
	writer_close(out, stage);
}

/* {$match: {$expr: {$not: [{$isArray: "$v"}]}}} */
static void write_no_array(struct buffer *out, size_t *place)
{
	size_t stage = open_stage(out, place), match = writer_open_document(out, "$match");
	struct call call = call_open(out, "$expr", "$not");

	call_unary(&call, "$isArray", "$v");
	call_close(&call);
	writer_close(out, match);
	writer_close(out, stage);
}

static void write_value(struct buffer *out, size_t *place, const char *path)
{
	size_t stage = open_stage(out, place), value = writer_open_document(out, "$replaceWith");

	writer_string(out, "v", path);
	writer_close(out, value);
	writer_close(out, stage);
}

/* {$match: {$expr: {$cond: [{$ne: [{$type: <the holder's field of this name, where the holder is a
 * document>}, "missing"]}, <error>, 1]}}} */
static void write_no_field(struct buffer *out, size_t *place, const char *name, const char *holder)
{
	size_t stage = open_stage(out, place), match = writer_open_document(out, "$match");
	struct call choice = call_open(out, "$expr", "$cond"), test = call_call(&choice, "$ne"),
		    type = call_call(&test, "$type"), input, is_document;
	char index[12];
	size_t operand = writer_open_document(out, writer_index(index, type.place++)),
	       field = writer_open_document(out, "$getField");

	writer_string(out, "field", name);
	input = call_open(out, "input", "$cond");
	is_document = call_call(&input, "$eq");
	call_unary(&is_document, "$type", holder);
	call_text(&is_document, "object");
	call_close(&is_document);
	call_text(&input, holder);
	call_text(&input, "$$REMOVE");
	call_close(&input);
	writer_close(out, field);
	writer_close(out, operand);
	call_close(&type);
	call_text(&test, "missing");
	call_close(&test);
	reassemble_add_dotted(&choice);
	call_number(&choice, 1);
	call_close(&choice);
	writer_close(out, match);
	writer_close(out, stage);
}

static bool is_number(const char *part)
{
	return strspn(part, "0123456789") == strlen(part);
}

/* {$replaceWith: {v: {$cond: [{$isArray: "$v"}, <its element>, "$v.<part>"]}}} */
static void write_index(struct buffer *out, size_t *place, const char *part, const char *path)
{
	bool is_index = strlen(part) <= DIGITS_MAX && (*part != '0' || part[1] == '\0');
	size_t stage = open_stage(out, place), value = writer_open_document(out, "$replaceWith");
	struct call choice = call_open(out, "v", "$cond"), element;

	call_unary(&choice, "$isArray", "$v");
	if (is_index) {
		element = call_call(&choice, "$arrayElemAt");
		call_text(&element, "$v");
		call_number(&element, (int32_t)strtol(part, NULL, 10));
		call_close(&element);
	} else {
		call_text(&choice, "$$REMOVE");
	}
	call_text(&choice, path);
	call_close(&choice);
	writer_close(out, value);
	writer_close(out, stage);
}

/* `left`: the path from this part on, where more follow. */
static void write_part(struct buffer *out, size_t *place, const char *part, const char *left,
		       bool first)
{
	auto_text path = text_join(first ? "$" : "$v.", part, "");
	bool is_index = !first && is_number(part);

	if (!first && !is_index) {
		write_unwind(out, place);
		write_no_array(out, place);
	}
	if (left)
		write_no_field(out, place, left, first ? "$$ROOT" : "$v");
	if (is_index)
		write_index(out, place, part, path.bytes);
	else
		write_value(out, place, path.bytes);
}

/* {$match: {v: {$exists: true}}} */
static void write_there(struct buffer *out, size_t *place)
{
	size_t stage = open_stage(out, place), match = writer_open_document(out, "$match");
	size_t value = writer_open_document(out, "v");

	writer_bool(out, "$exists", true);
	writer_close(out, value);
	writer_close(out, match);
	writer_close(out, stage);
}

/* Each value once, in distinct's order: {values: [...]}. In a document, an array is compared as a
 * whole. */
static void write_ordered(struct buffer *out, size_t *place)
{
	size_t stage = open_stage(out, place), part = writer_open_document(out, "$group"), value;

	value = writer_open_document(out, "_id");
	writer_string(out, "v", "$v");
	writer_close(out, value);
	writer_close(out, part);
	writer_close(out, stage);
	stage = open_stage(out, place);
	part = writer_open_document(out, "$sort");
	writer_int32(out, "_id", 1);
	writer_close(out, part);
	writer_close(out, stage);
	stage = open_stage(out, place);
	part = writer_open_document(out, "$group");
	writer_renamed(out, "_id", &(struct element){.type = BSON_BYTE_NULL});
	value = writer_open_document(out, "values");
	writer_string(out, "$push", "$_id.v");
	writer_close(out, value);
	writer_close(out, part);
	writer_close(out, stage);
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
	return bytes_are(command->first.name, "distinct") &&
	       !asks_nothing(&command->fields[FIELD_QUERY]) &&
	       known_indexes_any(namespace->indexes, has_key, &command->fields[FIELD_KEY]);
}

static void add_absent(struct call *call, bool sparse)
{
	if (sparse)
		call_text(call, "$$REMOVE");
	else
		call_null(call);
}

/* {$replaceWith: {v: {$cond: [{$and: [<the holder is a document>, <it has the field>]}, path,
 * null]}}} */
static void write_key(struct buffer *out, size_t *place, const char *holder, const char *path,
		      bool sparse)
{
	size_t stage = open_stage(out, place), value = writer_open_document(out, "$replaceWith");
	struct call choice = call_open(out, "v", "$cond"), both = call_call(&choice, "$and"),
		    test = call_call(&both, "$eq");

	call_unary(&test, "$type", holder);
	call_text(&test, "object");
	call_close(&test);
	test = call_call(&both, "$ne");
	call_unary(&test, "$type", path);
	call_text(&test, "missing");
	call_close(&test);
	call_close(&both);
	call_text(&choice, path);
	add_absent(&choice, sparse);
	call_close(&choice);
	writer_close(out, value);
	writer_close(out, stage);
}

/* {$replaceWith: {v: {$cond: [{$eq: ["$v", []]}, {$literal: undefined}, "$v"]}}} */
static void write_undefined(struct buffer *out, size_t *place)
{
	size_t stage = open_stage(out, place), value = writer_open_document(out, "$replaceWith");
	struct call choice = call_open(out, "v", "$cond"), test = call_call(&choice, "$eq");
	char index[12];
	size_t literal;

	call_text(&test, "$v");
	call_nothing(&test);
	call_close(&test);
	literal = writer_open_document(out, writer_index(index, choice.place++));
	writer_renamed(out, "$literal", &(struct element){.type = BSON_BYTE_UNDEFINED});
	writer_close(out, literal);
	call_text(&choice, "$v");
	call_close(&choice);
	writer_close(out, value);
	writer_close(out, stage);
}

static void write_key_part(struct buffer *out, size_t *place, const char *part, const char *left,
			   bool first, bool sparse)
{
	auto_text path = text_join(first ? "$" : "$v.", part, "");
	const char *holder = first ? "$$ROOT" : "$v";

	if (!first)
		write_unwind(out, place);
	if (left)
		write_no_field(out, place, left, holder);
	write_key(out, place, holder, path.bytes, sparse);
}

static void write_keys(struct buffer *out, size_t *place, struct bytes key, bool sparse)
{
	auto_free char *path = must_strndup((const char *)key.data, key.length);
	auto_free char *whole = must_strndup(path, key.length);
	char *part = path, *dot;

	while ((dot = strchr(part, '.'))) {
		*dot = '\0';
		write_key_part(out, place, part, whole + (part - path), part == path, sparse);
		part = dot + 1;
	}
	write_key_part(out, place, part, NULL, part == path, sparse);
	write_undefined(out, place);
	write_unwind(out, place);
	write_unwind(out, place);
	write_there(out, place);
	write_ordered(out, place);
}

/* ---- all of it ---- */

/* {$match: {$expr: {$cond: [{$in: [{$type: "$v"}, ["null", "undefined"]]}, <error>, 1]}}}:
 * documents without the field have null's key, those with an empty array the other's. */
static void write_no_null(struct buffer *out, size_t *place)
{
	size_t stage = open_stage(out, place), match = writer_open_document(out, "$match"), list;
	struct call choice = call_open(out, "$expr", "$cond"), test = call_call(&choice, "$in");
	char index[12];

	call_unary(&test, "$type", "$v");
	list = writer_open_array(out, writer_index(index, test.place++));
	writer_string(out, "0", "null");
	writer_string(out, "1", "undefined");
	writer_close(out, list);
	call_close(&test);
	reassemble_add_shared(&choice);
	call_number(&choice, 1);
	call_close(&choice);
	writer_close(out, match);
	writer_close(out, stage);
}

static void write_documents(struct buffer *out, size_t *place, struct bytes key, bool fetched)
{
	auto_free char *path = must_strndup((const char *)key.data, key.length);
	auto_free char *whole = must_strndup(path, key.length);
	char *part = path, *dot;

	while ((dot = strchr(part, '.'))) {
		*dot = '\0';
		write_part(out, place, part, whole + (part - path), part == path);
		part = dot + 1;
	}
	write_part(out, place, part, NULL, part == path);
	write_unwind(out, place);
	write_there(out, place);
	if (fetched)
		write_no_null(out, place);
	write_ordered(out, place);
}

void distinct_write(struct buffer *out, size_t *place, struct bytes key,
		    enum distinct_source source)
{
	if (source == DISTINCT_OF_KEYS || source == DISTINCT_OF_SPARSE_KEYS)
		write_keys(out, place, key, source == DISTINCT_OF_SPARSE_KEYS);
	else
		write_documents(out, place, key, source == DISTINCT_OF_FETCHED);
}

/* That document's `_id` is null. */
bool distinct_too_large(struct bytes body, const struct reply_summary *summary)
{
	static const char last[] = "First element: _id: null", push[] = "$push used too much";
	struct element message;
	struct bytes text;

	if (summary->ok || !document_find(body, "errmsg", &message) ||
	    !element_string(&message, &text))
		return false;
	return summary->code == ERROR_BUFFER_TOO_LARGE ||
	       (summary->code == ERROR_OBJECT_TOO_LARGE &&
		memmem(text.data, text.length, last, strlen(last))) ||
	       (summary->code == ERROR_EXCEEDED_MEMORY_LIMIT &&
		memmem(text.data, text.length, push, strlen(push)));
}
