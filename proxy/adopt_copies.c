/* Whether what a document keeps stands in its overflow a second time. */
#include "proxy/adopt_copies.h"

#include "protocol/cursor.h"
#include "rules/hash.h"

#include <stdlib.h>

/* Two that differ and have one hash would at worst keep a document from being adopted. */
static uint64_t hash_element(const struct element *element)
{
	return hash_bytes(element->value, element->type);
}

void adopt_copies_init(struct adopt_copies *copies, struct bytes array)
{
	struct cursor cursor;
	struct element element;
	size_t at = 0;

	*copies = (struct adopt_copies){.first = true, .first_back = true};
	if (!cursor_open(&cursor, array))
		return;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		copies->count++;
	copies->kept = must_calloc(copies->count + 1, sizeof(*copies->kept));
	copies->last = must_calloc(copies->count + 1, sizeof(*copies->last));
	require(cursor_open(&cursor, array));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		copies->kept[at++] = hash_element(&element);
}

void adopt_copies_add(struct adopt_copies *copies, struct bytes array)
{
	struct cursor cursor;
	struct element element;

	if (copies->count == 0 || !cursor_open(&cursor, array))
		return;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		uint64_t hash = hash_element(&element);

		if (copies->seen < copies->count) {
			copies->first = copies->first && copies->kept[copies->seen] == hash;
			copies->first_back = copies->first_back &&
					     copies->kept[copies->count - 1 - copies->seen] == hash;
		}
		copies->last[copies->seen++ % copies->count] = hash;
	}
}

bool adopt_copies_found(const struct adopt_copies *copies)
{
	bool last = true, last_back = true;

	if (copies->count == 0 || copies->seen < copies->count)
		return false;
	for (size_t i = 0; i < copies->count; i++) {
		uint64_t hash = copies->last[(copies->seen + i) % copies->count];

		last = last && copies->kept[i] == hash;
		last_back = last_back && copies->kept[copies->count - 1 - i] == hash;
	}
	return copies->first || copies->first_back || last || last_back;
}

void adopt_copies_fini(struct adopt_copies *copies)
{
	free(copies->kept);
	free(copies->last);
}
