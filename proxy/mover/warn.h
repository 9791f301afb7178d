/* Tells, but not too often, that servers refuse what the mover asks: tails do not move then. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

struct mover_warnings;

struct mover_warnings *mover_warnings_new(void);
void mover_warnings_free(struct mover_warnings *warnings);

/* True where a refusal of this kind is to be told at the time `now` (monotonic milliseconds): the
 * first of its target and code, and one a minute after it. *held: how many were not told since. Any
 * thread. */
must_check bool mover_warnings_due(struct mover_warnings *warnings,
				   const struct mover_target *target, int64_t code, int64_t now,
				   int64_t *held);

/* Logs what the link was refused, where that is due, and what to do. */
void mover_warn(struct mover_warnings *warnings, const struct mover_target *target,
		const struct link_error *error);
