/* A listening socket of one loop. Accepting pauses, and says so once, while descriptors are short.
 */
#pragma once

#include "proxy/client/loop.h"

struct listener {
	uv_poll_t poll;
	struct loop *loop;
	struct listener *next; /* of the loop's */
	char *address;         /* owned */
	uint32_t listen_index;
	int socket;
	bool paused;
	bool told; /* that it paused: told once until all who waited were served */
};

/* True when nobody listens on the address yet, or this process was started with a socket that does
 * (inherited.h); else, and where it can't be bound at all, false with a reason. `ours`: this
 * process listens on an address that overlaps it, which is no obstacle. */
must_check bool listener_probe(const char *address, bool ours, char *reason, size_t size);
/* A socket that listens, maybe one that this process was started with; other sockets of this
 * process may listen on the same address (SO_REUSEPORT). Below 0: why there is none is in `reason`.
 */
must_check int listener_bind(const char *address, char *reason, size_t size);
/* On the loop's thread, or before it runs: the loop accepts on this socket of listener_bind. */
void listener_open(struct loop *loop, const char *address, uint32_t listen_index, int socket);
/* On the loop's thread: takes who waits. */
void listener_accept(struct listener *listener);
/* The listener leaves the loop, and is freed later. Its connections stay. */
void listener_close(struct listener *listener);
/* Accepts again after a pause, if there are descriptors. */
void listener_resume(struct listener *listener);
