/* The addresses on which clients can connect: the same on all loops, and changed while these run.
 */
#pragma once

#include "proxy/client/loop.h"

struct listeners;
struct listeners_change;

/* The loops must outlive the listeners' last change. */
struct listeners *listeners_new(struct loop *const *loops, size_t loop_count);
/* Closes nothing: loops close their own sockets when they drain. Takes NULL. */
void listeners_free(struct listeners *listeners);
/* Has clients connect to each entry of `listen` that has a server, and nowhere else, once it is
 * taken. An address that is open stays open, be it for another entry. One that is gone is closed;
 * its connections stay. NULL, and why: a new address cannot be listened on, or another program
 * listens there. One thread at a time, whether the loops run or not; it is taken or dropped before
 * another one is prepared. */
struct listeners_change *listeners_prepare(struct listeners *listeners, const struct config *config,
					   const struct places *places, char *reason, size_t size);
void listeners_take(struct listeners_change *change);
/* Takes NULL. */
void listeners_drop(struct listeners_change *change);
/* The log is told that clients can connect. */
void listeners_tell(const char *address, const char *server);
/* Duplicates of all sockets that the loops listen on, while the loops run: freed and closed by the
 * caller. NULL: there are not enough descriptors. */
int *listeners_sockets(const struct listeners *listeners, size_t *count);
