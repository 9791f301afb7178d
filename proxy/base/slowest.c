/* A short list of slow operations, sorted. */
#include "proxy/base/slowest.h"

#include "proxy/base/clock.h"

#include <pthread.h>
#include <string.h>

#define KEPT 10

static struct slowest_entry all[KEPT];
static size_t count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void forget_old(int64_t now)
{
	size_t left = 0;

	for (size_t i = 0; i < count; i++)
		if (all[i].at + SLOWEST_MINUTES * 60000 > now)
			all[left++] = all[i];
	count = left;
}

void slowest_note(const struct slowest_entry *entry)
{
	size_t place = 0;

	pthread_mutex_lock(&lock);
	forget_old(entry->at);
	while (place < count && all[place].milliseconds >= entry->milliseconds)
		place++;
	if (place < KEPT) {
		count += count < KEPT;
		memmove(&all[place + 1], &all[place], (count - 1 - place) * sizeof(all[0]));
		all[place] = *entry;
	}
	pthread_mutex_unlock(&lock);
}

void slowest_each(void (*each)(void *context, const struct slowest_entry *entry), void *context)
{
	pthread_mutex_lock(&lock);
	forget_old(clock_now());
	for (size_t i = 0; i < count; i++)
		each(context, &all[i]);
	pthread_mutex_unlock(&lock);
}
