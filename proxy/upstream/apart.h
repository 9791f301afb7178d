/* Other Spillways before the same replica set that tell clients other addresses. A driver keeps the
 * addresses of one Spillway alone: a connection string that names both does not fail over. */
#pragma once

#include "proxy/upstream/link.h"
#include "rules/config/config.h"

/* What the driver's monitoring is named: other Spillways see there what this one advertises. Freed
 * by the caller. */
char *apart_name(const struct config *config);
/* Looks for one on the server of this link. True, and why that is wrong. Who may not see others'
 * connections finds none. */
bool apart_find(struct link *link, const struct config *config, char *reason, size_t size);
