/* Opens and closes links: to which server, by what uri, and one stream in a link's life. */
#include "proxy/upstream/link_inner.h"

#include "protocol/template.h"
#include "rules/rule/text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CONNECT_TIMEOUT_MS 3000
#define AGAIN_TIMEOUT_MS 1000 /* to connect, and for each answer */
#define SOCKET_TIMEOUT_MS 60000
#define DESCRIPTORS_MOST (1 << 20)

/* Exported for those who set a stream initiator of their own, but missing in the public headers:
 * connects, layers TLS where the uri asks for it, and buffers. `client` is the client itself. */
mongoc_stream_t *mongoc_client_default_stream_initiator(const mongoc_uri_t *uri,
							const mongoc_host_list_t *host,
							void *client, bson_error_t *error);

/* All links, for who cuts them. */
static struct {
	pthread_mutex_t lock;
	struct link *first;
} links = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void links_add(struct link *link)
{
	pthread_mutex_lock(&links.lock);
	link->next = links.first;
	links.first = link;
	pthread_mutex_unlock(&links.lock);
}

static void links_remove(struct link *link)
{
	struct link **at = &links.first;

	pthread_mutex_lock(&links.lock);
	while (*at != link)
		at = &(*at)->next;
	*at = link->next;
	pthread_mutex_unlock(&links.lock);
}

/* The members of the replica set that one URI leads to. */
static struct {
	pthread_mutex_t lock;
	char *uri, *plain;
	char **hosts; /* ends with NULL */
} members = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void hosts_free(char **hosts)
{
	for (char **host = hosts; host && *host; host++)
		free(*host);
	free((void *)hosts);
}

static char **hosts_copy(const char *const *hosts)
{
	size_t count = 0;
	char **copy;

	while (hosts[count])
		count++;
	copy = must_calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i] = must_strndup(hosts[i], strlen(hosts[i]));
	return copy;
}

void link_know_members(const char *uri, const char *plain, const char *const *hosts)
{
	pthread_mutex_lock(&members.lock);
	if (!members.uri) {
		members.uri = must_strndup(uri, strlen(uri));
		members.plain = must_strndup(plain, strlen(plain));
	}
	hosts_free(members.hosts);
	members.hosts = hosts_copy(hosts);
	pthread_mutex_unlock(&members.lock);
}

/* The URI that the driver can take for one host. Stays until the end. */
static const char *plain_uri(const char *uri)
{
	const char *plain = uri;

	pthread_mutex_lock(&members.lock);
	if (members.uri && strcmp(uri, members.uri) == 0)
		plain = members.plain;
	pthread_mutex_unlock(&members.lock);
	return plain;
}

/* NULL: no others than those that stand in the URI. Freed by hosts_free. */
static char **known_members(const char *uri)
{
	char **hosts = NULL;

	pthread_mutex_lock(&members.lock);
	if (members.uri && strcmp(uri, members.uri) == 0 && members.hosts)
		hosts = hosts_copy((const char *const *)members.hosts);
	pthread_mutex_unlock(&members.lock);
	return hosts;
}

/* By its address, since the driver keeps its descriptors to itself. */
static void note_address(struct link *link, mongoc_stream_t *stream)
{
	mongoc_socklen_t length = sizeof(link->address);
	mongoc_stream_t *base;
	mongoc_socket_t *socket;

	while (stream->get_base_stream && (base = stream->get_base_stream(stream)))
		stream = base;
	socket = mongoc_stream_socket_get_socket((mongoc_stream_socket_t *)stream);
	pthread_mutex_lock(&links.lock);
	if (mongoc_socket_getsockname(socket, (struct sockaddr *)&link->address, &length) != 0)
		link->address = (struct sockaddr_storage){0};
	pthread_mutex_unlock(&links.lock);
}

static bool is_of_link(const struct sockaddr_storage *address, const atomic_bool *stopping)
{
	bool found = false;

	pthread_mutex_lock(&links.lock);
	for (const struct link *link = links.first; link && !found; link = link->next)
		found = link->stopping == stopping &&
			memcmp(&link->address, address, sizeof(*address)) == 0;
	pthread_mutex_unlock(&links.lock);
	return found;
}

void link_cut_all(const atomic_bool *stopping)
{
	long most = sysconf(_SC_OPEN_MAX);

	for (int descriptor = 0; descriptor < most && descriptor < DESCRIPTORS_MOST; descriptor++) {
		struct sockaddr_storage address = {0};
		socklen_t length = sizeof(address);

		if (getsockname(descriptor, (struct sockaddr *)&address, &length) == 0 &&
		    (address.ss_family == AF_INET || address.ss_family == AF_INET6) &&
		    is_of_link(&address, stopping))
			(void)shutdown(descriptor, SHUT_RDWR);
	}
}

/* A stream on which every command fails. Where the driver asks again after a lost connection it
 * holds a lock that it takes once more when it is given no stream at all (seen in 1.23: the thread
 * waits for itself for ever). */
static mongoc_stream_t *stream_to_nowhere(bson_error_t *error)
{
	mongoc_socket_t *unconnected = mongoc_socket_new(AF_UNIX, SOCK_STREAM, 0);

	if (unconnected)
		return mongoc_stream_socket_new(unconnected);
	bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_CONNECT,
		       "the connection was lost");
	return NULL;
}

static mongoc_stream_t *link_on_connect(const mongoc_uri_t *uri, const mongoc_host_list_t *host,
					void *context, bson_error_t *error)
{
	struct link *link = context;
	mongoc_stream_t *stream;

	if (link->connected)
		return stream_to_nowhere(error);
	link->connected = true;
	stream = mongoc_client_default_stream_initiator(uri, host, link->client, error);
	if (stream)
		note_address(link, stream);
	return stream;
}

void link_free(struct link *link)
{
	if (!link)
		return;
	link_abort(link);
	links_remove(link);
	/* Forgets the sessions, so that nothing is said to a server that may not answer. */
	mongoc_client_reset(link->client);
	mongoc_client_destroy(link->client);
	bson_free(link->hello);
	bson_free(link->body);
	free(link);
}

/* The uri's text with this one host instead of its own. */
static char *text_for_host(const char *uri, const char *host)
{
	auto_buffer struct buffer out = {0};
	const char *hosts = strstr(uri, "://"), *rest, *at;

	hosts = hosts ? hosts + 3 : uri;
	rest = hosts + strcspn(hosts, "/?");
	at = memrchr(hosts, '@', (size_t)(rest - hosts));
	buffer_append(&out, uri, (size_t)((at ? at + 1 : hosts) - uri));
	buffer_append(&out, host, strlen(host));
	buffer_append(&out, rest, strlen(rest) + 1);
	return (char *)buffer_steal(&out).data;
}

/* A uri without credentials for this one host, with the TLS options of the other. */
static mongoc_uri_t *bare_uri(const mongoc_uri_t *full, const char *host, bson_error_t *error)
{
	auto_free char *text = NULL;
	mongoc_uri_t *bare;
	bson_iter_t options;

	text = text_for_host("mongodb://x/", host);
	bare = mongoc_uri_new_with_error(text, error);
	if (!bare || !bson_iter_init(&options, mongoc_uri_get_options(full)))
		return bare;
	while (bson_iter_next(&options)) {
		if (strncmp(bson_iter_key(&options), "tls", 3) != 0)
			continue;
		if (BSON_ITER_HOLDS_BOOL(&options))
			mongoc_uri_set_option_as_bool(bare, bson_iter_key(&options),
						      bson_iter_bool(&options));
		else if (BSON_ITER_HOLDS_UTF8(&options))
			mongoc_uri_set_option_as_utf8(bare, bson_iter_key(&options),
						      bson_iter_utf8(&options, NULL));
	}
	return bare;
}

static void set_options(mongoc_uri_t *uri, int32_t connect_ms, int32_t answer_ms)
{
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, true);
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYREADS, false);
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, false);
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_SERVERSELECTIONTRYONCE, true);
	mongoc_uri_set_option_as_int32(uri, MONGOC_URI_CONNECTTIMEOUTMS, connect_ms);
	mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, connect_ms);
	mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SOCKETTIMEOUTMS, answer_ms);
	/* 1.23.1 locks itself up for ever where a regular check fails on a stream and no other may
	 * be made (_mongoc_topology_scanner_cb sets the node up again with the topology's lock
	 * held). So no check is ever due in a link's life; each command is one anyway. */
	mongoc_uri_set_option_as_int32(uri, MONGOC_URI_HEARTBEATFREQUENCYMS, INT32_MAX);
}

static void hello_done(struct link *link)
{
	struct element element;

	link->hello = link->body;
	link->body = NULL;
	link->standalone = !document_find(link_view(link->hello), "setName", &element) &&
			   !document_find(link_view(link->hello), "msg", &element);
}

/* `declares`: the Stable API's version, with each command. */
static mongoc_client_t *client_new(const mongoc_uri_t *uri, bool declares, bson_error_t *error)
{
	mongoc_client_t *client = mongoc_client_new_from_uri_with_error(uri, error);
	mongoc_server_api_t *version;

	if (!client)
		return NULL;
	if (!mongoc_uri_get_appname(uri))
		mongoc_client_set_appname(client, LINK_NAME);
	if (declares) {
		version = mongoc_server_api_new(MONGOC_SERVER_API_V1);
		require(mongoc_client_set_server_api(client, version, error));
		mongoc_server_api_destroy(version);
	}
	return client;
}

must_check enum link_result link_ask_hello(struct link *link)
{
	auto_buffer struct buffer hello = {0};

	template_write_document(&hello, "{hello: 1}");
	return link_run(link, "admin", buffer_view(&hello));
}

static struct link *link_try(const mongoc_uri_t *uri, bool declares, const atomic_bool *stopping,
			     bson_error_t *error)
{
	static atomic_uint_fast64_t serials;
	mongoc_client_t *client = client_new(uri, declares, error);
	struct link *link;

	if (!client)
		return NULL;
	link = must_calloc(1, sizeof(*link));
	link->client = client;
	link->stopping = stopping;
	link->serial = atomic_fetch_add(&serials, 1) + 1;
	link->opened = bson_get_monotonic_time();
	links_add(link);
	mongoc_client_set_stream_initiator(client, link_on_connect, link);
	if (link_ask_hello(link) == LINK_DONE) {
		hello_done(link);
		return link;
	}
	bson_set_error(error, MONGOC_ERROR_CLIENT, (uint32_t)link->error.code, "%s",
		       link->error.message);
	link_free(link);
	return NULL;
}

/* A server that wants TLS closes a connection without it, and says nothing. */
static void hint_at_tls(const mongoc_uri_t *uri, bson_error_t *error)
{
	size_t length = strlen(error->message);

	if (!mongoc_uri_get_tls(uri) &&
	    (strstr(error->message, "connection closed calling hello") ||
	     strstr(error->message, "Failed to receive length header")))
		snprintf(error->message + length, sizeof(error->message) - length,
			 "; it may want TLS (servers.tls, or tls=true in the account's URI)");
}

/* A server may be set to take no command without the version, its first one too. Others, of before
 * mongod 5.0, take none with it: so it is told to those who ask. */
static struct link *link_new(mongoc_uri_t *uri, int32_t answer_ms, const atomic_bool *stopping,
			     bson_error_t *error)
{
	struct link *link;

	set_options(uri, answer_ms < CONNECT_TIMEOUT_MS ? answer_ms : CONNECT_TIMEOUT_MS,
		    answer_ms);
	link = link_try(uri, false, stopping, error);
	if (!link && strstr(error->message, "apiVersion parameter is required"))
		link = link_try(uri, true, stopping, error);
	if (!link)
		hint_at_tls(uri, error);
	mongoc_uri_destroy(uri);
	return link;
}

must_check struct link *link_again(const struct link *link)
{
	static const atomic_bool never;
	bson_error_t error;

	return link_new(mongoc_uri_copy(mongoc_client_get_uri(link->client)), AGAIN_TIMEOUT_MS,
			&never, &error);
}

static void driver_end(void)
{
	mongoc_cleanup();
}

static void driver_start(void)
{
	mongoc_init();
	atexit(driver_end);
}

void link_need_driver(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, driver_start);
}

static mongoc_uri_t *parse_uri(const char *text, bson_error_t *error)
{
	link_need_driver();
	return mongoc_uri_new_with_error(text, error);
}

/* What is too long for an appName loses its end. */
static void name_work(mongoc_uri_t *uri)
{
	const char *own = mongoc_uri_get_appname(uri);
	struct buffer out = {0};
	auto_free char *name = NULL;

	if (!own)
		return;
	text_append(&out, LINK_NAME " (%s", own);
	if (out.length > MONGOC_HANDSHAKE_APPNAME_MAX - 1)
		out.length = MONGOC_HANDSHAKE_APPNAME_MAX - 1;
	out.length = text_valid_length(buffer_view(&out));
	text_append(&out, ")");
	name = text_steal(&out);
	require(mongoc_uri_set_appname(uri, name));
}

static bool takes_writes(const struct link *link)
{
	struct element element;

	return document_find(link_hello(link), "isWritablePrimary", &element) &&
	       element_truth(&element);
}

must_check struct link *link_open_server(const char *text, const char *host,
					 const atomic_bool *stopping, bson_error_t *error)
{
	auto_free char *one = text_for_host(plain_uri(text), host);
	mongoc_uri_t *uri = parse_uri(one, error);

	if (!uri)
		return NULL;
	name_work(uri);
	return link_new(uri, SOCKET_TIMEOUT_MS, stopping, error);
}

static struct link *link_open_host(const char *text, const char *host, const atomic_bool *stopping,
				   bson_error_t *error)
{
	struct link *link = link_open_server(text, host, stopping, error);

	if (!link || takes_writes(link))
		return link;
	bson_set_error(error, MONGOC_ERROR_SERVER_SELECTION, 0, "'%s' does not take writes", host);
	link_free(link);
	return NULL;
}

typedef struct link *link_opener(const char *text, const char *host, const atomic_bool *stopping,
				 bson_error_t *error);

static struct link *open_first_known(const char *text, char *const *hosts, link_opener *open,
				     const atomic_bool *stopping, bson_error_t *error)
{
	struct link *link = NULL;

	bson_set_error(error, MONGOC_ERROR_SERVER_SELECTION, 0,
		       "no member of the replica set is known");
	for (; *hosts && !link && !atomic_load(stopping); hosts++)
		link = open(text, *hosts, stopping, error);
	return link;
}

/* To the first of the uri's hosts that can be opened so. */
static struct link *open_first(const char *text, link_opener *open, const atomic_bool *stopping,
			       bson_error_t *error)
{
	char **known = known_members(text);
	const mongoc_host_list_t *host;
	struct link *link = NULL;
	mongoc_uri_t *uri;

	if (known) {
		link = open_first_known(text, known, open, stopping, error);
		hosts_free(known);
		return link;
	}
	uri = parse_uri(text, error);
	if (!uri)
		return NULL;
	for (host = mongoc_uri_get_hosts(uri); host && !link && !atomic_load(stopping);
	     host = host->next)
		link = open(text, host->host_and_port, stopping, error);
	mongoc_uri_destroy(uri);
	return link;
}

must_check struct link *link_open(const char *text, const atomic_bool *stopping,
				  bson_error_t *error)
{
	return open_first(text, link_open_host, stopping, error);
}

/* `name`: what the server is told that the link is for; NULL: Spillway's work. */
static struct link *open_bare(const char *text, const char *host, int32_t answer_ms,
			      const char *name, const atomic_bool *stopping, bson_error_t *error)
{
	mongoc_uri_t *uri = parse_uri(plain_uri(text), error), *bare;

	if (!uri)
		return NULL;
	bare = bare_uri(uri, host, error);
	mongoc_uri_destroy(uri);
	if (bare && name)
		require(mongoc_uri_set_appname(bare, name));
	return bare ? link_new(bare, answer_ms, stopping, error) : NULL;
}

must_check struct link *link_open_member(const char *text, const char *host,
					 const atomic_bool *stopping, bson_error_t *error)
{
	return open_bare(text, host, SOCKET_TIMEOUT_MS, NULL, stopping, error);
}

must_check struct link *link_open_plain(const char *host, const atomic_bool *stopping,
					bson_error_t *error)
{
	auto_free char *text = text_for_host("mongodb://x/", host);
	mongoc_uri_t *uri = parse_uri(text, error);

	return uri ? link_new(uri, CONNECT_TIMEOUT_MS, stopping, error) : NULL;
}

static struct link *open_impatient(const char *text, const char *host, const atomic_bool *stopping,
				   bson_error_t *error)
{
	return open_bare(text, host, CONNECT_TIMEOUT_MS, NULL, stopping, error);
}

must_check struct link *link_open_any(const char *text, const atomic_bool *stopping,
				      bson_error_t *error)
{
	return open_first(text, open_impatient, stopping, error);
}

static struct link *open_early(const char *text, const char *host, const atomic_bool *stopping,
			       bson_error_t *error)
{
	return open_bare(text, host, CONNECT_TIMEOUT_MS, "spillway watch", stopping, error);
}

must_check struct link *link_open_early(const char *text, const char *host,
					const atomic_bool *stopping, bson_error_t *error)
{
	return host ? open_early(text, host, stopping, error)
		    : open_first(text, open_early, stopping, error);
}
