/* Exact change streams with stages of the client, that are open at a server. */
#pragma once

#include "proxy/upstream/link.h"

/* Each event of such a stream carries the stages, which only a rule's getMore takes away and runs.
 * Calls `take` with the namespace of each: "<database>.$cmd.aggregate" if it watches all of the
 * database, that of "admin" if it watches the cluster. */
must_check enum link_result open_streams_each(struct link *link,
					      void (*take)(void *context, struct bytes database,
							   struct bytes collection),
					      void *context);
