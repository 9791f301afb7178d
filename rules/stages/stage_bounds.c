/* Writes find's min and max as a stage. */
#include "rules/stages/stage_bounds.h"

#include "rules/reassembly/raised.h"

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

/* Appends tests: is the key, or what its path leads through, an array? */
static void write_arrays(struct buffer *tests, struct bytes path)
{
	for (size_t i = 0; i <= path.length; i++)
		if (i == path.length || path.data[i] == '.')
			template_write_document(tests, "{$isArray: '$@part'}",
						fill("part", ((struct bytes){path.data, i})));
}

/* What stands at a path of the bound. Without a max it is the end of the index, before which mongod
 * stops, too. */
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

/* Appends a test: the document is behind the bound in the index's order, or before it, by the first
 * path in which they differ. If they are the same, it is behind a min and not before a max. */
static void write_bound(struct buffer *tests, const struct element *hint,
			const struct element *bound, bool behind)
{
	struct fill next = fill_bool("next", behind);
	auto_buffer struct buffer test = {0};
	struct element keys[KEYS_MAX];
	struct cursor cursor;
	size_t count = 0;

	require(cursor_open(&cursor, hint->value));
	while (count < KEYS_MAX && cursor_next(&cursor, &keys[count]) == CURSOR_ELEMENT)
		count++;
	while (count-- > 0) {
		bool greater = behind == (direction_of(&keys[count]) == 1);
		struct element value = bound_value(bound, &keys[count]);
		struct buffer inner = buffer_steal(&test); /* `next` is a view of it */

		template_write_document(
			&test, "{$cond: [{$eq: [@key, @bound]}, @next, {@verb: [@key, @bound]}]}",
			fill_template("key", "{$cond: [{$eq: [{$type: '$@path'}, 'missing']}, "
					     "null, '$@path']}"),
			fill("path", keys[count].name),
			fill_template("bound", "{$literal: @value}"), fill_element("value", &value),
			fill("verb", greater ? "$gt" : "$lt"), next);
		next = fill_document("next", buffer_view(&test));
		buffer_fini(&inner);
	}
	buffer_append(tests, test.data, test.length);
}

/* A document with an array in a key of the index has several keys there. */
void bounds_write(struct buffer *out, size_t *place, const struct command *find)
{
	const struct element *hint = &find->fields[FIELD_HINT], *min = &find->fields[FIELD_MIN],
			     *max = &find->fields[FIELD_MAX];
	auto_buffer struct buffer arrays = {0}, range = {0};
	struct element key;
	struct cursor keys;

	if (!bounds_given(find))
		return;
	require(cursor_open(&keys, hint->value));
	while (cursor_next(&keys, &key) == CURSOR_ELEMENT)
		write_arrays(&arrays, key.name);
	if (is_filled(min))
		write_bound(&range, hint, min, true);
	write_bound(&range, hint, max, false);
	template_append(
		out, place,
		"{$match: {$expr: {$cond: [{$or: [..@arrays]}, @error, {$and: [..@range]}]}}}",
		fill_documents("arrays", buffer_view(&arrays)),
		fill_template("error", RAISE(RAISED_SEVERAL)),
		fill_documents("range", buffer_view(&range)));
}
