/* The sweep: looks through collections for outliers and orphans that nobody noted. Slowly. */
#pragma once

#include "proxy/mover/mover_inner.h"

/* Finds the namespaces that the rules' patterns match now; each becomes a target. */
must_check enum link_result sweep_find_namespaces(struct mover *mover, struct link *link);
/* Looks through one target's collection, and its overflow for orphans. What is found goes to the
 * mover's queues. */
must_check enum link_result sweep_target(struct mover *mover, struct link *link,
					 struct mover_target *target);
