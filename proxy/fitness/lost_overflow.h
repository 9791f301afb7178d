/* Notices that an overflow collection was dropped, or replaced by another one, while documents are
 * split there. A record has the overflow's UUID. Where the collection has another one or is gone,
 * some split documents are asked for their batches: a restore makes a new collection, too. */
#pragma once

#include "proxy/upstream/facts.h"
#include "proxy/upstream/target.h"

/* `overflow`: what is there before anything is made. `lost`: a document names a generation of which
 * nothing is stored. LINK_REFUSED: that can't be told. */
must_check enum link_result lost_overflow_look(struct link *link, struct mover_target *target,
					       const struct collection_facts *overflow, bool *lost);
/* Nothing is lost: the collection as it is now is the one to be missed. */
must_check enum link_result lost_overflow_settle(struct link *link, struct mover_target *target);
/* Notes the outcome in the target; the log gets a line where it is another than before. */
void lost_overflow_tell(struct target_set *set, struct mover_target *target, bool lost);
