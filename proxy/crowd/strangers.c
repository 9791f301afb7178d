/* Tells, but not too often, of connections that are closed and of requests that are refused. */
#include "proxy/crowd/strangers.h"

#define PERIOD_MS 60000

void strangers_init(struct strangers *strangers)
{
	memset(strangers, 0, sizeof(*strangers));
	require(pthread_mutex_init(&strangers->lock, NULL) == 0);
}

void strangers_fini(struct strangers *strangers)
{
	pthread_mutex_destroy(&strangers->lock);
}

must_check bool strangers_due(struct strangers *strangers, unsigned kind, uint64_t now,
			      int64_t *held)
{
	bool due;

	pthread_mutex_lock(&strangers->lock);
	due = !strangers->kinds[kind].told || now >= strangers->kinds[kind].told_at + PERIOD_MS;
	*held = strangers->kinds[kind].held;
	strangers->kinds[kind].held = due ? 0 : *held + 1;
	if (due) {
		strangers->kinds[kind].told = true;
		strangers->kinds[kind].told_at = now;
	}
	pthread_mutex_unlock(&strangers->lock);
	return due;
}
