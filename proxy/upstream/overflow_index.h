/* The index that the overflow of a rule is walked by, of those that its collection has. Others may
 * have the same keys (mongod lets several stand), so that it goes by its name. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* All zeros: none. */
struct overflow_index {
	char *name;   /* of one that has every document in order, and may be used; NULL: none */
	char *hidden; /* of one that would be it, were it not hidden; NULL: none */
	bool absent;  /* there is no such collection */
};
void overflow_index_fini(struct overflow_index *found);

/* One document of listIndexes after another. */
void overflow_index_take(struct overflow_index *found, const struct rule *rule, struct bytes index);
/* The overflow can't be walked, nor its documents be found by their links, as that is hidden. */
bool overflow_index_is_hidden(const struct overflow_index *found);
/* What the server has now. */
must_check enum link_result overflow_index_find(struct link *link,
						const struct mover_target *target,
						struct overflow_index *found);
/* Why the overflow can't be walked, where there is no name, and what to do. */
void overflow_index_explain(const struct overflow_index *found, const struct rule *rule,
			    char *reason, size_t size);
