/* Garbage: overflow documents of generations that are dead (docs/internals/spill-protocol.md,
 * "Garbage"). */
#pragma once

#include "proxy/mover/mover_inner.h"

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
/* The same of several: an array of `_id`s. */
must_check enum link_result gc_clear_links(struct link *link, struct mover_target *target,
					   struct bytes links, struct metrics *metrics);
/* Removes at once, from the next page of the overflow, what belongs to no document of the main
 * collection, for one that was dropped. `place` is how far the overflow has been looked through.
 * Generations of a document that is there again wait their time as usual. `*more`: there is another
 * page. */
must_check enum link_result gc_remove_page(struct mover *mover, struct link *link,
					   struct mover_target *target, struct place *place,
					   bool *more);
/* Removes what is due. Returns when more will be (INT64_MAX: nothing waits). */
int64_t gc_sweep_out(struct gc *gc, struct link *link, int64_t now);
