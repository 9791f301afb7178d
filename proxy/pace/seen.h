/* Outliers that stood there when a collection was swept for the first time, and wait (`existing:
 * wait`): each by a hash of its `_id` and of its array's size, so that one that has changed is
 * none of them. */
#pragma once

#include "protocol/cursor.h"
#include "proxy/upstream/target.h"

#define SEEN_MOST (1 << 20)

uint64_t seen_hash(const struct element *id, int64_t size);
/* While the first sweep goes on; false: there is no room for more. */
must_check bool seen_add(struct target_seen *seen, uint64_t hash);
/* The first sweep is over: `whole` if it saw all, else all is forgotten. */
void seen_end(struct target_seen *seen, bool whole);
/* It waits: it stood there as it is, or nobody knows because there were too many. */
bool seen_waits(const struct target_seen *seen, uint64_t hash);
