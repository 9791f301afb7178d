/* Watches a replica set by a client pool of the driver, whose threads ask all members all the time.
 * Commands do not go that way: they need links (link.h). */
#include "proxy/upstream/topology.h"

#include "proxy/base/clock.h"
#include "proxy/upstream/link.h"
#include "rules/config/uri.h"
#include "rules/rule/text.h"

#include <mongoc/mongoc.h>
#include <pthread.h>
#include <stdlib.h>

#define CONNECT_TIMEOUT_MS 3000

struct topology {
	mongoc_client_pool_t *pool;
	char *plain;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t changes;
	char **hosts; /* ends with NULL */
	bool answers;
};

static void hosts_free(char **hosts)
{
	for (char **host = hosts; host && *host; host++)
		free(*host);
	free((void *)hosts);
}

/* The primary, other members that answer, those that do not. */
static int rank_of(const mongoc_server_description_t *server)
{
	const char *type = mongoc_server_description_type(server);

	if (strcmp(type, "RSPrimary") == 0)
		return 0;
	return strcmp(type, "Unknown") == 0 ? 2 : 1;
}

static char **list_hosts(mongoc_server_description_t *const *servers, size_t count)
{
	char **hosts = must_calloc(count + 1, sizeof(*hosts));
	const char *text;
	size_t listed = 0;

	for (int rank = 0; rank <= 2; rank++)
		for (size_t i = 0; i < count; i++) {
			if (rank_of(servers[i]) != rank)
				continue;
			text = mongoc_server_description_host(servers[i])->host_and_port;
			hosts[listed++] = must_strndup(text, strlen(text));
		}
	return hosts;
}

/* In a thread of the driver, which holds its locks. */
static void topology_on_changed(const mongoc_apm_topology_changed_t *event)
{
	struct topology *topology = mongoc_apm_topology_changed_get_context(event);
	size_t count;
	mongoc_server_description_t **servers = mongoc_topology_description_get_servers(
		mongoc_apm_topology_changed_get_new_description(event), &count);
	char **hosts = list_hosts(servers, count), **before;
	bool answers = false;

	for (size_t i = 0; i < count; i++)
		answers = answers || rank_of(servers[i]) < 2;
	mongoc_server_descriptions_destroy_all(servers, count);
	pthread_mutex_lock(&topology->lock);
	before = topology->hosts;
	topology->hosts = hosts;
	topology->answers = answers;
	topology->changes++;
	pthread_cond_broadcast(&topology->changed);
	pthread_mutex_unlock(&topology->lock);
	hosts_free(before);
}

static bool has_option(const char *uri, const char *one, const char *other)
{
	const char *options = strchr(uri, '?');

	return options && (strcasestr(options, one) || strcasestr(options, other));
}

/* The text with what the DNS adds. `resolved` has it all. */
static char *write_plain(const char *text, const mongoc_uri_t *resolved)
{
	auto_wiped_buffer struct buffer out = {0};
	const char *authority = strstr(text, "://") + 3;
	const char *rest = authority + strcspn(authority, "/?");
	const char *at = memrchr(authority, '@', (size_t)(rest - authority));
	const mongoc_host_list_t *host = mongoc_uri_get_hosts(resolved);
	const char *source = mongoc_uri_get_auth_source(resolved);

	text_append(&out, "mongodb://%.*s", at ? (int)(at + 1 - authority) : 0, authority);
	for (; host; host = host->next)
		text_append(&out, "%s%s", host->host_and_port, host->next ? "," : "");
	text_append(&out, "%s%s", *rest == '/' ? "" : "/", rest);
	text_append(&out, "%s", strchr(rest, '?') ? "&" : "?");
	if (!has_option(text, "tls=", "ssl="))
		text_append(&out, "tls=%s&", mongoc_uri_get_tls(resolved) ? "true" : "false");
	if (at && source && *source && !has_option(text, "authSource=", "authSource="))
		text_append(&out, "authSource=%s&", source);
	return text_steal(&out);
}

static mongoc_client_pool_t *pool_new(struct topology *topology, const char *text, const char *name,
				      bson_error_t *error)
{
	mongoc_uri_t *uri = mongoc_uri_new_with_error(text, error);
	mongoc_apm_callbacks_t *callbacks;
	mongoc_client_pool_t *pool;

	if (!uri)
		return NULL;
	/* A single seed leads to its set, too. */
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, false);
	mongoc_uri_set_option_as_int32(uri, MONGOC_URI_CONNECTTIMEOUTMS, CONNECT_TIMEOUT_MS);
	/* No Spillway at work is known by this name (neighbours.h). */
	require(mongoc_uri_set_appname(uri, name));
	pool = mongoc_client_pool_new_with_error(uri, error);
	mongoc_uri_destroy(uri);
	if (!pool)
		return NULL;
	callbacks = mongoc_apm_callbacks_new();
	mongoc_apm_set_topology_changed_cb(callbacks, topology_on_changed);
	require(mongoc_client_pool_set_apm_callbacks(pool, callbacks, topology));
	mongoc_apm_callbacks_destroy(callbacks);
	return pool;
}

struct topology *topology_start(const char *uri, const char *name, bson_error_t *error)
{
	struct topology *topology = must_calloc(1, sizeof(*topology));
	mongoc_client_t *client;

	link_need_driver();
	require(pthread_mutex_init(&topology->lock, NULL) == 0);
	clock_condition_init(&topology->changed);
	topology->hosts = must_calloc(1, sizeof(*topology->hosts));
	topology->pool = pool_new(topology, uri, name, error);
	if (!topology->pool) {
		topology_stop(topology);
		return NULL;
	}
	client = mongoc_client_pool_pop(topology->pool); /* monitoring begins */
	topology->plain = write_plain(uri, mongoc_client_get_uri(client));
	mongoc_client_pool_push(topology->pool, client);
	return topology;
}

void topology_stop(struct topology *topology)
{
	if (!topology)
		return;
	if (topology->pool)
		mongoc_client_pool_destroy(topology->pool);
	if (topology->plain)
		bytes_wipe(bytes_of(topology->plain));
	free(topology->plain);
	hosts_free(topology->hosts);
	pthread_cond_destroy(&topology->changed);
	pthread_mutex_destroy(&topology->lock);
	free(topology);
}

char **topology_hosts(struct topology *topology)
{
	size_t count = 0;
	char **copy;

	pthread_mutex_lock(&topology->lock);
	while (topology->hosts[count])
		count++;
	copy = must_calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i] = must_strndup(topology->hosts[i], strlen(topology->hosts[i]));
	pthread_mutex_unlock(&topology->lock);
	return copy;
}

bool topology_answers(struct topology *topology)
{
	bool answers;

	pthread_mutex_lock(&topology->lock);
	answers = topology->answers;
	pthread_mutex_unlock(&topology->lock);
	return answers;
}

bool topology_await_change(struct topology *topology, uint64_t *seen, int64_t milliseconds)
{
	int64_t until = clock_now() + milliseconds;
	bool changed;

	pthread_mutex_lock(&topology->lock);
	while (topology->changes == *seen && clock_now() < until)
		clock_condition_wait(&topology->changed, &topology->lock, until);
	changed = topology->changes != *seen;
	*seen = topology->changes;
	pthread_mutex_unlock(&topology->lock);
	return changed;
}

char *topology_plain_uri(const struct topology *topology)
{
	return must_strndup(topology->plain, strlen(topology->plain));
}
