/* Could other rules be in force? */
#pragma once

#include "proxy/mover/mover.h"

#include <stdatomic.h>

/* While the mover is held. Judges as a start does, but makes and records nothing; rules that are in
 * force as they are, are not judged again. Fills in which views would give arrays short. Asks the
 * servers, until `stopping`; MOVER_CHECK_NO_SERVER: they did not say. */
must_check enum mover_check try_rules_now(struct mover *mover, struct rule_set *rules,
					  const atomic_bool *stopping, char *reason, size_t size);
