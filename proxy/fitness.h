/* Checks on the server whether a rule can hold on a namespace, and makes the overflow's indexes
 * (protocol.md section 8). */
#pragma once

#include "proxy/mover_link.h"
#include "proxy/mover_target.h"

/* Judges the target (target_judge) by what the server says now. LINK_LOST where it says nothing;
 * else LINK_DONE. */
must_check enum link_result fitness_check(struct link *link, struct target_set *set,
					  struct mover_target *target);
