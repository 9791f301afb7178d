/* Finds the arrays of some documents: the paths that lead to them. */
#include "proxy/analyze/find_arrays.h"

#include <bson/bson.h>
#include <stdlib.h>

#define DEPTH_MAX 8
#define PATH_MAX_LENGTH 500
#define FOUND_MAX 200

/* A path that grows and shrinks as the walk goes down and up. */
struct walk {
	struct cursor levels[DEPTH_MAX];
	size_t ends[DEPTH_MAX]; /* the path's length on each level */
	size_t depth;
	char path[PATH_MAX_LENGTH + 1];
};

static bool is_askable(struct bytes name)
{
	return name.length > 0 && name.data[0] != '$' && !memchr(name.data, '.', name.length) &&
	       !bytes_are(name, "_spill") &&
	       bson_utf8_validate((const char *)name.data, name.length, false);
}

/* The path of this element; 0 where it would be too long. */
static size_t extend(struct walk *walk, struct bytes name)
{
	size_t at = walk->ends[walk->depth];

	if (at + 1 + name.length > PATH_MAX_LENGTH)
		return 0;
	if (at > 0)
		walk->path[at++] = '.';
	memcpy(walk->path + at, name.data, name.length);
	walk->path[at + name.length] = '\0';
	return at + name.length;
}

static int64_t count_elements(struct bytes array)
{
	struct cursor cursor;
	struct element element;
	int64_t count = 0;

	if (!cursor_open(&cursor, array))
		return 0;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		count++;
	return count;
}

static void note_array(struct found_arrays *found, const char *path, int64_t elements)
{
	for (size_t i = 0; i < found->count; i++) {
		if (strcmp(found->arrays[i].path, path) == 0) {
			found->arrays[i].elements += elements;
			return;
		}
	}
	if (found->count == FOUND_MAX)
		return;
	if (!found->arrays)
		found->arrays = must_calloc(FOUND_MAX, sizeof(*found->arrays));
	found->arrays[found->count++] =
		(struct found_array){must_strndup(path, strlen(path)), elements};
}

static void look_at(struct found_arrays *found, struct walk *walk, const struct element *element)
{
	struct bytes nested;
	size_t end;

	if (!is_askable(element->name) || !element_document(element, &nested))
		return;
	end = extend(walk, element->name);
	if (end == 0)
		return;
	if (element->type == BSON_BYTE_ARRAY)
		note_array(found, walk->path, count_elements(nested));
	else if (walk->depth + 1 < DEPTH_MAX && cursor_open(&walk->levels[walk->depth + 1], nested))
		walk->ends[++walk->depth] = end;
}

void found_arrays_add(struct found_arrays *found, struct bytes document)
{
	struct walk walk = {.depth = 0};
	struct element element;

	if (!cursor_open(&walk.levels[0], document))
		return;
	for (;;) {
		if (cursor_next(&walk.levels[walk.depth], &element) == CURSOR_ELEMENT)
			look_at(found, &walk, &element);
		else if (walk.depth-- == 0)
			return;
	}
}

static int by_elements(const void *a, const void *b)
{
	const struct found_array *one = a, *other = b;

	if (one->elements != other->elements)
		return one->elements < other->elements ? 1 : -1;
	return strcmp(one->path, other->path);
}

void found_arrays_sort(struct found_arrays *found)
{
	if (found->count > 0)
		qsort(found->arrays, found->count, sizeof(*found->arrays), by_elements);
}

void found_arrays_fini(struct found_arrays *found)
{
	for (size_t i = 0; i < found->count; i++)
		free(found->arrays[i].path);
	free(found->arrays);
	*found = (struct found_arrays){0};
}
