/* Whether what a document keeps stands in its overflow a second time. */
#include "proxy/migrate/adopt_copies.h"

#include "protocol/cursor.h"
#include "rules/rule/hash.h"

#include <stdlib.h>

/* Two that differ and have one hash would at worst keep a document from being adopted. */
static uint64_t hash_element(const struct element *element)
{
	return hash_bytes(element->value, element->type);
}

static int compare(const void *one, const void *other)
{
	const uint64_t *a = one, *b = other;

	return (*a > *b) - (*a < *b);
}

static void sort_and_unite(struct adopt_copies *copies)
{
	size_t kept = 0;

	qsort(copies->kept, copies->count, sizeof(*copies->kept), compare);
	for (size_t i = 0; i < copies->count; i++)
		if (kept == 0 || copies->kept[kept - 1] != copies->kept[i])
			copies->kept[kept++] = copies->kept[i];
	copies->count = copies->missing = kept;
}

void adopt_copies_init(struct adopt_copies *copies, struct bytes array)
{
	struct cursor cursor;
	struct element element;
	size_t at = 0;

	*copies = (struct adopt_copies){0};
	if (!cursor_open(&cursor, array))
		return;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		copies->count++;
	copies->kept = must_calloc(copies->count + 1, sizeof(*copies->kept));
	copies->met = must_calloc(copies->count + 1, 1);
	require(cursor_open(&cursor, array));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		copies->kept[at++] = hash_element(&element);
	sort_and_unite(copies);
}

void adopt_copies_add(struct adopt_copies *copies, struct bytes array)
{
	struct cursor cursor;
	struct element element;

	if (copies->missing == 0 || !cursor_open(&cursor, array))
		return;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		uint64_t hash = hash_element(&element);
		const uint64_t *same =
			bsearch(&hash, copies->kept, copies->count, sizeof(*copies->kept), compare);

		if (same && !copies->met[same - copies->kept]) {
			copies->met[same - copies->kept] = 1;
			copies->missing--;
		}
	}
}

bool adopt_copies_found(const struct adopt_copies *copies)
{
	return copies->count > 0 && copies->missing == 0;
}

void adopt_copies_fini(struct adopt_copies *copies)
{
	free(copies->kept);
	free(copies->met);
}
