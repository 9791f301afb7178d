/* Where a reload is asked for, and where its outcome lies. */
#include "proxy/admin/reload_desk.h"

#include <signal.h>
#include <stdlib.h>

void reload_desk_init(struct reload_desk *desk, int signal)
{
	*desk = (struct reload_desk){.waker = pthread_self(), .signal = signal};
	pthread_mutex_init(&desk->lock, NULL);
}

void reload_desk_fini(struct reload_desk *desk)
{
	free(desk->report);
	pthread_mutex_destroy(&desk->lock);
}

uint64_t reload_desk_ask(struct reload_desk *desk)
{
	uint64_t number;

	pthread_mutex_lock(&desk->lock);
	number = ++desk->asked;
	pthread_mutex_unlock(&desk->lock);
	pthread_kill(desk->waker, desk->signal);
	return number;
}

void reload_desk_begin(struct reload_desk *desk)
{
	pthread_mutex_lock(&desk->lock);
	desk->begun = desk->asked;
	pthread_mutex_unlock(&desk->lock);
}

void reload_desk_end(struct reload_desk *desk, bool good, char *report)
{
	pthread_mutex_lock(&desk->lock);
	free(desk->report);
	desk->report = report;
	desk->good = good;
	desk->ended = desk->begun;
	pthread_mutex_unlock(&desk->lock);
}

struct reload_outcome reload_desk_outcome(struct reload_desk *desk)
{
	struct reload_outcome outcome;

	pthread_mutex_lock(&desk->lock);
	outcome = (struct reload_outcome){desk->ended, desk->good,
					  must_strndup(desk->report ? desk->report : "",
						       desk->report ? strlen(desk->report) : 0)};
	pthread_mutex_unlock(&desk->lock);
	return outcome;
}
