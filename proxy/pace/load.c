/* How the servers bear the work: how far secondaries are behind, and how much is at work. */
#include "proxy/pace/load.h"

#include "proxy/upstream/clauses.h"

#include <stdio.h>

#define NO_REPLICATION 76
#define SECONDARY 2

/* When the member wrote last; -1: it holds no data, or is away. */
static int64_t written_at(struct bytes member, int64_t *state)
{
	struct element element;

	if (!document_find(member, "state", &element) || !element_integer(&element, state) ||
	    !document_find(member, "optimeDate", &element) || element.type != BSON_BYTE_DATE)
		return -1;
	return load_int64(element.value.data);
}

/* How far the slowest secondary is behind the member that is furthest. `slowest` is it. */
static int64_t lag_of(struct bytes members, struct bytes *slowest)
{
	struct cursor cursor;
	struct element each;
	struct bytes member;
	int64_t first = -1, last = INT64_MAX, state = 0, at;

	*slowest = (struct bytes){0};
	if (!cursor_open(&cursor, members))
		return -1;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT) {
		if (!element_document(&each, &member))
			continue;
		at = written_at(member, &state);
		if (at > first)
			first = at;
		if (at < 0 || state != SECONDARY || at >= last)
			continue;
		last = at;
		*slowest = member;
	}
	return last == INT64_MAX ? 0 : first - last;
}

static void take_lag(struct lag *lag, struct bytes members)
{
	struct bytes slowest, name = {0};
	struct element element;

	lag->milliseconds = lag_of(members, &slowest);
	if (document_find(slowest, "name", &element) && !element_string(&element, &name))
		name = (struct bytes){0};
	snprintf(lag->member, sizeof(lag->member), "%.*s", (int)name.length,
		 name.length > 0 ? (const char *)name.data : "");
}

must_check enum link_result load_ask_lag(struct link *link, struct lag *lag)
{
	struct element members;
	enum link_result result = command_run(link, "admin", "{replSetGetStatus: 1}");

	if (result == LINK_DONE && document_find(link_body(link), "members", &members))
		take_lag(lag, members.value);
	if (result == LINK_REFUSED && link_error(link)->code == NO_REPLICATION)
		return LINK_DONE;
	return result;
}

static int64_t number_at(struct bytes document, const char *path)
{
	int64_t number;

	return document_find_integer(document, path, &number) ? number : 0;
}

must_check enum link_result load_ask_operations(struct link *link, int64_t *operations)
{
	enum link_result result = command_run(
		link, "admin",
		"{serverStatus: 1, metrics: 0, wiredTiger: 0, locks: 0, repl: 0, tcmalloc: 0, "
		"opLatencies: 0, transactions: 0, opcounters: 0, network: 0, flowControl: 0}");
	struct bytes body = link_body(link);

	if (result == LINK_DONE)
		*operations = number_at(body, "globalLock.activeClients.readers") +
			      number_at(body, "globalLock.activeClients.writers") +
			      number_at(body, "globalLock.currentQueue.total");
	return result;
}
