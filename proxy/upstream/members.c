/* Finds out who is a member, and with which `_id`. */
#include "proxy/upstream/members.h"

#include "proxy/base/clock.h"
#include "proxy/upstream/apart.h"
#include "proxy/base/log.h"
#include "proxy/upstream/clauses.h"
#include "proxy/upstream/deployment.h"
#include "proxy/upstream/topology.h"

#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MS 3000 /* how long a look waits for the first server */
#define SLICE_MS 100
#define REASON_MAX 512
#define STATE_ARBITER 7
#define NO_REPLICATION 76
#define NOT_INITIATED 94

struct members {
	const struct config *config;
	struct places *places;
	const atomic_bool *stopping;
	struct topology *topology; /* NULL: the DNS has not answered yet */
	uint64_t seen;
	struct link *link; /* to some member, with the account: */
	char *host;
	int64_t version; /* of the latest configuration */
	char told[REASON_MAX];
};

/* One that is down tells nobody what it is; then other members do. */
static bool is_arbiter(struct bytes member, struct bytes name, struct bytes hello)
{
	struct element list, each;
	struct bytes names, arbiter;
	struct cursor cursor;
	int64_t state;

	if (document_find_integer(member, "state", &state) && state == STATE_ARBITER)
		return true;
	if (!document_find(hello, "arbiters", &list) || !element_document(&list, &names) ||
	    !cursor_open(&cursor, names))
		return false;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (element_string(&each, &arbiter) && bytes_equal(arbiter, name))
			return true;
	return false;
}

/* The next document of the reply's members. */
static bool next_member(struct cursor *cursor, struct bytes *member)
{
	struct element each;

	while (cursor_next(cursor, &each) == CURSOR_ELEMENT)
		if (element_document(&each, member))
			return true;
	return false;
}

static bool open_members(struct bytes status, struct cursor *cursor)
{
	struct bytes members;

	return document_find_document(status, "members", &members) && cursor_open(cursor, members);
}

must_check bool members_read(const struct members_reply *reply, size_t count, struct bytes *servers,
			     struct members_stray *stray)
{
	struct bytes member, name;
	struct cursor cursor;
	bool all = true;

	if (!open_members(reply->status, &cursor))
		return true;
	while (next_member(&cursor, &member)) {
		int64_t number = -1;

		if (!document_find_string(member, "name", &name) ||
		    !document_find_integer(member, "_id", &number) ||
		    is_arbiter(member, name, reply->hello))
			continue;
		if (number >= 0 && (uint64_t)number < count) {
			servers[number] = name;
			continue;
		}
		*stray = (struct members_stray){name, number};
		all = false;
	}
	return all;
}

struct members *members_new(const struct config *config, struct places *places,
			    const atomic_bool *stopping)
{
	struct members *members = must_calloc(1, sizeof(*members));

	members->config = config;
	members->places = places;
	members->stopping = stopping;
	return members;
}

void members_free(struct members *members)
{
	if (!members)
		return;
	link_free(members->link);
	topology_stop(members->topology);
	free(members->host);
	free(members);
}

static void fail(struct members *members, enum places_state state, const char *reason)
{
	char before[REASON_MAX];
	bool known = places_look(members->places, before, sizeof(before)) == PLACES_KNOWN;

	places_fail(members->places, state, reason);
	if (known && strcmp(members->told, reason) != 0)
		log_warning("2060 the members of the replica set could not be looked at: %s",
			    reason);
	snprintf(members->told, sizeof(members->told), "%s", reason);
}

/* ---- A link to some member. */

static bool start_topology(struct members *members, char *reason)
{
	auto_free char *name = apart_name(members->config);
	bson_error_t error;

	if (!members->topology)
		members->topology = topology_start(members->config->upstream_uri, name, &error);
	if (!members->topology) {
		snprintf(reason, REASON_MAX, "%s", error.message);
		return false;
	}
	for (int64_t until = clock_now() + ANSWER_MS; !topology_answers(members->topology);) {
		if (clock_now() >= until || atomic_load(members->stopping)) {
			snprintf(reason, REASON_MAX,
				 "none of the servers that the seed leads to answers");
			return false;
		}
		(void)topology_await_change(members->topology, &members->seen, SLICE_MS);
	}
	return true;
}

static void drop_link(struct members *members)
{
	link_free(members->link);
	members->link = NULL;
}

static bool open_link(struct members *members, char *const *hosts, char *reason, bool *wrong)
{
	bson_error_t error = {0};

	/* The first is the primary, if there is one. */
	if (members->link && link_alive(members->link) && *hosts &&
	    strcmp(members->host, *hosts) == 0)
		return true;
	drop_link(members);
	for (; *hosts && !members->link && !atomic_load(members->stopping); hosts++) {
		free(members->host);
		members->host = must_strndup(*hosts, strlen(*hosts));
		members->link = link_open_server(members->config->upstream_uri, *hosts,
						 members->stopping, &error);
	}
	if (members->link)
		return true;
	*wrong = link_sign_in_failed(&error, reason, REASON_MAX);
	if (!*wrong)
		snprintf(reason, REASON_MAX, "%s", error.message);
	return false;
}

/* ---- What is found. */

static void tell_place(const struct members *members, size_t index, const char *before)
{
	const struct config_listen *entry = &members->config->listen[index];
	const char *server = places_server(members->places, index);

	if (server == before)
		return;
	if (server)
		log_info("2061 member '%s' (_id %zu) is reached by '%s'", server, index,
			 entry->advertise);
	else
		log_info("2062 member '%s' (_id %zu) is gone; '%s' closes", before, index,
			 entry->advertise);
}

static void keep(struct members *members, const struct bytes *servers)
{
	size_t count = members->config->listen_count;
	char **texts = must_calloc(count, sizeof(*texts));
	const char **before = must_calloc(count, sizeof(*before));

	for (size_t i = 0; i < count; i++) {
		before[i] = places_server(members->places, i);
		if (servers[i].data)
			texts[i] = must_strndup((const char *)servers[i].data, servers[i].length);
	}
	(void)places_set(members->places, (const char *const *)texts);
	for (size_t i = 0; i < count; i++) {
		tell_place(members, i, before[i]);
		free(texts[i]);
	}
	free((void *)texts);
	free((void *)before);
}

static int64_t version_of(struct bytes status)
{
	struct bytes member;
	struct cursor cursor;
	int64_t version = 0;

	if (!open_members(status, &cursor))
		return 0;
	while (next_member(&cursor, &member))
		if (document_truth(member, "self") &&
		    document_find_integer(member, "configVersion", &version))
			return version;
	return 0;
}

/* A member that the others have left behind may know an older set. */
static bool is_older(struct members *members)
{
	bool primary = document_truth(link_hello(members->link), "isWritablePrimary");
	int64_t version = version_of(link_body(members->link));

	if (version == 0 || (!primary && version < members->version))
		return true;
	members->version = version;
	return false;
}

static void take_config(struct members *members)
{
	size_t count = members->config->listen_count;
	struct bytes *servers = must_calloc(count, sizeof(*servers));
	struct members_reply reply = {link_body(members->link), link_hello(members->link)};
	struct members_stray stray = {0};
	char reason[REASON_MAX], known[REASON_MAX];

	if (members_read(&reply, count, servers, &stray)) {
		members->told[0] = '\0';
		keep(members, servers);
		free(servers);
		return;
	}
	snprintf(reason, sizeof(reason),
		 "member '%.*s' of the replica set has the _id %lld, and 'replica_set.listen' has "
		 "%zu ports, for the _ids 0 to %zu: clients would not see the member; give "
		 "'listen' a longer range",
		 (int)stray.name.length, (const char *)stray.name.data, (long long)stray.id, count,
		 count - 1);
	fail(members, PLACES_WRONG, reason);
	/* Later, the others are served all the same. */
	if (places_look(members->places, known, sizeof(known)) == PLACES_KNOWN)
		keep(members, servers);
	free(servers);
}

static void refuse(struct members *members)
{
	const struct link_error *error = link_error(members->link);
	char reason[REASON_MAX];

	if (error->code == NOT_INITIATED) {
		fail(members, PLACES_WAITING, error->message);
		return;
	}
	if (error->code == NO_REPLICATION)
		snprintf(reason, sizeof(reason),
			 "the server is no member of a replica set: use 'listen' instead of "
			 "'replica_set'");
	else
		snprintf(reason, sizeof(reason),
			 "the upstream account may not see the replica set's members: grant it "
			 "replSetGetStatus on the cluster, as `spillway check` prints: %.200s",
			 error->message);
	fail(members, PLACES_WRONG, reason);
}

/* Before the first client: whoever comes later finds this Spillway. */
static bool stands_apart(struct members *members, char *reason, size_t size)
{
	return !members->config->replica_set.others_allowed &&
	       places_look(members->places, reason, size) != PLACES_KNOWN &&
	       apart_find(members->link, members->config, reason, size);
}

static void ask(struct members *members)
{
	char reason[REASON_MAX] = "";

	if (deployment_is_sharded(members->link, reason, sizeof(reason)) ||
	    stands_apart(members, reason, sizeof(reason))) {
		fail(members, PLACES_WRONG, reason);
		return;
	}
	switch (link_lost_in_passing(
		members->link, command_run(members->link, "admin", "{replSetGetStatus: 1}"))) {
	case LINK_DONE:
		if (!is_older(members))
			take_config(members);
		break;
	case LINK_REFUSED:
		refuse(members);
		break;
	case LINK_LOST:
		fail(members, PLACES_WAITING, link_error(members->link)->message);
		drop_link(members);
		break;
	}
}

void members_look(struct members *members)
{
	char reason[REASON_MAX] = "";
	auto_free char *plain = NULL;
	char **hosts;
	bool wrong = false;

	if (!start_topology(members, reason)) {
		fail(members, PLACES_WAITING, reason);
		return;
	}
	hosts = topology_hosts(members->topology);
	plain = topology_plain_uri(members->topology);
	link_know_members(members->config->upstream_uri, plain, (const char *const *)hosts);
	if (open_link(members, hosts, reason, &wrong))
		ask(members);
	else
		fail(members, wrong ? PLACES_WRONG : PLACES_WAITING, reason);
	for (char **host = hosts; *host; host++)
		free(*host);
	free((void *)hosts);
}

void members_await_change(struct members *members, int64_t milliseconds)
{
	int64_t until = clock_now() + milliseconds;

	while (!atomic_load(members->stopping) && clock_now() < until) {
		if (!members->topology && !clock_pause(SLICE_MS, members->stopping))
			return;
		if (members->topology &&
		    topology_await_change(members->topology, &members->seen, SLICE_MS))
			return;
	}
}

void members_find_once(const struct config *config, struct places *places,
		       const atomic_bool *stopping)
{
	struct members *members;

	if (!config->replica_set.on)
		return;
	members = members_new(config, places, stopping);
	members_look(members);
	members_free(members);
}
