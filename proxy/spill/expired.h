/* What an array that was edited in place keeps for its earlier editions, and what an edit has left
 * that nobody goes on with (docs/internals/spill-protocol.md#edits-in-place, "Garbage"). */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"
#include "rules/rule/state.h"

/* A state as G1 has read it. */
struct expired {
	bool any; /* the array was edited in place */
	bool pending;
	uint8_t older[GENERATION_BYTES], later[GENERATION_BYTES], name[GENERATION_BYTES];
	int64_t bound, edition;
};

void expired_note(struct expired *expired, const struct state *state);
/* G2 and G3, gc_delay later: a transaction, or several where one would be too large. */
must_check enum link_result expired_remove(struct link *link, const struct mover_target *target,
					   const struct element *id, const struct expired *expired);
