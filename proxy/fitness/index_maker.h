/* Makes the indexes that an overflow has to have: the unique one of link and batch number, and
 * those that the rule asks for (docs/internals/spill-protocol.md, "Indexes"). */
#pragma once

#include "proxy/fitness/index_judge.h"
#include "proxy/upstream/target.h"

enum index_made {
	INDEX_MADE,
	INDEX_TWINS,   /* documents that Spillway did not write have one number twice */
	INDEX_REFUSED, /* link_error says why */
	INDEX_LOST,
};

/* Makes the unique index. An index that is there is made once more: then another's, which a crash
 * or a new primary could take back, is acknowledged too. Documents of Spillway's own that the
 * unique index does not allow get an index that is not unique, until the sweep has stored them
 * anew. */
must_check enum index_made index_make_unique(struct link *link, struct mover_target *target,
					     const struct overflow_indexes *there);
/* Makes the rule's own `indexes` that are missing. If another index stands in the way of one, that
 * is logged: reads are slower, and right. */
must_check enum link_result index_make_rules(struct link *link, struct mover_target *target,
					     const struct overflow_indexes *there);
