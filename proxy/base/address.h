/* Addresses as the configuration writes them, host:port or [host]:port, made into socket addresses.
 */
#pragma once

#include "protocol/base.h"

#include <uv.h>

/* A name that is being looked up. */
struct resolution;
/* Calls `done` with the address, at once where the host is numeric, else from the loop; NULL where
 * it can't be resolved. Returns NULL where `done` has been called already. */
struct resolution *address_resolve(uv_loop_t *loop, const char *address,
				   void (*done)(void *context, const struct sockaddr *address),
				   void *context);
/* Nobody needs it any more: if it has not been begun, it will not be. `done` is called all the
 * same, from the loop. */
void address_give_up(struct resolution *resolution);
/* The same, blocking: for listeners, before anything runs. False where it can't be resolved. */
must_check bool address_resolve_now(const char *address, struct sockaddr_storage *result);
/* In the network's byte order; 0: it has none. */
in_port_t address_port(const struct sockaddr_storage *address);
/* How two addresses may meet: */
typedef bool address_meeting(const struct sockaddr_storage *one,
			     const struct sockaddr_storage *other);
bool address_equals(const struct sockaddr_storage *one, const struct sockaddr_storage *other);
/* Whether a connection to one may come to the other: the same port, and one host or any. */
bool address_overlaps(const struct sockaddr_storage *one, const struct sockaddr_storage *other);
/* Whether only this machine can connect to it. */
bool address_is_loopback(const struct sockaddr_storage *address);
