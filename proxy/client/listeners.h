/* The addresses on which clients can connect: the same on all loops, and changed while these run.
 */
#pragma once

#include "proxy/client/loop.h"

struct listener_place {
	const char *address;
	uint32_t listen_index; /* what its connections are for: in the configuration's list */
};

struct listeners;

/* The loops must outlive the listeners' last change. */
struct listeners *listeners_new(struct loop *const *loops, size_t loop_count);
/* Closes nothing: loops close their own sockets when they drain. Takes NULL. */
void listeners_free(struct listeners *listeners);
/* From now on clients can connect to these places and to no others. An address that was open
 * before stays open, and gets the new listen_index. One that is gone is closed; its connections
 * stay. All or nothing: where a new address cannot be listened on, or another program listens
 * there, nothing changes, and `reason` says why. One thread at a time, whether the loops run or
 * not. */
must_check bool listeners_apply(struct listeners *listeners, const struct listener_place *places,
				size_t count, char *reason, size_t size);
/* Duplicates of all sockets that the loops listen on, while the loops run: freed and closed by the
 * caller. NULL: there are not enough descriptors. */
int *listeners_sockets(const struct listeners *listeners, size_t *count);
