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
	const struct rule *rule;
	struct buffer *out;
	struct buffer name;
	bool left;
	struct bytes array; /* that wants to be whole */
	bool unclear;
};

/* Positions of the stored array are not those of the whole one. */
static bool is_split(const struct writing *writing)
{
	return writing->task->before.alive && writing->task->before.moved > 0 &&
	       writing->task->meaning == CHANGE_CLIENTS;
}

static enum path_relation relation(const struct writing *writing, struct bytes name)
{
	return path_relate(name, writing->rule->array);
}

/* "<array>.<position>" and what follows; false where behind the array stands something else. */
static bool read_position(const struct writing *writing, struct bytes name, int64_t *position,
			  struct bytes *rest)
{
	size_t at = strlen(writing->rule->array) + 1, digits = 0;

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
static const char *write_position(struct writing *writing, int64_t position, struct bytes rest)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), ".%" PRId64, position);

	writing->name.length = 0;
	buffer_append(&writing->name, writing->rule->array, strlen(writing->rule->array));
	buffer_append(&writing->name, digits, (size_t)length);
	buffer_append(&writing->name, rest.data, rest.length);
	buffer_append(&writing->name, "", 1);
	return (const char *)writing->name.data;
}

/* NULL where the name says no position of an array that is split. */
static const char *shift(struct writing *writing, struct bytes name)
{
	const struct array_state *state = &writing->task->before;
	struct bytes rest;
	int64_t position;

	if (!read_position(writing, name, &position, &rest)) {
		writing->unclear = true;
		return NULL;
	}
	return write_position(writing, position < state->head ? position : position + state->moved,
			      rest);
}

/* What stands behind the head, each element by its position: the array has only grown. */
static void write_tail(struct writing *writing, const struct element *array)
{
	const struct array_state *state = &writing->task->before;
	struct element element;
	struct cursor cursor;
	int64_t position = 0;

	if (!cursor_open(&cursor, array->value)) {
		writing->unclear = true;
		return;
	}
	for (; cursor_next(&cursor, &element) == CURSOR_ELEMENT; position++)
		if (position >= state->head)
			writer_renamed(
				writing->out,
				write_position(writing, position + state->moved, (struct bytes){0}),
				&element);
	writing->unclear = writing->unclear || position < state->head;
}

/* mongod tells an $addToSet as a write of the array, and the first push into an empty one. */
static void write_array(struct writing *writing, const struct element *array)
{
	if (array->type != BSON_BYTE_ARRAY)
		writing->unclear = true;
	else if (writing->task->before.head == 0 || writing->task->by_positions)
		write_tail(writing, array);
	else if (writing->task->whole.type != 0)
		writer_renamed(writing->out, writing->rule->array, &writing->task->whole);
	else
		writing->array = array->value;
}

static bool is_hidden(const struct writing *writing, struct bytes name)
{
	return name_is_state(name) || name_find_hidden(name, writing->task->namespace);
}

/* Spillway's part of the update. */
static bool is_own(const struct writing *writing, struct bytes name)
{
	return is_hidden(writing, name) ||
	       (writing->task->meaning == CHANGE_OWN && relation(writing, name) != PATH_APART);
}

static void write_updated(struct writing *writing, const struct element *field)
{
	const char *name;

	if (is_own(writing, field->name))
		return;
	writing->left = true;
	switch (is_split(writing) ? relation(writing, field->name) : PATH_APART) {
	case PATH_APART:
		writer_element(writing->out, field);
		return;
	case PATH_BELOW:
		name = shift(writing, field->name);
		if (name)
			writer_renamed(writing->out, name, field);
		return;
	case PATH_SAME:
		write_array(writing, field);
		return;
	case PATH_ABOVE:
		writing->unclear = true;
		return;
	}
}

/* mongod takes `null` for what is gone from an array: only a direct write does that. */
static void write_removed(struct writing *writing, const struct element *item, size_t *place)
{
	const char *name = NULL;
	char index[12];
	struct bytes path;

	if (!element_string(item, &path) || is_own(writing, path))
		return;
	writing->left = true;
	if (is_split(writing) && relation(writing, path) != PATH_APART)
		name = relation(writing, path) == PATH_BELOW ? shift(writing, path) : NULL;
	else
		name = (const char *)path.data;
	if (name)
		writer_string(writing->out, writer_index(index, (*place)++), name);
	else
		writing->unclear = true;
}

/* The new length of a split array, which keeps its head. */
static void write_length(struct writing *writing, const struct element *item, struct bytes path)
{
	const struct array_state *state = &writing->task->before;
	int64_t length;

	if (relation(writing, path) == PATH_BELOW) {
		const char *name = shift(writing, path);
		struct element size;

		if (name && document_find(item->value, "newSize", &size)) {
			writer_string(writing->out, "field", name);
			writer_element(writing->out, &size);
			return;
		}
	} else if (relation(writing, path) == PATH_SAME &&
		   document_find_integer(item->value, "newSize", &length) &&
		   length >= state->head && length + state->moved <= INT32_MAX) {
		writer_text(writing->out, "field", path);
		writer_int32(writing->out, "newSize", (int32_t)(length + state->moved));
		return;
	}
	writing->unclear = true;
}

static void write_truncated(struct writing *writing, const struct element *item, size_t *place)
{
	char index[12];
	struct element field;
	struct bytes path;
	size_t start;

	if (item->type != BSON_BYTE_DOCUMENT || !document_find(item->value, "field", &field) ||
	    !element_string(&field, &path) || is_own(writing, path))
		return;
	writing->left = true;
	if (!is_split(writing) || relation(writing, path) == PATH_APART) {
		writer_renamed(writing->out, writer_index(index, (*place)++), item);
		return;
	}
	start = writer_open_document(writing->out, writer_index(index, (*place)++));
	write_length(writing, item, path);
	writer_close(writing->out, start);
}

static void write_set(struct writing *writing)
{
	const struct element *set = &writing->task->set;

	if (writing->task->meaning != CHANGE_SET || set->type == 0)
		return;
	writing->left = true;
	writer_renamed(writing->out, writing->rule->array, set);
}

static void write_fields(struct writing *writing, const struct element *part)
{
	size_t start = writer_open_document(writing->out, "updatedFields");
	struct cursor items;
	struct element item;

	if (cursor_open(&items, part->value))
		while (cursor_next(&items, &item) == CURSOR_ELEMENT)
			write_updated(writing, &item);
	write_set(writing);
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
	struct writing writing = {
		.task = task, .rule = task->namespace->targets[0].rule, .out = out};
	size_t start = writer_open_document(out, "updateDescription");
	struct cursor parts;
	struct element part;

	writing.unclear = task->meaning == CHANGE_UNCLEAR || !cursor_open(&parts, change);
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
	*written = (struct change_written){writing.left, writing.array};
	return !writing.unclear;
}
