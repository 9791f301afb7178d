/* Addresses as the configuration writes them, host:port or [host]:port, made into socket addresses.
 */
#pragma once

#include "protocol/base.h"

#include <uv.h>

/* Calls `done` with the address, at once where the host is numeric, else from the loop; NULL where
 * it can't be resolved. */
void address_resolve(uv_loop_t *loop, const char *address,
		     void (*done)(void *context, const struct sockaddr *address), void *context);
/* The same, blocking: for listeners, before anything runs. False where it can't be resolved. */
must_check bool address_resolve_now(const char *address, struct sockaddr_storage *result);
/* Whether only this machine can connect to it. */
bool address_is_loopback(const struct sockaddr_storage *address);
