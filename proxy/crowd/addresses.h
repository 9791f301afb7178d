/* Counts how often each address comes: which one has the most connections of some kind. */
#pragma once

#include "proxy/crowd/peers.h"

#define ADDRESSES_MAX 64 /* others are not counted */

/* All zeros counts none. */
struct addresses {
	struct {
		const struct peer *peer; /* borrowed */
		size_t count;
	} all[ADDRESSES_MAX];
	size_t count;
};

void addresses_add(struct addresses *addresses, const struct peer *peer);
/* The one that came most often, *count times; NULL: none has come. */
const struct peer *addresses_most(const struct addresses *addresses, size_t *count);
