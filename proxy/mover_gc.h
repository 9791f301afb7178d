/* Garbage: overflow documents of generations that are dead, protocol.md section 5. */
#pragma once

#include "proxy/mover_inner.h"

struct gc;

struct gc *gc_new(struct mover *mover);
void gc_free(struct gc *gc);

/* Looks which of these documents (entries of mover->garbage, taken, of one target) have dead
 * generations; those are removed gc_delay later. Gives the entries back. */
must_check enum link_result gc_look(struct gc *gc, struct link *link, struct mover_work **works,
				    size_t count);
/* Removes this document's dead generations at once: a write that found it too large waits. Readers
 * who still have an image of one read again. LINK_DONE where it is done. */
must_check enum link_result gc_clear(struct link *link, struct mover_target *target,
				     const struct element *id, struct metrics *metrics);
/* Removes what is due. Returns when more will be (INT64_MAX: nothing waits). */
int64_t gc_sweep_out(struct gc *gc, struct link *link, int64_t now);
