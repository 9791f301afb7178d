/* The driver's own monitoring of a replica set: it resolves mongodb+srv://, follows the members in
 * threads of its own, and says when something changes. */
#pragma once

#include <bson/bson.h>

struct topology;

/* `name` is what servers are told of its connections. NULL: why not. */
struct topology *topology_start(const char *uri, const char *name, bson_error_t *error);
/* Waits for the driver's threads. Takes NULL. */
void topology_stop(struct topology *topology);
/* The servers that the driver sees, those that answer first, the primary before them. Ends with
 * NULL; the list and its texts are the caller's to free. */
char **topology_hosts(struct topology *topology);
/* True once a server has answered. */
bool topology_answers(struct topology *topology);
/* Waits, so long at most, until something is another than when *seen was set. */
bool topology_await_change(struct topology *topology, uint64_t *seen, int64_t milliseconds);
/* The URI as mongodb:// with what the DNS says of it; freed by the caller. */
char *topology_plain_uri(const struct topology *topology);
