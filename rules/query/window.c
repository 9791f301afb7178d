/* Cuts a window out of an array, most of which may be elsewhere.
 *
 * L = f[0:h] ++ overflow[0:n] ++ f[h:]. A window from the front takes of main's array nothing
 * behind its own end, so that much of it is asked for. Of one from the back, so many elements and
 * a head more: where fewer come, they are all there are; else the whole window lies in f[h:], and
 * is the end of what came. */
#include "rules/query/window.h"

#include "protocol/writer.h"
#include "rules/rule/names.h"
#include "rules/query/read_options.h"

#define FIRST_BATCH 101               /* of a find that names no size */
#define ELEMENTS_MOST (INT64_MAX / 2) /* a state that says more is damaged */

static const struct target *target_named(const struct ruled_namespace *namespace,
					 const struct element *field)
{
	for (size_t i = 0; i < namespace->target_count; i++)
		if (element_is(field, namespace->targets[i].rule->array))
			return strchr(namespace->targets[i].rule->array, '.')
				       ? NULL
				       : &namespace->targets[i];
	return NULL;
}

bool window_of(const struct element *value, const struct ruled_namespace *namespace,
	       struct window *window)
{
	struct element slice, number;
	struct cursor cursor;
	int64_t numbers[2] = {0};
	size_t count = 0;

	*window = (struct window){.target = target_named(namespace, value)};
	if (!window->target)
		return false;
	if (value->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, value->value) ||
	    cursor_next(&cursor, &slice) != CURSOR_ELEMENT || !element_is(&slice, "$slice") ||
	    cursor_next(&cursor, &number) != CURSOR_END)
		return false;
	if (slice.type != BSON_BYTE_ARRAY) {
		if (slice.type == BSON_BYTE_DOUBLE || !element_integer(&slice, &numbers[0]))
			return false;
	} else {
		if (!cursor_open(&cursor, slice.value))
			return false;
		while (cursor_next(&cursor, &number) == CURSOR_ELEMENT) {
			if (count == 2 || number.type == BSON_BYTE_DOUBLE ||
			    !element_integer(&number, &numbers[count++]))
				return false;
		}
		window->skips = true;
		if (count != 2 || numbers[1] <= 0)
			return false;
	}
	if (numbers[0] > INT32_MAX || numbers[0] < -INT32_MAX || numbers[1] > INT32_MAX)
		return false;
	window->skip = window->skips ? (int32_t)numbers[0] : 0;
	window->count = (int32_t)(window->skips ? numbers[1] : numbers[0]);
	return true;
}

/* It is no expression, which may read anything, nor names a part of an array. */
static bool is_plain(const struct element *field, const struct ruled_namespace *namespace)
{
	if (field->type == BSON_BYTE_DOCUMENT || field->type == BSON_BYTE_ARRAY ||
	    field->type == BSON_BYTE_STRING)
		return false;
	for (size_t i = 0; i < namespace->target_count; i++)
		if (name_relate(field->name, namespace->targets[i].rule->array) == PATH_BELOW)
			return false;
	return true;
}

size_t windows_of(struct bytes projection, const struct ruled_namespace *namespace,
		  struct window *windows)
{
	struct cursor cursor;
	struct element field;
	struct window window;
	size_t count = 0;

	for (size_t i = 0; i < namespace->target_count; i++)
		windows[i] = (struct window){.count = INT32_MAX};
	if (!cursor_open(&cursor, projection))
		return 0;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (!window_of(&field, namespace, &window)) {
			if (!is_plain(&field, namespace))
				return 0;
			continue;
		}
		if (windows[window.target - namespace->targets].target)
			return 0;
		windows[window.target - namespace->targets] = window;
		count++;
	}
	for (size_t i = 0; i < namespace->target_count; i++)
		windows[i].target = &namespace->targets[i];
	return count;
}

static bool read_mark(const struct element *field, struct window *window)
{
	struct element skip, count, skips, more;
	int64_t numbers[2];
	struct cursor cursor;

	if (field->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, field->value) ||
	    cursor_next(&cursor, &skip) != CURSOR_ELEMENT ||
	    cursor_next(&cursor, &count) != CURSOR_ELEMENT ||
	    cursor_next(&cursor, &skips) != CURSOR_ELEMENT ||
	    cursor_next(&cursor, &more) != CURSOR_END || skip.type != BSON_BYTE_INT32 ||
	    count.type != BSON_BYTE_INT32 || skips.type != BSON_BYTE_BOOL ||
	    !element_integer(&skip, &numbers[0]) || !element_integer(&count, &numbers[1]))
		return false;
	window->skip = (int32_t)numbers[0];
	window->count = (int32_t)numbers[1];
	window->skips = element_truth(&skips);
	window->whole = true;
	return true;
}

must_check bool windows_of_mark(const struct element *mark, const struct ruled_namespace *namespace,
				struct window *windows)
{
	struct cursor cursor;
	struct element field;
	enum cursor_step step;

	memset(windows, 0, namespace->target_count * sizeof(*windows));
	if (mark->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, mark->value))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT)
		for (size_t i = 0; i < namespace->target_count; i++) {
			if (!element_is(&field, namespace->targets[i].rule->key))
				continue;
			windows[i].target = &namespace->targets[i];
			if (!read_mark(&field, &windows[i]))
				return false;
		}
	return step == CURSOR_END;
}

static bool names_one(const struct element *filter)
{
	struct element id;

	return filter->type == BSON_BYTE_DOCUMENT && document_find(filter->value, "_id", &id) &&
	       id.type != BSON_BYTE_DOCUMENT && id.type != BSON_BYTE_REGEX;
}

bool window_in_one_reply(const struct command *find)
{
	int64_t limit = options_number(find, "limit"), size = FIRST_BATCH;

	if (options_has_number(find, "batchSize"))
		size = options_number(find, "batchSize");
	if (options_single_batch(find)) {
		/* Wider arrays fill the only batch sooner, and nobody would tell. */
		if (size > 0 && (limit == 1 || size == 1))
			return true;
	} else if (limit > 0 && limit <= size) {
		return true;
	}
	return size > 1 && names_one(&find->fields[FIELD_FILTER]) &&
	       !command_has(find, FIELD_COLLATION);
}

/* Where it begins: from the end where it is negative. */
static int64_t window_start(const struct window *window)
{
	if (window->skips)
		return window->skip;
	return window->count < 0 ? window->count : 0;
}

static int64_t window_length(const struct window *window)
{
	return window->count < 0 ? -(int64_t)window->count : window->count;
}

/* How many elements of main's array are asked for, from that end that the window counts from. */
static int64_t window_asks(const struct window *window)
{
	int64_t start = window_start(window), asks;

	if (window->whole)
		return INT64_MAX;
	asks = start < 0 ? window->target->rule->threshold - start : start + window_length(window);
	return asks < INT32_MAX ? asks : INT32_MAX;
}

void window_write_wider(struct buffer *out, const struct window *window)
{
	int32_t asks = (int32_t)window_asks(window);
	size_t field = writer_open_document(out, window->target->rule->array);

	writer_int32(out, "$slice", window_start(window) < 0 ? -asks : asks);
	writer_close(out, field);
}

static int64_t clamp(int64_t number, int64_t least, int64_t most)
{
	if (number < least)
		return least;
	return number < most ? number : most;
}

/* The part [from, to) of the whole array. */
static void cut_part(struct window_cut *cut, int64_t from, int64_t to, int64_t head, int64_t count)
{
	int64_t behind = head + count;
	int64_t tail_from = clamp(from, behind, INT64_MAX) - count,
		tail_to = clamp(to, behind, INT64_MAX) - count;

	cut->skip = (size_t)clamp(from, 0, head);
	cut->head = (size_t)clamp(to, 0, head) - cut->skip;
	cut->first = (size_t)clamp(from - head, 0, count);
	cut->until = (size_t)clamp(to - head, 0, count);
	cut->tail = (size_t)(tail_to - tail_from);
	cut->pass = cut->tail > 0 ? (size_t)tail_from - cut->skip - cut->head : 0;
}

enum window_fit window_cut(const struct window *window, size_t there, size_t head, size_t count,
			   struct window_cut *cut)
{
	const int64_t start = window_start(window), length = window_length(window);
	const int64_t asked = window_asks(window), total = (int64_t)(there + count);
	int64_t from = start, to;

	if (head > ELEMENTS_MOST || count > ELEMENTS_MOST)
		return WINDOW_BROKEN;
	if (start < 0 && !window->whole && (int64_t)head > window->target->rule->threshold)
		return WINDOW_BEYOND;
	if (there < head && (int64_t)there < asked)
		return WINDOW_BROKEN;
	if (start < 0 && (int64_t)there >= asked) {
		/* What came is the end of main's array, and more than the window. */
		from = (int64_t)there + start;
		cut_part(cut, from, clamp(from + length, from, (int64_t)there), 0, 0);
		return WINDOW_FITS;
	}
	if (start < 0)
		from = clamp(total + start, 0, total);
	to = clamp(from + length, 0, total);
	cut_part(cut, clamp(from, 0, to), to, (int64_t)head, (int64_t)count);
	return WINDOW_FITS;
}
