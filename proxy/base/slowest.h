/* The slowest operations of the last minutes, for `status` and `top`. Any thread. */
#pragma once

#include "protocol/base.h"

#include <stdint.h>

#define SLOWEST_MINUTES 10

struct slowest_entry {
	int64_t at; /* monotonic milliseconds */
	int64_t milliseconds;
	char command[32], namespace[200], rule[64];
};

/* Keeps it if it is among the slowest. */
void slowest_note(const struct slowest_entry *entry);
/* Hands each over that is not older than SLOWEST_MINUTES, the slowest first. */
void slowest_each(void (*each)(void *context, const struct slowest_entry *entry), void *context);
