/* The states of documents' arrays at a place of a change stream: what was read of them, and what
 * events have made of them since. */
#pragma once

#include "rules/stream/change.h"

struct known {
	const struct ruled_namespace *namespace;
	struct element id; /* a view */
	struct array_states states;
	bool found;  /* the document was there */
	bool wanted; /* and had to be: the first event is not its insert */
	bool met;    /* by an event */
	bool stands; /* behind a transaction the states are what they were before */
	size_t next; /* of the same hash, or SIZE_MAX */
};

struct knowledge {
	struct known *list;
	size_t count, capacity;
	size_t *slots;     /* the first of the list with this hash, or SIZE_MAX */
	size_t slot_count; /* a power of two, or 0 */
	uint64_t key;
};

/* NULL: nothing is known of it. The pointer is good until the next knowledge_add. */
struct known *knowledge_find(const struct knowledge *knowledge,
			     const struct ruled_namespace *namespace, const struct element *id);
/* The same; one more, without a state, where there was none. */
struct known *knowledge_add(struct knowledge *knowledge, const struct ruled_namespace *namespace,
			    const struct element *id);
static inline size_t knowledge_place(const struct knowledge *knowledge, const struct known *known)
{
	return (size_t)(known - knowledge->list);
}
/* Some document has an array with a state. */
bool knowledge_has_states(const struct knowledge *knowledge);
/* No document of the database has a state, or none of the collection where one is named. */
void knowledge_clear(struct knowledge *knowledge, struct bytes database, struct bytes collection);
void knowledge_fini(struct knowledge *knowledge);
