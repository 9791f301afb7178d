/* Entries of the mover's queue by the time when they are due. */
#include "proxy/mover/work_heap.h"

#include <stdlib.h>

#define UNSETTLED_FIRST_MS 1000
#define UNSETTLED_LAST_MS 60000
#define PAUSE_FIRST_MS 10
#define PAUSE_LAST_MS 5000

void work_tell(struct mover_waiter *waiter, bool moved)
{
	while (waiter) {
		struct mover_waiter *next = waiter->next;

		waiter->done(waiter->context, moved);
		free(waiter);
		waiter = next;
	}
}

void work_free(struct mover_work *work)
{
	work_tell(work->waiters, false);
	bytes_free(work->id);
	bytes_free(work->filter);
	bytes_free(work->collation);
	free(work);
}

size_t work_bytes(const struct mover_work *work)
{
	return work->id.length + work->filter.length + work->collation.length;
}

/* Doubled from 10 ms up to 5 s, and then anything up to that, so that two movers don't meet again
 * and again. */
int64_t work_pause(int64_t tries)
{
	int64_t most = tries < 9 ? PAUSE_FIRST_MS << tries : PAUSE_LAST_MS;

	return 1 + (int64_t)arc4random_uniform((uint32_t)most);
}

/* An entry that may have a write which can't be seen yet is looked at 1, 2, 4, ... s after it. */
bool work_looks_again(const struct mover_work *work, int64_t now, int64_t *due)
{
	int64_t past = now - work->unsettled.from, after = UNSETTLED_FIRST_MS;

	if (!work->unsettled.expected || past >= UNSETTLED_LAST_MS)
		return false;
	while (after <= past)
		after *= 2;
	*due = work->unsettled.from + (after < UNSETTLED_LAST_MS ? after : UNSETTLED_LAST_MS);
	return true;
}

void work_heap_init(struct work_heap *heap)
{
	heap->all = must_calloc(MOVER_QUEUE_MAX, sizeof(struct mover_work *));
}

void work_heap_fini(struct work_heap *heap)
{
	free(heap->all);
}

int64_t work_heap_due(const struct work_heap *heap)
{
	return heap->length > 0 ? heap->all[0]->due : INT64_MAX;
}

static void set(struct work_heap *heap, size_t place, struct mover_work *work)
{
	heap->all[place] = work;
	work->place = place;
}

static void up(struct work_heap *heap, size_t place)
{
	struct mover_work *work = heap->all[place];

	while (place > 0 && heap->all[(place - 1) / 2]->due > work->due) {
		set(heap, place, heap->all[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	set(heap, place, work);
}

static void down(struct work_heap *heap, size_t place)
{
	struct mover_work *work = heap->all[place];
	size_t child;

	while ((child = 2 * place + 1) < heap->length) {
		if (child + 1 < heap->length && heap->all[child + 1]->due < heap->all[child]->due)
			child++;
		if (heap->all[child]->due >= work->due)
			break;
		set(heap, place, heap->all[child]);
		place = child;
	}
	set(heap, place, work);
}

void work_heap_pop(struct work_heap *heap)
{
	heap->all[0]->place = WORK_NOWHERE;
	heap->length--;
	if (heap->length == 0)
		return;
	set(heap, 0, heap->all[heap->length]);
	down(heap, 0);
}

void work_heap_put(struct work_heap *heap, struct mover_work *work)
{
	if (work->place == WORK_NOWHERE)
		set(heap, heap->length++, work);
	up(heap, work->place);
	down(heap, work->place);
}
