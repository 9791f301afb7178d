/* Tending: what is done for a client that changed a ruled collection.
 *
 * Removing is done page by page, so that a large overflow holds nothing else up for long; who waits
 * for it is told after a second, and it goes on. */
#include "proxy/mover/tend.h"

#include "proxy/mover/judgement.h"
#include "proxy/base/clock.h"

#include "proxy/fitness/mirror.h"
#include "proxy/mover/garbage.h"

#include <stdlib.h>

#define WAIT_MS 1000

struct tending {
	struct tending *next;
	struct mover_target *target;
	enum mover_tending what;
	void (*done)(void *context, bool tended);
	void *context;
	int64_t began;
	struct place place; /* how far the removing has come */
};

struct tend_list {
	pthread_mutex_t lock;
	struct tending *first, **last;
	bool closed;
};

struct tend_list *tend_list_new(void)
{
	struct tend_list *list = must_calloc(1, sizeof(*list));

	pthread_mutex_init(&list->lock, NULL);
	list->last = &list->first;
	return list;
}

static void tell(struct tending *tending, bool tended)
{
	if (tending->done)
		tending->done(tending->context, tended);
	tending->done = NULL;
}

static void tending_end(struct tending *tending, bool tended)
{
	tell(tending, tended);
	bytes_free(tending->place.value);
	free(tending);
}

static void put(struct tend_list *list, struct tending *tending)
{
	bool closed;

	tending->next = NULL;
	pthread_mutex_lock(&list->lock);
	closed = list->closed;
	if (!closed) {
		*list->last = tending;
		list->last = &tending->next;
	}
	pthread_mutex_unlock(&list->lock);
	if (closed)
		tending_end(tending, false);
}

static struct tending *take_all(struct tend_list *list)
{
	struct tending *first;

	pthread_mutex_lock(&list->lock);
	first = list->first;
	list->first = NULL;
	list->last = &list->first;
	pthread_mutex_unlock(&list->lock);
	return first;
}

void tend_list_close(struct tend_list *list)
{
	struct tending *tending, *next;

	pthread_mutex_lock(&list->lock);
	list->closed = true;
	pthread_mutex_unlock(&list->lock);
	for (tending = take_all(list); tending; tending = next) {
		next = tending->next;
		tending_end(tending, false);
	}
}

void tend_list_free(struct tend_list *list)
{
	tend_list_close(list);
	pthread_mutex_destroy(&list->lock);
	free(list);
}

void tend_list_add(struct tend_list *list, struct mover_target *target, enum mover_tending what,
		   void (*done)(void *context, bool tended), void *context)
{
	struct tending *tending = must_calloc(1, sizeof(*tending));

	tending->target = target;
	tending->what = what;
	tending->done = done;
	tending->context = context;
	tending->began = clock_now();
	put(list, tending);
}

static enum link_result tend_indexes(struct mover *mover, struct link *link,
				     struct mover_target *target)
{
	enum link_result result = judgement_renew(mover, link, target, true);

	if (result != LINK_DONE || target->fitness != FITNESS_FIT)
		return result;
	atomic_store(&target->mirror_due, false);
	return mirror_renew(link, target);
}

/* One step; `*more` where another has to follow. */
static enum link_result tend(struct mover *mover, struct link *link, struct tending *tending,
			     bool *more)
{
	switch (tending->what) {
	case MOVER_TEND_NOTHING:
		return LINK_DONE;
	case MOVER_TEND_INDEXES:
		return tend_indexes(mover, link, tending->target);
	case MOVER_TEND_GONE:
		return gc_remove_page(mover, link, tending->target, &tending->place, more);
	}
	require(!"a kind of tending without a name");
}

bool tend_list_work(struct tend_list *list, struct mover *mover, struct link **link)
{
	struct tending *next, *tending = take_all(list);
	bool again = false;

	for (; tending; tending = next) {
		enum link_result result = LINK_LOST;
		bool more = false;
		bson_error_t error;

		next = tending->next;
		if (!atomic_load(&mover->stopping) && !target_is_gone(tending->target) &&
		    mover_connect(mover, link, &error))
			result = tend(mover, *link, tending, &more);
		if (result != LINK_DONE || !more) {
			tending_end(tending, result == LINK_DONE);
			continue;
		}
		if (clock_now() > tending->began + WAIT_MS)
			tell(tending, true);
		put(list, tending);
		again = true;
	}
	return again;
}
