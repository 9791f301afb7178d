/* Is another Spillway connected to the server? */
#include "proxy/ownership/neighbours.h"

#include <bson/bson.h>
#include <poll.h>

#define TRIES 15
#define PAUSE_MS 100

/* A session that a killed one left open, in a transaction, is not a connection. */
static enum link_result look(struct link *link, bool *found)
{
	bson_t *command = BCON_NEW(
		"aggregate", BCON_INT32(1), "pipeline", "[", "{", "$currentOp", "{", "allUsers",
		BCON_BOOL(true), "idleConnections", BCON_BOOL(true), "idleSessions",
		BCON_BOOL(false), "}", "}", "{", "$match", "{", "appName", BCON_UTF8("spillway"),
		"command.pipeline.0.$currentOp", "{", "$exists", BCON_BOOL(false), "}", "}", "}",
		"{", "$limit", BCON_INT32(1), "}", "]", "cursor", "{", "}");
	enum link_result result = link_find_any(link, "admin", command, found);

	bson_destroy(command);
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
