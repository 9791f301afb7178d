/* Tells, but not too often, of connections that are closed because no MongoDB client speaks so. */
#pragma once

#include "protocol/stranger.h"

#include <pthread.h>

/* A message that no client sends, on a connection that began as a client's does. */
#define STRANGERS_LATER STRANGER_COUNT
/* A connection on which no whole request has come in time. */
#define STRANGERS_SILENT (STRANGER_COUNT + 1)
/* A client without TLS where TLS is wanted. */
#define STRANGERS_PLAIN (STRANGER_COUNT + 2)
/* The handshake of TLS failed. */
#define STRANGERS_UNSECURED (STRANGER_COUNT + 3)
#define STRANGERS_KINDS (STRANGER_COUNT + 4)

/* One for all loops. */
struct strangers {
	pthread_mutex_t lock;
	struct {
		bool told;
		uint64_t told_at; /* monotonic milliseconds */
		int64_t held;
	} kinds[STRANGERS_KINDS];
};

void strangers_init(struct strangers *strangers);
void strangers_fini(struct strangers *strangers);

/* True where a line of this kind is to be logged at the time `now` (monotonic milliseconds): the
 * first, and one a minute after it. *held: how many were not told since. Any thread. */
must_check bool strangers_due(struct strangers *strangers, unsigned kind, uint64_t now,
			      int64_t *held);
