/* Reads a find's projection as a list. */
#include "rules/query/projection_leaves.h"

must_check bool leaves_open(struct leaves *leaves, struct bytes projection)
{
	leaves->path = (struct buffer){0};
	leaves->prefixes[0] = 0;
	leaves->spelt = 0;
	walk_start(&leaves->walk);
	buffer_reserve(&leaves->path, 64);
	return walk_into(&leaves->walk, BSON_BYTE_DOCUMENT, projection);
}

void leaves_close(struct leaves *leaves)
{
	buffer_fini(&leaves->path);
}

static bool is_number(const struct element *value)
{
	return value->type == BSON_BYTE_INT32 || value->type == BSON_BYTE_INT64 ||
	       value->type == BSON_BYTE_DOUBLE || value->type == BSON_BYTE_DECIMAL;
}

static enum leaf_kind value_kind(const struct element *value)
{
	if (value->type != BSON_BYTE_BOOL && !is_number(value))
		return LEAF_COMPUTED;
	return element_truth(value) ? LEAF_INCLUDED : LEAF_EXCLUDED;
}

/* find's $slice has a number or numbers; other arguments make it the aggregation's. */
static enum leaf_kind slice_kind(const struct element *slice)
{
	struct cursor cursor;
	struct element element;

	if (slice->type != BSON_BYTE_ARRAY)
		return is_number(slice) ? LEAF_SLICE : LEAF_COMPUTED;
	if (!cursor_open(&cursor, slice->value))
		return LEAF_COMPUTED;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (!is_number(&element))
			return LEAF_COMPUTED;
	}
	return LEAF_SLICE;
}

static enum leaf_kind operator_kind(const struct element *operation)
{
	if (element_is(operation, "$slice"))
		return slice_kind(operation);
	if (element_is(operation, "$elemMatch"))
		return LEAF_MATCH;
	return element_is(operation, "$meta") ? LEAF_META : LEAF_COMPUTED;
}

/* The first element of a document; CURSOR_END for anything else. */
static enum cursor_step first_element(const struct element *value, struct element *first)
{
	struct cursor cursor;

	if (value->type != BSON_BYTE_DOCUMENT)
		return CURSOR_END;
	if (!cursor_open(&cursor, value->value))
		return CURSOR_INVALID;
	return cursor_next(&cursor, first);
}

static bool name_path(struct leaves *leaves, struct bytes name)
{
	leaves->path.length = leaves->prefixes[leaves->walk.depth - 1];
	leaves->spelt += leaves->path.length;
	if (leaves->path.length > 0)
		buffer_append(&leaves->path, ".", 1);
	buffer_append(&leaves->path, name.data, name.length);
	return leaves->spelt <= LEAVES_PREFIXES_MAX;
}

static bool go_into(struct leaves *leaves, const struct element *paths)
{
	if (!walk_into(&leaves->walk, paths->type, paths->value))
		return false;
	leaves->prefixes[leaves->walk.depth - 1] = leaves->path.length;
	return true;
}

must_check enum cursor_step leaves_next(struct leaves *leaves, struct leaf *leaf)
{
	enum cursor_step step;
	struct element first;

	while ((step = walk_next(&leaves->walk, &leaf->value)) == CURSOR_ELEMENT) {
		if (!name_path(leaves, leaf->value.name))
			return CURSOR_INVALID;
		leaf->kind = value_kind(&leaf->value);
		leaf->top = leaves->walk.depth == 1;
		leaf->path = buffer_view(&leaves->path);
		step = first_element(&leaf->value, &first);
		if (step == CURSOR_END)
			return CURSOR_ELEMENT;
		if (step != CURSOR_ELEMENT)
			return CURSOR_INVALID;
		if (element_names_operator(&first)) {
			leaf->kind = operator_kind(&first);
			return CURSOR_ELEMENT;
		}
		if (!go_into(leaves, &leaf->value))
			return CURSOR_INVALID;
	}
	return step;
}
