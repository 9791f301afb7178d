/* Writes find's min and max as a stage. */
#include "rules/stages/stage_bounds.h"

#include "rules/reassembly/call_writer.h"
#include "rules/reassembly/reassemble.h"

#include <stdlib.h>

#define KEYS_MAX 8 /* of an index: comparisons nest deeper by each */

static bool is_filled(const struct element *bound)
{
	return bound->type != 0 && (bound->type != BSON_BYTE_DOCUMENT || bound->value.length > 5);
}

bool bounds_given(const struct command *find)
{
	return is_filled(&find->fields[FIELD_MIN]) || is_filled(&find->fields[FIELD_MAX]);
}

/* A path that an expression can name. */
static bool is_path(struct bytes path)
{
	for (size_t i = 0; i < path.length; i++)
		if (path.data[i] == '\0' || ((i == 0 || path.data[i - 1] == '.') &&
					     (path.data[i] == '.' || path.data[i] == '$')))
			return false;
	return path.length > 0 && path.data[path.length - 1] != '.';
}

/* 1 or -1; 0: an index of another kind */
static int direction_of(const struct element *key)
{
	int64_t whole = 0;
	double value = 0;

	if (key->type == BSON_BYTE_DOUBLE)
		memcpy(&value, key->value.data, sizeof(value));
	else if (element_integer(key, &whole))
		value = (double)whole;
	return value == 1 || value == -1 ? (int)value : 0;
}

/* The bound names what the index has, and nothing else. */
static bool same_paths(const struct element *hint, const struct element *bound)
{
	struct element key, value;
	struct cursor keys, values;
	enum cursor_step step;

	if (!is_filled(bound))
		return true;
	if (bound->type != BSON_BYTE_DOCUMENT || !cursor_open(&keys, hint->value) ||
	    !cursor_open(&values, bound->value))
		return false;
	while ((step = cursor_next(&keys, &key)) == CURSOR_ELEMENT)
		if (cursor_next(&values, &value) != CURSOR_ELEMENT ||
		    !bytes_equal(key.name, value.name))
			return false;
	return step == CURSOR_END && cursor_next(&values, &value) == CURSOR_END;
}

bool bounds_served(const struct command *find)
{
	const struct element *hint = &find->fields[FIELD_HINT];
	struct element key;
	struct cursor keys;
	enum cursor_step step;
	size_t count = 0;

	if (!bounds_given(find))
		return true;
	if (hint->type != BSON_BYTE_DOCUMENT || !cursor_open(&keys, hint->value))
		return false;
	while ((step = cursor_next(&keys, &key)) == CURSOR_ELEMENT)
		if (++count > KEYS_MAX || !is_path(key.name) || direction_of(&key) == 0)
			return false;
	return step == CURSOR_END && same_paths(hint, &find->fields[FIELD_MIN]) &&
	       same_paths(hint, &find->fields[FIELD_MAX]);
}

/* ---- the stage ---- */

/* {$isArray: <each part of the way>} */
static void add_arrays(struct call *either, const char *path)
{
	for (const char *end = strchr(path, '.');; end = strchr(end + 1, '.')) {
		size_t length = end ? (size_t)(end - path) : strlen(path);
		auto_free char *part = must_strndup(path, length);
		auto_text field = text_join("$", part, "");

		call_unary(either, "$isArray", field.bytes);
		if (!end)
			return;
	}
}

/* {$cond: [{$eq: [{$type: "$path"}, "missing"]}, null, "$path"]} */
static void add_key(struct call *call, const char *path)
{
	auto_text field = text_join("$", path, "");
	struct call choice = call_call(call, "$cond"), test = call_call(&choice, "$eq");

	call_unary(&test, "$type", field.bytes);
	call_text(&test, "missing");
	call_close(&test);
	call_null(&choice);
	call_text(&choice, field.bytes);
	call_close(&choice);
}

/* {<verb>: [<the key>, {$literal: <the bound>}]} */
static void add_comparison(struct call *call, const char *verb, const struct element *key,
			   const struct element *bound)
{
	auto_free char *path = must_strndup((const char *)key->name.data, key->name.length);
	struct call comparison = call_call(call, verb);
	char index[12];
	size_t literal;

	add_key(&comparison, path);
	literal = writer_open_document(call->out, writer_index(index, comparison.place++));
	writer_renamed(call->out, "$literal", bound);
	writer_close(call->out, literal);
	call_close(&comparison);
}

/* What stands at a path of the bound; where there is no max, the end of the index, before which
 * mongod stops, too. */
static struct element bound_value(const struct element *bound, const struct element *key)
{
	struct element value = {.type = direction_of(key) == 1 ? BSON_BYTE_MAX_KEY
							       : BSON_BYTE_MIN_KEY};
	struct cursor cursor;

	if (is_filled(bound))
		require(cursor_open(&cursor, bound->value) &&
			cursor_find(&cursor, key->name, &value));
	return value;
}

/* Behind the bound in the index's order, or before it, by the first path in which they differ:
 * {$cond: [{$eq: [key, bound]}, <by the next>, {$gt: [key, bound]}]}; where they are the same, it
 * is behind a min and not before a max. */
static void add_bound(struct call *call, const struct element *hint, const struct element *bound,
		      bool behind)
{
	struct call choices[KEYS_MAX + 1];
	struct element keys[KEYS_MAX], value;
	struct cursor cursor;
	size_t count = 0;
	char index[12];

	require(cursor_open(&cursor, hint->value));
	choices[0] = *call;
	for (; count < KEYS_MAX && cursor_next(&cursor, &keys[count]) == CURSOR_ELEMENT; count++) {
		value = bound_value(bound, &keys[count]);
		choices[count + 1] = call_call(&choices[count], "$cond");
		add_comparison(&choices[count + 1], "$eq", &keys[count], &value);
	}
	writer_bool(call->out, writer_index(index, choices[count].place++), behind);
	for (; count > 0; count--) {
		const struct element *key = &keys[count - 1];
		bool greater = behind == (direction_of(key) == 1);

		value = bound_value(bound, key);
		add_comparison(&choices[count], greater ? "$gt" : "$lt", key, &value);
		call_close(&choices[count]);
	}
	call->place = choices[0].place;
}

static void add_range(struct call *choice, const struct command *find)
{
	const struct element *hint = &find->fields[FIELD_HINT], *min = &find->fields[FIELD_MIN],
			     *max = &find->fields[FIELD_MAX];
	struct call both = call_call(choice, "$and");

	if (is_filled(min))
		add_bound(&both, hint, min, true);
	add_bound(&both, hint, max, false);
	call_close(&both);
}

/* {$match: {$expr: {$cond: [{$or: [{$isArray: ...}]}, error, {$and: [...]}]}}} */
void bounds_write(struct buffer *out, size_t *place, const struct command *find)
{
	struct call choice, either;
	struct element key;
	struct cursor keys;
	char name[12];
	size_t stage, match;

	if (!bounds_given(find))
		return;
	require(cursor_open(&keys, find->fields[FIELD_HINT].value));
	stage = writer_open_document(out, writer_index(name, (*place)++));
	match = writer_open_document(out, "$match");
	choice = call_open(out, "$expr", "$cond");
	either = call_call(&choice, "$or");
	while (cursor_next(&keys, &key) == CURSOR_ELEMENT) {
		auto_free char *path = must_strndup((const char *)key.name.data, key.name.length);

		add_arrays(&either, path);
	}
	call_close(&either);
	reassemble_add_several(&choice);
	add_range(&choice, find);
	call_close(&choice);
	writer_close(out, match);
	writer_close(out, stage);
}
