/* Whether a name stands twice in a document, at any depth. */
#include "protocol/repeats.h"

#include <stdlib.h>

#define FEW 8 /* names, for which sorting is more than comparing each with each */

/* The names of the documents that are open, innermost last, as hashes. Two names with one hash only
 * leave a document alone that could have been moved. */
struct names {
	uint64_t *hashes;
	size_t count;
	size_t capacity;
};

struct level {
	struct cursor cursor;
	size_t first; /* of its names */
	bool is_array;
};

static uint64_t hash_name(struct bytes name)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < name.length; i++)
		hash = (hash ^ name.data[i]) * 1099511628211u;
	return hash;
}

static void add_name(struct names *names, struct bytes name)
{
	if (names->count == names->capacity) {
		names->capacity *= 2;
		names->hashes =
			must_realloc(names->hashes, names->capacity * sizeof(*names->hashes));
	}
	names->hashes[names->count++] = hash_name(name);
}

static int compare(const void *a, const void *b)
{
	uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return first < second ? -1 : first > second;
}

static bool few_repeat(const uint64_t *hashes, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (hashes[i] == hashes[j])
				return true;
	return false;
}

/* Closes the innermost document: true where two of its names are the same. */
static bool close_level(struct names *names, size_t first)
{
	size_t count = names->count - first;

	names->count = first;
	if (count <= FEW)
		return few_repeat(names->hashes + first, count);
	qsort(names->hashes + first, count, sizeof(*names->hashes), compare);
	for (size_t i = first; i + 1 < first + count; i++)
		if (names->hashes[i] == names->hashes[i + 1])
			return true;
	return false;
}

static bool walk(struct level *stack, struct names *names)
{
	size_t depth = 1;

	while (depth > 0) {
		struct level *level = &stack[depth - 1];
		struct element element;
		enum cursor_step step = cursor_next(&level->cursor, &element);

		if (step == CURSOR_END) {
			if (close_level(names, level->first))
				return true;
			depth--;
			continue;
		}
		if (step != CURSOR_ELEMENT)
			return true;
		if (!level->is_array)
			add_name(names, element.name);
		if (element.type != BSON_BYTE_DOCUMENT && element.type != BSON_BYTE_ARRAY)
			continue;
		if (depth == CURSOR_MAX_DEPTH || !cursor_open(&stack[depth].cursor, element.value))
			return true;
		stack[depth].first = names->count;
		stack[depth].is_array = element.type == BSON_BYTE_ARRAY;
		depth++;
	}
	return false;
}

must_check bool document_repeats_name(struct bytes document, bool is_array)
{
	struct level stack[CURSOR_MAX_DEPTH];
	struct names names = {.capacity = 64};
	bool repeats;

	stack[0].first = 0;
	stack[0].is_array = is_array;
	if (!cursor_open(&stack[0].cursor, document))
		return true;
	names.hashes = must_malloc(names.capacity * sizeof(*names.hashes));
	repeats = walk(stack, &names);
	free(names.hashes);
	return repeats;
}

bool document_has_twice(struct bytes document, const char *name)
{
	struct cursor cursor;
	struct element element;

	return cursor_open(&cursor, document) && cursor_find(&cursor, bytes_of(name), &element) &&
	       cursor_find(&cursor, bytes_of(name), &element);
}
