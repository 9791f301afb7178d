/* The update of an event as clients see it: without what Spillway writes, with the positions of
 * whole arrays. */
#include "rules/stream/change.h"

#include "protocol/writer.h"
#include "rules/rule/names.h"

#include <inttypes.h>
#include <stdio.h>

#define DIGITS_MOST 9

struct writing {
	const struct change_task *task;
	struct buffer *out;
	struct buffer name;
	bool left;
	struct element stored; /* that wants to be whole */
	bool unclear;
};

static const char *path_of(const struct writing *writing, const struct change_array *array)
{
	return writing->task->namespace->targets[array->target].rule->array;
}

/* An array that the name is about, and whose positions are not those of the whole one; else NULL.
 */
static const struct change_array *find_split(const struct writing *writing, struct bytes name,
					     enum path_relation *relation)
{
	for (size_t i = 0; i < writing->task->count; i++) {
		const struct change_array *array = &writing->task->arrays[i];

		*relation = path_relate(name, path_of(writing, array));
		if (*relation != PATH_APART && change_splits(array))
			return array;
	}
	*relation = PATH_APART;
	return NULL;
}

/* "<array>.<position>" and what follows; false where behind the array stands something else. */
static bool read_position(const char *array, struct bytes name, int64_t *position,
			  struct bytes *rest)
{
	size_t at = strlen(array) + 1, digits = 0;

	*position = 0;
	while (at < name.length && name.data[at] >= '0' && name.data[at] <= '9') {
		*position = *position * 10 + (name.data[at++] - '0');
		if (++digits > DIGITS_MOST)
			return false;
	}
	*rest = (struct bytes){name.data + at, name.length - at};
	return digits > 0 && (rest->length == 0 || rest->data[0] == '.');
}

/* With its NUL. */
static const char *write_position(struct writing *writing, const char *array, int64_t position,
				  struct bytes rest)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), ".%" PRId64, position);

	writing->name.length = 0;
	buffer_append(&writing->name, array, strlen(array));
	buffer_append(&writing->name, digits, (size_t)length);
	buffer_append(&writing->name, rest.data, rest.length);
	buffer_append(&writing->name, "", 1);
	return (const char *)writing->name.data;
}

/* NULL where the name says no position of the array, which is split. */
static const char *shift(struct writing *writing, const struct change_array *array,
			 struct bytes name)
{
	const struct array_state *state = &array->before;
	const char *path = path_of(writing, array);
	struct bytes rest;
	int64_t position;

	if (!read_position(path, name, &position, &rest)) {
		writing->unclear = true;
		return NULL;
	}
	return write_position(
		writing, path,
		position < state->head ? position : position + array_state_elements(state), rest);
}

/* What stands behind the head, each element by its position: the array has only grown. */
static void write_tail(struct writing *writing, const struct change_array *array,
		       const struct element *stored)
{
	const struct array_state *state = &array->before;
	struct element element;
	struct cursor cursor;
	int64_t position = 0;

	if (!cursor_open(&cursor, stored->value)) {
		writing->unclear = true;
		return;
	}
	for (; cursor_next(&cursor, &element) == CURSOR_ELEMENT; position++)
		if (position >= state->head)
			writer_renamed(writing->out,
				       write_position(writing, path_of(writing, array),
						      position + array_state_elements(state),
						      (struct bytes){0}),
				       &element);
}

static int64_t elements_of(struct bytes array)
{
	struct cursor cursor;
	struct element element;
	int64_t count = 0;

	if (cursor_open(&cursor, array))
		while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
			count++;
	return count;
}

/* One of an event's fields at most is put together. */
static void want_whole(struct writing *writing, const struct element *stored)
{
	if (writing->task->whole.type != 0)
		writer_renamed(writing->out, (const char *)stored->name.data,
			       &writing->task->whole);
	else if (writing->stored.type == 0 && !writing->task->by_positions)
		writing->stored = *stored;
	else
		writing->unclear = true;
}

/* mongod tells an $addToSet as a write of the array, and the first push into an empty one. */
static void write_array(struct writing *writing, const struct change_array *array,
			const struct element *stored)
{
	if (stored->type != BSON_BYTE_ARRAY || elements_of(stored->value) < array->before.head)
		writing->unclear = true;
	else if (array->before.head == 0 || writing->task->by_positions)
		write_tail(writing, array, stored);
	else
		want_whole(writing, stored);
}

static bool is_hidden(const struct writing *writing, struct bytes name)
{
	return name_is_state(name) || name_find_hidden(name, writing->task->namespace);
}

/* Spillway's part of the update. */
static bool is_own(const struct writing *writing, struct bytes name)
{
	const struct change_task *task = writing->task;

	if (is_hidden(writing, name))
		return true;
	for (size_t i = 0; task->own && i < task->count; i++)
		if (path_relate(name, path_of(writing, &task->arrays[i])) != PATH_APART)
			return true;
	return false;
}

static void write_updated(struct writing *writing, const struct element *field)
{
	const struct change_array *array;
	enum path_relation relation;
	const char *name;

	if (is_own(writing, field->name))
		return;
	writing->left = true;
	array = find_split(writing, field->name, &relation);
	switch (relation) {
	case PATH_APART:
		writer_element(writing->out, field);
		return;
	case PATH_BELOW:
		name = shift(writing, array, field->name);
		if (name)
			writer_renamed(writing->out, name, field);
		return;
	case PATH_SAME:
		write_array(writing, array, field);
		return;
	case PATH_ABOVE:
		if (field->type == BSON_BYTE_DOCUMENT)
			want_whole(writing, field);
		else
			writing->unclear = true;
		return;
	}
}

/* mongod takes `null` for what is gone from an array: only a direct write does that. */
static void write_removed(struct writing *writing, const struct element *item, size_t *place)
{
	const struct change_array *array;
	enum path_relation relation;
	const char *name = NULL;
	char index[12];
	struct bytes path;

	if (!element_string(item, &path) || is_own(writing, path))
		return;
	writing->left = true;
	array = find_split(writing, path, &relation);
	if (array)
		name = relation == PATH_BELOW ? shift(writing, array, path) : NULL;
	else
		name = (const char *)path.data;
	if (name)
		writer_string(writing->out, writer_index(index, (*place)++), name);
	else
		writing->unclear = true;
}

/* The new length of a split array, which keeps its head, or of an array in it. */
static void write_length(struct writing *writing, const struct change_array *array,
			 const struct element *item, struct bytes path)
{
	const struct array_state *state = &array->before;
	enum path_relation relation = path_relate(path, path_of(writing, array));
	int64_t length;

	if (relation == PATH_BELOW) {
		const char *name = shift(writing, array, path);
		struct element size;

		if (name && document_find(item->value, "newSize", &size)) {
			writer_string(writing->out, "field", name);
			writer_element(writing->out, &size);
			return;
		}
	} else if (relation == PATH_SAME &&
		   document_find_integer(item->value, "newSize", &length) &&
		   length >= state->head && length + array_state_elements(state) <= INT32_MAX) {
		writer_text(writing->out, "field", path);
		writer_int32(writing->out, "newSize",
			     (int32_t)(length + array_state_elements(state)));
		return;
	}
	writing->unclear = true;
}

static void write_truncated(struct writing *writing, const struct element *item, size_t *place)
{
	const struct change_array *array;
	enum path_relation relation;
	char index[12];
	struct element field;
	struct bytes path;
	size_t start;

	if (item->type != BSON_BYTE_DOCUMENT || !document_find(item->value, "field", &field) ||
	    !element_string(&field, &path) || is_own(writing, path))
		return;
	writing->left = true;
	array = find_split(writing, path, &relation);
	if (!array) {
		writer_renamed(writing->out, writer_index(index, (*place)++), item);
		return;
	}
	start = writer_open_document(writing->out, writer_index(index, (*place)++));
	write_length(writing, array, item, path);
	writer_close(writing->out, start);
}

/* Of arrays that the client has set to what is stored. */
static void write_sets(struct writing *writing)
{
	for (size_t i = 0; i < writing->task->count; i++) {
		const struct change_array *array = &writing->task->arrays[i];

		if (array->meaning != CHANGE_SET || array->set.type == 0)
			continue;
		writing->left = true;
		writer_renamed(writing->out, path_of(writing, array), &array->set);
	}
}

static void write_fields(struct writing *writing, const struct element *part)
{
	size_t start = writer_open_document(writing->out, "updatedFields");
	struct cursor items;
	struct element item;

	if (cursor_open(&items, part->value))
		while (cursor_next(&items, &item) == CURSOR_ELEMENT)
			write_updated(writing, &item);
	write_sets(writing);
	writer_close(writing->out, start);
}

static void write_list(struct writing *writing, const struct element *part,
		       void (*write)(struct writing *, const struct element *, size_t *))
{
	size_t start, place = 0;
	struct cursor items;
	struct element item;

	start = writer_open_array(writing->out, (const char *)part->name.data);
	if (cursor_open(&items, part->value))
		while (cursor_next(&items, &item) == CURSOR_ELEMENT)
			write(writing, &item, &place);
	writer_close(writing->out, start);
}

must_check bool change_write(struct bytes change, const struct change_task *task,
			     struct buffer *out, struct change_written *written)
{
	struct writing writing = {.task = task, .out = out};
	size_t start = writer_open_document(out, "updateDescription");
	struct cursor parts;
	struct element part;

	writing.unclear = task->unclear || task->edited || !cursor_open(&parts, change);
	while (!writing.unclear && cursor_next(&parts, &part) == CURSOR_ELEMENT)
		if (element_is(&part, "updatedFields") && part.type == BSON_BYTE_DOCUMENT)
			write_fields(&writing, &part);
		else if (element_is(&part, "removedFields") && part.type == BSON_BYTE_ARRAY)
			write_list(&writing, &part, write_removed);
		else if (element_is(&part, "truncatedArrays") && part.type == BSON_BYTE_ARRAY)
			write_list(&writing, &part, write_truncated);
		else
			writing.unclear = true;
	writer_close(out, start);
	buffer_fini(&writing.name);
	*written = (struct change_written){writing.left, writing.stored};
	return !writing.unclear;
}
