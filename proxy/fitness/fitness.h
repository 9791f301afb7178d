/* Checks on the server whether a rule can hold on a namespace, and makes the overflow's indexes
 * (docs/internals/spill-protocol.md, "Fitness"). */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

enum fitness_extent {
	FITNESS_OF_MAIN, /* the main collection may have changed: its options and indexes */
	FITNESS_OF_BOTH, /* all, with rights and the overflow's indexes */
	FITNESS_OF_PLAN, /* all, but nothing is made or recorded: could it be? */
};

/* Judges the target (target_judge) by what the server says now. LINK_LOST if it says nothing, else
 * LINK_DONE. Under a pattern nothing is made for a collection that does not exist: the target's
 * fitness stays unknown, and nothing may be stored. */
must_check enum link_result fitness_check(struct link *link, struct target_set *set,
					  struct mover_target *target, enum fitness_extent extent);
