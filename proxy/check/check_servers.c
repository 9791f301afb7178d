/* The servers as such: versions, members without a listener, sharding. */
#include "proxy/check/check_inner.h"

#include "proxy/upstream/clauses.h"
#include "proxy/upstream/deployment.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

#define VERSION_TEXT_MAX 64
#define MAJOR_LEAST 6 /* the first long-lived one with $sortArray; findings.def names it, too */

void databases_add(struct databases *databases, struct bytes name)
{
	for (size_t i = 0; i < databases->count; i++) {
		if (bytes_are(name, databases->names[i]))
			return;
	}
	databases->names =
		must_realloc(databases->names, (databases->count + 1) * sizeof(*databases->names));
	databases->names[databases->count++] = must_strndup((const char *)name.data, name.length);
}

void databases_fini(struct databases *databases)
{
	for (size_t i = 0; i < databases->count; i++)
		free(databases->names[i]);
	free(databases->names);
	*databases = (struct databases){0};
}

must_check enum link_result databases_match(struct link *link, struct databases *databases,
					    const char *pattern)
{
	enum link_result result = command_run(link, "admin", "{listDatabases: 1, nameOnly: true}");
	struct element list, each, element;
	struct bytes documents, document, name;
	struct cursor cursor;

	if (result != LINK_DONE || !document_find(link_body(link), "databases", &list) ||
	    !element_document(&list, &documents) || !cursor_open(&cursor, documents))
		return result;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (element_document(&each, &document) &&
		    document_find(document, "name", &element) && element_string(&element, &name) &&
		    rule_pattern_matches_database(pattern, name))
			databases_add(databases, name);
	return result;
}

static struct bytes text_of(struct bytes document, const char *name)
{
	struct element element;
	struct bytes text;

	if (document_find(document, name, &element) && element_string(&element, &text))
		return text;
	return (struct bytes){(const uint8_t *)"", 0};
}

static void judge_version(struct check *check, const char *server, const char *version)
{
	if (strtol(version, NULL, 10) >= MAJOR_LEAST)
		return;
	findings_add(&check->findings, FINDING_SERVER_TOO_OLD, NULL, "'%s' is mongod %s", server,
		     version);
}

/* The account's own connections may go another way than those of clients. */
static void try_path(struct check *check, size_t index)
{
	const char *server = places_server(check->reach.places, index);
	auto_buffer struct buffer hello = {0};
	char reason[256];

	if (reach_hello(&check->reach, index, &check->stopping, &hello, reason, sizeof(reason)))
		return;
	if (check->config->server_tls.on)
		findings_add(&check->findings, FINDING_PATH_CLOSED, NULL,
			     "'%s' takes the account's connections, but clients' connections, "
			     "which go on to it with TLS, do not get through: %s",
			     server, reason);
	else
		findings_add(&check->findings, FINDING_TLS_REQUIRED, NULL,
			     "'%s' takes the account's connections, but clients' connections, "
			     "which go on to it without TLS, do not get through: %s",
			     server, reason);
}

/* What told the two apart may be a new start in between, unless the first is still there. */
static bool judge_deployment(struct check *check, const char *server, struct bytes hello)
{
	if (!deployment_differs(link_hello(check->link), hello) ||
	    link_ask_hello(check->link) != LINK_DONE)
		return true;
	findings_add(&check->findings, FINDING_OTHER_DEPLOYMENT, NULL, DEPLOYMENT_DIFFERS, server);
	return false;
}

/* What this one server says of itself; false where it doesn't answer, or is another's. */
static bool look_at_server(struct check *check, struct member_names *names, size_t index,
			   char version[VERSION_TEXT_MAX])
{
	const char *server = places_server(check->reach.places, index);
	bson_error_t error;
	struct link *link =
		link_open_member(check->config->upstream_uri, server, &check->stopping, &error);
	struct bytes text;
	bool ours;

	if (!link) {
		findings_add(&check->findings, FINDING_SERVER_SILENT, NULL,
			     "'%s' does not answer: %s", server, error.message);
		return false;
	}
	member_names_learn_hello(names, index, link_hello(link));
	ours = judge_deployment(check, server, link_hello(link));
	if (command_run(link, "admin", "{buildInfo: 1}") == LINK_DONE) {
		text = text_of(link_body(link), "version");
		snprintf(version, VERSION_TEXT_MAX, "%.*s", (int)text.length,
			 (const char *)text.data);
		judge_version(check, server, version);
	}
	link_free(link);
	try_path(check, index);
	return ours;
}

static void compare_versions(struct check *check, const char *one, const char *other)
{
	if (!*one || !*other || strcmp(one, other) == 0)
		return;
	findings_add(&check->findings, FINDING_VERSIONS_DIFFER, NULL,
		     "members run different versions: %s and %s", one, other);
}

static void look_at_members(struct check *check)
{
	struct member_names *names = member_names_new(check->config, check->reach.places);
	char first[VERSION_TEXT_MAX] = "", version[VERSION_TEXT_MAX], member[256];
	bool all = true;

	for (size_t i = 0; i < check->config->listen_count; i++) {
		if (!places_server(check->reach.places, i))
			continue;
		version[0] = '\0';
		all = look_at_server(check, names, i, version) && all;
		compare_versions(check, first, version);
		if (!first[0])
			memcpy(first, version, sizeof(first));
	}
	if (all && !check->config->replica_set.on &&
	    !member_names_cover(names, link_hello(check->link), member, sizeof(member)))
		findings_add(&check->findings, FINDING_MEMBER_UNLISTED, NULL,
			     "'%s' is a member of the replica set, but no entry "
			     "of 'listen' stands before it",
			     member);
	member_names_free(names);
}

static void look_for_shards(struct check *check)
{
	struct element element;
	bool sharded = bytes_are(text_of(link_hello(check->link), "msg"), "isdbgrid");

	if (!sharded && command_run(check->link, "admin", "{shardingState: 1}") == LINK_DONE)
		sharded = document_find(link_body(check->link), "enabled", &element) &&
			  element_truth(&element);
	if (!sharded)
		return;
	findings_add(&check->findings, FINDING_SHARDED_CLUSTER, NULL,
		     "the servers are part of a sharded cluster");
}

void check_servers(struct check *check)
{
	look_at_members(check);
	look_for_shards(check);
}
