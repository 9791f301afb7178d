/* What the files of the merge share: how it keeps documents, gaps and what fills them.
 *
 * A document has a gap where a ruled array's tail was taken out. What fills a gap is the first `n`
 * elements of a generation, whose parts are the overflow documents that came for it. If the array
 * was edited in place, a second generation holds the later name's parts. */
#pragma once

#include "rules/merge/merge.h"
#include "rules/rule/counts.h"

#define NONE SIZE_MAX /* the index of nothing */

enum part_form {
	PART_ARRAY,    /* `bytes` is an array of elements */
	PART_VALUE,    /* `bytes` is one element's value */
	PART_DOCUMENT, /* `bytes` is an overflow document which, less our names, is one element */
};

struct part {
	enum part_form form;
	uint8_t type; /* PART_VALUE: the element's */
	struct bytes bytes;
	size_t position; /* in the generation, of the first element */
	size_t next;
	size_t marks; /* in which editions it counts: the index, and 1; 0: in all */
};

enum asked {
	ASKED_NOT,
	ASKED_NOW, /* by the filter that is being written */
	ASKED_BEFORE,
};

struct generation {
	uint8_t id[GENERATION_BYTES];
	size_t target;
	size_t users; /* gaps */
	enum asked asked;
	struct element link; /* the _id of the document that names it */
	size_t twin;         /* the next one of this id, that another document names, or NONE */
	size_t first, last;  /* parts */
	size_t size;         /* of all parts' bytes */
	size_t from, until;  /* of windows: the elements that are wanted */
	bool edited;         /* all of it is wanted, also by windows */
};

struct gap {
	struct bytes array;    /* as the document has it */
	struct window_cut cut; /* what becomes of it; `until` - `first` elements fill the gap */
	size_t there;          /* elements that take `size` bytes */
	size_t size;
	bool numbered; /* these are named as they will be in the whole array */
	size_t target;
	const uint8_t *id; /* NULL: nothing fills it */
	size_t generation;
	size_t later; /* of an array that was edited in place: the other generation */
	size_t state; /* its state: the index, and 1; 0: it was not */
};

struct entry {
	struct bytes document;
	size_t first_gap;
	size_t gap_count;
	bool changed; /* there is something to merge or to take out */
	bool loses_id;
	bool computed; /* by the client's pipeline: nothing but its mark is taken out */
	bool spilled;  /* it has, or had before it was replaced, a gap */
};

/* The first item of each list: most replies need no more, and then no memory is asked for them. The
 * list's buffer has no capacity as long as it looks here. */
struct merge_first {
	struct entry entry;
	struct gap gap;
	struct generation generation;
	struct part part;
};

struct merge {
	const struct ruled_namespace *namespace;
	const struct window *windows; /* NULL: arrays are wanted whole */
	struct window *marked; /* the last document's, by its mark; NULL: there was none yet */
	struct buffer entries, gaps, generations, parts; /* lists of the above */
	struct buffer states; /* of arrays that were edited in place: struct state */
	struct buffer marks;  /* struct placed */
	size_t *slots; /* many generations, by a hash of their id: open addressing, at most half
			  full */
	size_t slot_mask;
	uint64_t key;
	struct merge_first first;
	size_t changed_count, spilled_count;
	size_t hidden_count;
	struct bytes hidden[]; /* names on the top level */
};

#define LIST_COUNT(list, type) ((list).length / sizeof(type))
#define LIST_AT(list, type, index) (&((type *)(void *)(list).data)[index])

static inline struct generation *generation_at(const struct merge *merge, size_t index)
{
	return LIST_AT(merge->generations, struct generation, index);
}

static inline size_t generation_count(const struct merge *merge)
{
	return LIST_COUNT(merge->generations, struct generation);
}

static inline struct gap *gap_at(const struct merge *merge, size_t index)
{
	return LIST_AT(merge->gaps, struct gap, index);
}

static inline size_t gap_count(const struct merge *merge)
{
	return LIST_COUNT(merge->gaps, struct gap);
}

static inline const struct state *state_of_gap(const struct merge *merge, const struct gap *gap)
{
	return LIST_AT(merge->states, struct state, gap->state - 1);
}

static inline struct part *part_at(const struct merge *merge, size_t index)
{
	return LIST_AT(merge->parts, struct part, index);
}

static inline struct entry *entry_at(const struct merge *merge, size_t index)
{
	require(index < merge_document_count(merge));
	return LIST_AT(merge->entries, struct entry, index);
}

/* One more item, all zeros, at the list's end. `first`: where the first one stands; NULL: with all
 * others. */
void *merge_list_add(struct buffer *list, void *first, size_t size);
/* A name on the top level that clients don't see. */
bool merge_hides(const struct merge *merge, struct bytes name);
/* The index of the first generation of this id of a target's arrays, or NONE. */
size_t merge_find_generation(const struct merge *merge, const uint8_t *id, size_t target);
/* Of the generations of one id from `at` on, the one that such a link's document names, or NONE: a
 * damaged document may name another document's generation. */
size_t merge_find_twin(const struct merge *merge, size_t at, const struct element *link);
