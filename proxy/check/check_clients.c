/* Clients that reach the servers without going through Spillway: they see short arrays. */
#include "proxy/check/check_inner.h"

#include "proxy/check/ask_admin.h"
#include "proxy/fitness/index_judge.h"
#include "proxy/upstream/clauses.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMED_MAX 20

/* One program on one machine. */
struct client {
	char *application;
	char *driver;
	char *machine;
	size_t connections;
};

struct clients {
	struct copies own; /* documents {"": "address"}: connections of this Spillway's */
	struct client list[NAMED_MAX];
	size_t count;
	size_t more; /* connections that don't fit */
};

/* Spillway's own connections. */

/* The document {"connections": ["127.0.0.1:4711", ...]}; NULL where no Spillway runs. */
static bson_t *own_connections(const struct config *config)
{
	auto_free char *mistake = NULL, *body = NULL;
	struct admin_files files = {0};
	bson_error_t error;

	if (!config->admin.address || !admin_files_load(&files, config, &mistake))
		return NULL;
	body = ask_admin(config, &files, "/connections");
	admin_files_fini(&files);
	return body ? bson_new_from_json((const uint8_t *)body, -1, &error) : NULL;
}

static bool is_own(const bson_t *own, struct bytes address)
{
	struct bytes document = {bson_get_data(own), own->len}, list, text;
	struct element element;
	struct cursor cursor;

	if (!document_find(document, "connections", &element) ||
	    !element_document(&element, &list) || !cursor_open(&cursor, list))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (element_string(&element, &text) && bytes_equal(text, address))
			return true;
	}
	return false;
}

/* The server's connections. */

static char *text_in(struct bytes document, const char *path)
{
	struct element element;
	struct bytes text;

	if (document_find_path(document, path, &element) && element_string(&element, &text))
		return must_strndup((const char *)text.data, text.length);
	return must_strndup("", 0);
}

static bool is_same(const struct client *client, const struct client *other)
{
	return strcmp(client->application, other->application) == 0 &&
	       strcmp(client->driver, other->driver) == 0 &&
	       strcmp(client->machine, other->machine) == 0;
}

static void client_fini(struct client *client)
{
	free(client->application);
	free(client->driver);
	free(client->machine);
}

/* Counts a connection; the client's texts are taken over. */
static void count_client(struct clients *clients, struct client client)
{
	for (size_t i = 0; i < clients->count; i++) {
		if (!is_same(&clients->list[i], &client))
			continue;
		clients->list[i].connections++;
		client_fini(&client);
		return;
	}
	if (clients->count < NAMED_MAX) {
		clients->list[clients->count++] = client;
		return;
	}
	clients->more++;
	client_fini(&client);
}

static void take_connection(struct clients *clients, const bson_t *own, struct bytes operation)
{
	struct client client = {.application = text_in(operation, "appName"),
				.driver = text_in(operation, "driver"),
				.machine = text_in(operation, "_id"),
				.connections = 1};
	char *port = strrchr(client.machine, ':');

	if (judge_is_internal(client.application, client.driver) ||
	    is_own(own, bytes_of(client.machine))) {
		client_fini(&client);
		return;
	}
	if (port)
		*port = '\0';
	count_client(clients, client);
}

static void look_at_connections(struct check *check, struct link *link, struct clients *clients,
				const bson_t *own)
{
	struct copies operations = {0};
	enum link_result result =
		command_find(link, "admin", copies_take, &operations,
			     "{aggregate: 1, pipeline: ["
			     "{$currentOp: {allUsers: true, idleConnections: true}},"
			     "{$match: {client: {$type: 'string'}}},"
			     "{$group: {_id: '$client', appName: {$first: '$appName'}, "
			     " driver: {$first: '$clientMetadata.driver.name'}}}], cursor: {}}");

	for (size_t i = 0; i < operations.count; i++)
		take_connection(clients, own, operations.list[i]);
	copies_fini(&operations);
	if (result == LINK_REFUSED)
		findings_add(&check->findings, FINDING_CONNECTIONS_UNSEEN, NULL,
			     "who is connected could not be looked at (the "
			     "account would need the action inprog on the "
			     "cluster): %s",
			     link_error(link)->message);
}

/* A server that does not answer has been told of already. */
static void look_at_servers(struct check *check, struct clients *clients, const bson_t *own)
{
	bson_error_t error;

	for (size_t i = 0; i < check->config->listen_count; i++) {
		const char *server = places_server(check->reach.places, i);
		struct link *link;

		if (!server)
			continue;
		link = link_open_server(check->config->upstream_uri, server, &check->stopping,
					&error);
		if (link)
			look_at_connections(check, link, clients, own);
		link_free(link);
	}
}

static void tell_clients(struct check *check, struct clients *clients)
{
	for (size_t i = 0; i < clients->count; i++) {
		struct client *client = &clients->list[i];

		findings_add(&check->findings, FINDING_DIRECT_CLIENT, NULL,
			     "%zu connection%s of '%s'%s%s%s from %s %s not come through "
			     "this Spillway",
			     client->connections, client->connections == 1 ? "" : "s",
			     *client->driver ? client->driver : "an unnamed driver",
			     *client->application ? ", application '" : "", client->application,
			     *client->application ? "'," : "", client->machine,
			     client->connections == 1 ? "does" : "do");
		client_fini(client);
	}
	if (clients->more > 0)
		findings_add(&check->findings, FINDING_MORE_CLIENTS, NULL,
			     "and %zu more connections that go around", clients->more);
}

void check_clients(struct check *check)
{
	struct clients clients = {0};
	bson_t *own = own_connections(check->config);

	if (!own) {
		findings_add(&check->findings, FINDING_SPILLWAY_SILENT, NULL,
			     "no Spillway answers at the file's admin address: who goes "
			     "around it can only be told while it runs");
		return;
	}
	look_at_servers(check, &clients, own);
	tell_clients(check, &clients);
	bson_destroy(own);
}
