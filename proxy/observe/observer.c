/* A sample of the commands that pass without a rule. */
#include "proxy/observe/observer.h"

#include "proxy/base/clock.h"
#include "rules/observe/growth.h"

#include <pthread.h>
#include <sys/random.h>

#define MILLION 1000000

struct observer {
	struct observer *next;
	struct observers *all;
	uint64_t random;
	uint64_t left;        /* commands until the next one of the sample */
	pthread_mutex_t lock; /* of the sketch */
	struct sketch sketch;
};

struct observers {
	int64_t share;
	int64_t started; /* clock_now */
	uint64_t key;
	pthread_mutex_t lock; /* of the list */
	struct observer *first;
};

struct observers *observers_new(int64_t share)
{
	struct observers *observers;

	if (share <= 0)
		return NULL;
	observers = must_calloc(1, sizeof(*observers));
	observers->share = share;
	observers->started = clock_now();
	require(getrandom(&observers->key, sizeof(observers->key), 0) == sizeof(observers->key));
	pthread_mutex_init(&observers->lock, NULL);
	return observers;
}

void observers_free(struct observers *observers)
{
	struct observer *next;

	if (!observers)
		return;
	for (struct observer *at = observers->first; at; at = next) {
		next = at->next;
		sketch_fini(&at->sketch);
		pthread_mutex_destroy(&at->lock);
		free(at);
	}
	pthread_mutex_destroy(&observers->lock);
	free(observers);
}

/* From 1 on, on average as many as a share means; drawn, so that no rhythm of clients matters. */
static void draw(struct observer *observer)
{
	uint64_t most = 2 * MILLION / (uint64_t)observer->all->share;

	observer->random ^= observer->random << 13;
	observer->random ^= observer->random >> 7;
	observer->random ^= observer->random << 17;
	observer->left = 1 + (most > 1 ? observer->random % (most - 1) : 0);
}

struct observer *observers_join(struct observers *observers)
{
	struct observer *observer;

	if (!observers)
		return NULL;
	observer = must_calloc(1, sizeof(*observer));
	observer->all = observers;
	pthread_mutex_init(&observer->lock, NULL);
	pthread_mutex_lock(&observers->lock);
	observer->next = observers->first;
	observers->first = observer;
	pthread_mutex_unlock(&observers->lock);
	observer->random = observers->key ^ (uintptr_t)observer;
	observer->random += observer->random == 0;
	draw(observer);
	return observer;
}

void observers_collect(struct observers *observers, struct sketch *sketch)
{
	pthread_mutex_lock(&observers->lock);
	for (struct observer *at = observers->first; at; at = at->next) {
		pthread_mutex_lock(&at->lock);
		sketch_merge(sketch, &at->sketch);
		pthread_mutex_unlock(&at->lock);
	}
	pthread_mutex_unlock(&observers->lock);
}

int64_t observers_seconds(const struct observers *observers)
{
	return (clock_now() - observers->started) / 1000;
}

bool observer_is_due(struct observer *observer)
{
	if (--observer->left > 0)
		return false;
	draw(observer);
	return true;
}

void observer_look(struct observer *observer, struct bytes frame)
{
	pthread_mutex_lock(&observer->lock);
	growth_count(&observer->sketch, frame, observer->all->key);
	pthread_mutex_unlock(&observer->lock);
}
