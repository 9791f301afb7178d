/* Whether the servers behind the listeners are those that the upstream account reaches. */
#include "proxy/upstream/deployment.h"

#include "proxy/upstream/clauses.h"

#include <stdio.h>

static bool find_set(struct bytes hello, struct bytes *name)
{

	return document_find_string(hello, "setName", name);
}

/* mongos says no more of itself. */
static bool is_router(struct bytes hello)
{
	struct element element;

	return document_find(hello, "msg", &element);
}

#define IS_SHARDED \
	"'%s' is part of a sharded cluster, which Spillway does not serve: use a replica set"

bool deployment_is_sharded(struct link *link, char *reason, size_t size)
{
	bool sharded = is_router(link_hello(link));

	if (!sharded && command_run(link, "admin", "{shardingState: 1}") == LINK_DONE)
		sharded = document_truth(link_body(link), "enabled");
	if (sharded)
		snprintf(reason, size, IS_SHARDED, "the server of the upstream account");
	return sharded;
}

/* Each mongod has one as long as it lives; those before 4.4 say none. */
static bool find_process(struct bytes hello, struct element *process)
{
	return document_find_path(hello, "topologyVersion.processId", process) &&
	       process->type == BSON_BYTE_OBJECT_ID;
}

static bool processes_differ(struct bytes one, struct bytes other)
{
	struct element first, second;

	return find_process(one, &first) && find_process(other, &second) &&
	       !bytes_equal(first.value, second.value);
}

bool deployment_differs(struct bytes upstream, struct bytes server)
{
	struct bytes set, other;
	bool member = find_set(upstream, &set);

	if (is_router(upstream) || is_router(server))
		return false;
	/* A member may be maintained, started without its set: its name says whether one is
	 * missing. */
	if (!find_set(server, &other))
		return !member && processes_differ(upstream, server);
	return !member || !bytes_equal(set, other);
}

/* One round over the listeners. */
struct looking {
	struct link *upstream;
	const struct reach *reach;
	struct member_names *names;
	const atomic_bool *stopping;
	bool answered; /* a server did */
	char *reason;
	size_t size;
};

/* False: it is another one's. What told the two apart may be a new start in between, unless the
 * first is still there. */
static enum deployment look_at(struct looking *looking, size_t index)
{
	const char *server = places_server(looking->reach->places, index);
	auto_buffer struct buffer hello = {0};
	char why[256];

	if (!server)
		return DEPLOYMENT_FITS;
	if (!reach_hello(looking->reach, index, looking->stopping, &hello, why, sizeof(why))) {
		snprintf(looking->reason, looking->size, "'%.256s' does not answer: %.256s", server,
			 why);
		return DEPLOYMENT_UNSEEN;
	}
	member_names_learn_hello(looking->names, index, buffer_view(&hello));
	looking->answered = true;
	if (is_router(buffer_view(&hello))) {
		snprintf(looking->reason, looking->size, IS_SHARDED, server);
		return DEPLOYMENT_OTHER;
	}
	if (!deployment_differs(link_hello(looking->upstream), buffer_view(&hello)))
		return DEPLOYMENT_FITS;
	if (link_ask_hello(looking->upstream) != LINK_DONE)
		return DEPLOYMENT_LOST;
	snprintf(looking->reason, looking->size, DEPLOYMENT_DIFFERS "; " DEPLOYMENT_REMEDY, server);
	return DEPLOYMENT_OTHER;
}

/* With `replica_set`, who reads the members finds those without a place. */
static enum deployment look_for_uncovered(struct looking *looking)
{
	char member[256];

	if (looking->reach->config->replica_set.on)
		return DEPLOYMENT_FITS;
	if (member_names_cover(looking->names, link_hello(looking->upstream), member,
			       sizeof(member)))
		return DEPLOYMENT_FITS;
	snprintf(looking->reason, looking->size,
		 "'%s' is a member of the replica set, but no entry of 'listen' stands before it: "
		 "clients would go around Spillway; add one",
		 member);
	return DEPLOYMENT_OTHER;
}

must_check enum deployment deployment_look(struct link *upstream, const struct reach *reach,
					   struct member_names *names, const atomic_bool *stopping,
					   char *reason, size_t size)
{
	struct looking looking = {upstream, reach, names, stopping, false, reason, size};
	enum deployment each;

	if (deployment_is_sharded(upstream, reason, size))
		return DEPLOYMENT_OTHER;
	for (size_t i = 0; i < reach->config->listen_count; i++) {
		each = look_at(&looking, i);
		if (each == DEPLOYMENT_OTHER || each == DEPLOYMENT_LOST)
			return each;
	}
	if (!looking.answered && link_standalone(upstream))
		return DEPLOYMENT_UNSEEN;
	return look_for_uncovered(&looking);
}
