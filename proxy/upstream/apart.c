/* Looks at the names of connections, as mongod lists them. */
#include "proxy/upstream/apart.h"

#include "proxy/upstream/clauses.h"
#include "rules/rule/text.h"

#include <mongoc/mongoc.h>
#include <stdio.h>

#define PREFIX "spillway watch"
#define TRIES 15
#define PAUSE_MS 100

char *apart_name(const struct config *config)
{
	auto_buffer struct buffer name = {0};

	text_append(&name, PREFIX " %s", config->listen[0].advertise);
	if (name.length > MONGOC_HANDSHAKE_APPNAME_MAX)
		name.length = MONGOC_HANDSHAKE_APPNAME_MAX;
	return text_steal(&name);
}

static bool look(struct link *link, const char *own, char *other, size_t size)
{
	struct bytes document, name;
	enum link_result result = command_find_one(
		link, "admin", &document,
		"{aggregate: 1, pipeline: [{$currentOp: {allUsers: true, idleConnections: true, "
		"idleSessions: false}}, {$match: {appName: {$regex: '^" PREFIX " .', $ne: @own}}}, "
		"{$project: {appName: 1}}, {$limit: 1}], cursor: {}}",
		fill_text("own", own));

	if (result != LINK_DONE || !document.data ||
	    !document_find_string(document, "appName", &name) || name.length <= strlen(PREFIX))
		return false;
	snprintf(other, size, "%.*s", (int)(name.length - strlen(PREFIX " ")),
		 (const char *)name.data + strlen(PREFIX " "));
	return true;
}

/* One that has just ended is seen a moment longer. */
bool apart_find(struct link *link, const struct config *config, char *reason, size_t size)
{
	auto_free char *own = apart_name(config);
	char other[MONGOC_HANDSHAKE_APPNAME_MAX + 1];
	bool found = look(link, own, other, sizeof(other));

	for (int i = 0; found && i < TRIES && link_pause(link, PAUSE_MS); i++)
		found = look(link, own, other, sizeof(other));
	if (found)
		snprintf(reason, size,
			 "another Spillway before this replica set advertises '%s', and this one "
			 "'%s': a driver that is given both addresses keeps those of one Spillway, "
			 "and finds no server when that one ends. Put both behind one address and "
			 "advertise it; or write replica_set.others: allow, if no client is given "
			 "both",
			 other, config->listen[0].advertise);
	return found;
}
