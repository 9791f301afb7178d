/* Tells, but not too often, of connections that are closed and of requests that are refused because
 * of who sent them or of what they would take. */
#pragma once

#include "protocol/stranger.h"

#include <pthread.h>

/* Those of enum stranger come first. */
enum strangers_kind {
	STRANGERS_LATER = STRANGER_COUNT, /* a message that no client sends, on a connection that
					     began as a client's does */
	STRANGERS_PLAIN,                  /* no TLS where the listener wants it */
	STRANGERS_UNSECURED,              /* the handshake of TLS failed */
	STRANGERS_SILENT,                 /* no whole request within limits.handshake */
	STRANGERS_LOGIN,                  /* not signed in within limits.login */
	STRANGERS_PROGRESS,     /* nothing of the rest of a request within limits.progress */
	STRANGERS_CONNECTIONS,  /* limits.connections */
	STRANGERS_ADDRESS,      /* limits.connections_per_address */
	STRANGERS_MEMORY,       /* limits.memory */
	STRANGERS_BEFORE_LOGIN, /* limits.before_login */
	STRANGERS_CROWD,        /* those who have not signed in hold too much together */
	STRANGERS_COMPRESSOR,   /* one that was not agreed on */
	STRANGERS_UNREAD,       /* it does not take its replies while memory is short */
	STRANGERS_GREETINGS,    /* hello, or tries to sign in, too often */
	STRANGERS_SHED,         /* limits.connections, and its address has a crowd */
	STRANGERS_UNPROXIED,    /* no PROXY header from who has to send one */
	STRANGERS_KINDS,
};

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
