/* Sorts array filters by their names: a statement may have 60,000 of them, and as many paths. */
#include "rules/edit/array_filters.h"

#include <stdlib.h>

#define NESTED_MOST 8 /* $and, $or and $nor around a filter's names */

struct array_filter {
	struct bytes name, filter;
	size_t place;
};

static bool name_within(struct bytes filter, struct bytes *name, int nested)
{
	struct element first, branch;
	const uint8_t *dot;

	if (!document_first(filter, &first))
		return false;
	if (bytes_begin_with(first.name, "$"))
		return nested < NESTED_MOST && first.type == BSON_BYTE_ARRAY &&
		       document_first(first.value, &branch) && branch.type == BSON_BYTE_DOCUMENT &&
		       name_within(branch.value, name, nested + 1);
	*name = first.name;
	dot = memchr(name->data, '.', name->length);
	if (dot)
		name->length = (size_t)(dot - name->data);
	return true;
}

must_check bool array_filter_name(struct bytes filter, struct bytes *name)
{
	return name_within(filter, name, 0);
}

static int by_name(const void *a, const void *b)
{
	const struct array_filter *one = a, *other = b;
	int order = bytes_order(one->name, other->name);

	return order != 0 ? order : one->place < other->place ? -1 : one->place > other->place;
}

static void add(struct array_filters *filters, size_t place, const struct element *element)
{
	struct array_filter each = {.filter = element->value, .place = place};

	if (element->type != BSON_BYTE_DOCUMENT || !array_filter_name(each.filter, &each.name))
		return;
	if (filters->count == filters->room) {
		filters->room = filters->room ? 2 * filters->room : 4;
		filters->sorted =
			must_realloc(filters->sorted, filters->room * sizeof(*filters->sorted));
	}
	filters->sorted[filters->count++] = each;
}

void array_filters_open(struct array_filters *filters, const struct element *list)
{
	struct cursor cursor;
	struct element each;
	size_t place = 0;

	*filters = (struct array_filters){0};
	if (list->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, list->value))
		return;
	filters->list = list->value;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		add(filters, place++, &each);
	if (filters->count > 0)
		qsort(filters->sorted, filters->count, sizeof(*filters->sorted), by_name);
	filters->named = must_calloc(place + 1, sizeof(*filters->named));
}

/* The first about this name, or NULL. */
static const struct array_filter *find(const struct array_filters *filters, struct bytes name)
{
	size_t from = 0, to = filters->count;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (bytes_order(filters->sorted[middle].name, name) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from < filters->count && bytes_equal(filters->sorted[from].name, name)
		       ? &filters->sorted[from]
		       : NULL;
}

must_check bool array_filters_find(const struct array_filters *filters, struct bytes name,
				   struct bytes *filter)
{
	const struct array_filter *found = find(filters, name);

	if (!found)
		return false;
	*filter = found->filter;
	return true;
}

void array_filters_note(struct array_filters *filters, struct bytes path)
{
	const uint8_t *at = path.data, *end = path.data + path.length, *close;
	const struct array_filter *found;

	while ((at = memmem(at, (size_t)(end - at), "$[", 2))) {
		at += 2;
		close = memchr(at, ']', (size_t)(end - at));
		if (!close)
			return;
		found = find(filters, (struct bytes){at, (size_t)(close - at)});
		if (found)
			filters->named[found->place] = true;
	}
}

void array_filters_write(const struct array_filters *filters, struct buffer *out)
{
	struct cursor cursor;
	struct element each;

	if (!filters->list.data || !cursor_open(&cursor, filters->list))
		return;
	for (size_t i = 0; cursor_next(&cursor, &each) == CURSOR_ELEMENT; i++)
		if (filters->named[i])
			buffer_append(out, each.value.data, each.value.length);
}

void array_filters_close(struct array_filters *filters)
{
	free(filters->sorted);
	free(filters->named);
	*filters = (struct array_filters){0};
}
