/* Whether the collection whose documents a rule spilled has another name now. Spillway refuses to
 * rename it; straight at mongod nothing does, and then its documents still need the overflow, be
 * there a new collection by the old name or not. The collection's UUID, which it keeps, stands in
 * the record (recorded_rule.h). */
#pragma once

#include "proxy/mover_link.h"
#include "proxy/mover_target.h"

#define RENAMED_SIZE 320
#define RENAMED_REASON 900

/* `other`: who refers to the overflow instead: the collection with the UUID that is noted, or where
 * another has the rule's name, or none is noted, the one whose documents do (referrers.h); empty:
 * nobody, or nothing can be told. `notes`: the UUID of the collection by the rule's name is
 * recorded then. LINK_DONE or LINK_LOST. */
must_check enum link_result renamed_find(struct link *link, const struct mover_target *target,
					 bool notes, char other[RENAMED_SIZE]);
/* The same, with what to do about it in `reason`. */
must_check enum link_result renamed_tell(struct link *link, const struct mover_target *target,
					 bool notes, char *reason, size_t size);
