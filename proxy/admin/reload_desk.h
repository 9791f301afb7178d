/* Where a reload or an upgrade is asked for, and where its outcome lies: between the admin address,
 * which asks and tells, and the main thread, which reloads. */
#pragma once

#include "protocol/bytes.h"

#include <pthread.h>

struct reload_desk {
	pthread_mutex_t lock; /* of what follows, except `waker` */
	pthread_t waker;      /* the thread that waits for the signal */
	int signal;           /* SIGHUP: a reload; SIGUSR2: an upgrade */
	uint64_t asked;       /* how many times somebody asked */
	uint64_t begun;       /* so many of them the latest reload has seen */
	uint64_t ended;       /* and so many the latest that has ended */
	bool good;            /* that one took the file */
	char *report;         /* what it said, a line each; owned; NULL: none has ended */
};

/* In the thread that waits for the signal. */
void reload_desk_init(struct reload_desk *desk, int signal);
void reload_desk_fini(struct reload_desk *desk);
/* Sends the signal. The number of the wish: a reload whose `ended` is no smaller has fulfilled it.
 */
uint64_t reload_desk_ask(struct reload_desk *desk);
void reload_desk_begin(struct reload_desk *desk);
/* Takes the report over. */
void reload_desk_end(struct reload_desk *desk, bool good, char *report);

struct reload_outcome {
	uint64_t ended;
	bool good;
	char *report; /* a copy, freed by the caller; "" if there is none */
};
struct reload_outcome reload_desk_outcome(struct reload_desk *desk);
