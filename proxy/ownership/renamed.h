/* Whether the collection whose documents a rule spilled has another name now. Spillway refuses to
 * rename it; straight at mongod nothing does, and then its documents still need the overflow, be
 * there a new collection by the old name or not. The collection's UUID, which it keeps, stands in
 * the record (recorded_rule.h). */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

#define RENAMED_SIZE 320
#define RENAMED_REASON 900

/* `other`: the collection whose documents need the overflow, where another has the rule's name than
 * the record knows, or none has, or it knows none: the one with the UUID that is noted, or the one
 * to whose documents a sample of the overflow belongs (referrers.h). Empty: nobody, or nothing can
 * be told; `notes`: the UUID of the collection by the rule's name is recorded then. LINK_DONE or
 * LINK_LOST. */
must_check enum link_result renamed_find(struct link *link, const struct mover_target *target,
					 bool notes, char other[RENAMED_SIZE]);
/* The same, with what to do about it in `reason`. */
must_check enum link_result renamed_tell(struct link *link, const struct mover_target *target,
					 bool notes, char *reason, size_t size);
/* Once a target; nothing where `other` is empty. */
void renamed_warn(struct mover_target *target, const char *other);
