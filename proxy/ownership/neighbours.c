/* Is another Spillway connected to the server? */
#include "proxy/ownership/neighbours.h"

#include "proxy/upstream/clauses.h"

#include <poll.h>

#define TRIES 15
#define PAUSE_MS 100

/* A session that a killed one left open, in a transaction, is not a connection. */
static enum link_result look(struct link *link, bool *found)
{
	struct bytes document;
	enum link_result result = command_find_one(
		link, "admin", &document,
		"{aggregate: 1, pipeline: [{$currentOp: {allUsers: true, idleConnections: true, "
		"idleSessions: false}}, {$match: {appName: {$regex: '^" LINK_NAME "( [(]|$)'}, "
		"'command.pipeline.0.$currentOp': {$exists: false}}}, {$limit: 1}], cursor: {}}");

	if (result == LINK_DONE)
		*found = document.data;
	return result;
}

must_check enum link_result neighbours_find(struct link *link, bool *found)
{
	enum link_result result = look(link, found);

	for (int i = 0; result == LINK_DONE && *found && i < TRIES; i++) {
		(void)poll(NULL, 0, PAUSE_MS);
		result = look(link, found);
	}
	if (result != LINK_REFUSED)
		return result;
	*found = true; /* nobody knows */
	return LINK_DONE;
}
