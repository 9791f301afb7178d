/* Entries of the mover's queue by the time when they are due: a binary heap. */
#pragma once

#include "proxy/mover/queue.h"

#define WORK_NOWHERE SIZE_MAX /* the place of an entry that is not in the heap */

struct work_heap {
	struct mover_work **all; /* all[i] is due no later than all[2i+1] and all[2i+2]; owned */
	size_t length;
};

/* Tells and frees all of them. */
void work_tell(struct mover_waiter *waiter, bool moved);
/* Who waits for it is told that nothing was moved. */
void work_free(struct mover_work *work);
/* What it owns beside itself. */
size_t work_bytes(const struct mover_work *work);
/* Milliseconds until what did not get through is tried again. */
int64_t work_pause(int64_t tries);
/* Whether it is to be looked at again for a write that could not be seen yet, and when. */
bool work_looks_again(const struct mover_work *work, int64_t now, int64_t *due);

/* Room for MOVER_QUEUE_MAX entries. */
void work_heap_init(struct work_heap *heap);
void work_heap_fini(struct work_heap *heap);
/* When the first is due; INT64_MAX: the heap is empty. */
int64_t work_heap_due(const struct work_heap *heap);
/* Puts the entry where its `due` belongs, be it in the heap already or not. */
void work_heap_put(struct work_heap *heap, struct mover_work *work);
/* Takes the first one out: all[0]. */
void work_heap_pop(struct work_heap *heap);
