/* How the servers bear the work: how far secondaries are behind, and how much is at work. */
#pragma once

#include "proxy/upstream/link.h"

struct lag {
	int64_t milliseconds; /* of the slowest secondary; -1: not known */
	char member[256];     /* its name */
};

/* A standalone has no secondaries: `lag` stays as it is. LINK_REFUSED: the account may not ask. */
must_check enum link_result load_ask_lag(struct link *link, struct lag *lag);
/* Operations that are at work in the link's server, and that wait there for a lock or a ticket. */
must_check enum link_result load_ask_operations(struct link *link, int64_t *operations);
