/* Who is connected: applications and drivers, and how many connections each has. Any thread. */
#pragma once

#include "proxy/crowd/peers.h"

struct client_entry;

/* Counts one more connection; the texts are copied and may be NULL. Behind 256 kinds all others are
 * one, "(other clients)". */
struct client_entry *clients_join(const char *application, const char *driver,
				  const struct peer *peer);
/* Counts one less. `entry` may be NULL. */
void clients_leave(struct client_entry *entry);

/* Views. */
struct client_view {
	const char *application, *driver; /* "" if unknown */
	const char *host;                 /* without the port */
	int64_t connections;
};
/* The texts live as long as the call. */
void clients_each(void (*each)(void *context, const struct client_view *view), void *context);
