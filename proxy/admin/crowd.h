/* The open connections of the admin address: whoever is slow gives way to newcomers.
 *
 * libmicrohttpd stops accepting at its limits, and only silence ends a connection. Clients that
 * send a byte now and then would hold all places. So the oldest connection is shut down before a
 * limit is reached: of one client address, or of all. */
#pragma once

#include <sys/socket.h>

/* libmicrohttpd's limits leave room for connections that are shut down and not closed yet. */
#define CROWD_MAX 400u
#define CROWD_OF_ADDRESS 200u
#define CROWD_SPARE 100u

struct crowd;
struct crowd_member;

struct crowd *crowd_new(void);
/* Only when it is empty. NULL is none. */
void crowd_free(struct crowd *crowd);
/* All calls come from libmicrohttpd's thread. The member leaves before its descriptor is closed. */
struct crowd_member *crowd_enter(struct crowd *crowd, const struct sockaddr *address,
				 int descriptor);
void crowd_leave(struct crowd *crowd, struct crowd_member *member);
