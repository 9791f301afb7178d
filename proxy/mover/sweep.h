/* The sweep: looks through collections for outliers and orphans that nobody noted. Slowly. */
#pragma once

#include "proxy/mover/mover_inner.h"

/* Looks through one target's collection, and its overflow for orphans. What is found goes to the
 * mover's queues. */
must_check enum link_result sweep_target(struct mover *mover, struct link *link,
					 struct mover_target *target);
/* The first part of that, for a target that waits: learns which outliers are there, so that later
 * sweeps find those that have changed since. */
must_check enum link_result sweep_learn(struct mover *mover, struct link *link,
					struct mover_target *target);
