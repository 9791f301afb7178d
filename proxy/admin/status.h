/* What the admin address tells of a running Spillway: the status page, the rules, its own
 * connections. */
#pragma once

#include "proxy/mover/mover.h"

struct status {
	const struct config *config;
	struct mover *mover;
	int64_t started; /* monotonic microseconds */
};

/* Each appends a whole answer: HTML without scripts; JSON; JSON. */
void status_page(struct buffer *out, const struct status *status);
void status_rules(struct buffer *out, const struct status *status);
/* {"connections": ["127.0.0.1:4711", ...]}: our ends of the connections to servers, as these name
 * them. */
void status_connections(struct buffer *out, const struct status *status);
