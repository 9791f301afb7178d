/* A listening socket of one loop. Accepting pauses, and says so once, while descriptors are short.
 */
#pragma once

#include "proxy/client/loop.h"

struct listener {
	uv_poll_t poll;
	struct loop *loop;
	uint32_t listen_index;
	int socket;
	bool paused;
	bool told; /* that it paused: told once until all who waited were served */
};

/* True when nobody listens on the address yet; else, and where it can't be bound at all, false with
 * a reason. */
must_check bool listener_probe(const char *address, char *reason, size_t size);
/* Every loop opens its own socket on the same address (SO_REUSEPORT). */
must_check bool listener_open(struct listener *listener, struct loop *loop, uint32_t listen_index,
			      char *reason, size_t size);
void listener_close(struct listener *listener);
/* Accepts again after a pause, if there are descriptors. */
void listener_resume(struct listener *listener);
