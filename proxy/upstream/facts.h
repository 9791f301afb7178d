/* What a server says of a namespace: the options and indexes of a collection and of its overflow.
 * They are read once, and judged by functions that ask nothing (rules/match/fitness_judge.h,
 * proxy/fitness/index_judge.h). */
#pragma once

#include "proxy/upstream/link.h"

/* Documents copied from a reply. All zeros is an empty list. */
struct copies {
	struct bytes *list;
	size_t count;
	size_t capacity;
};
void copies_fini(struct copies *copies);
/* Copies one document; the context is the list. For command_find. */
void copies_take(void *context, struct bytes document);

/* One collection. All zeros: nothing is known. */
struct collection_facts {
	struct copies
		entry; /* of listCollections: one document, or none if there is no collection */
	struct copies indexes; /* of listIndexes */
	bool absent;           /* listIndexes found no collection */
};
void facts_fini(struct collection_facts *facts);
/* Each reads its part anew. A collection that is not there is no error. */
must_check enum link_result facts_read_entry(struct link *link, const char *database,
					     const char *collection,
					     struct collection_facts *facts);
must_check enum link_result facts_read_indexes(struct link *link, const char *database,
					       const char *collection,
					       struct collection_facts *facts);
/* The collection's UUID in two halves, as in memory; zeros: there is none. */
void facts_uuid(const struct collection_facts *facts, uint64_t halves[2]);
/* A view has no indexes: whoever asks for them is refused. */
bool facts_tell_view(const struct collection_facts *facts);

/* A ruled collection and its overflow. */
struct namespace_facts {
	struct collection_facts main;
	struct collection_facts overflow;
};
