/* One connection to one server, and never a second. */
#include "proxy/upstream/link.h"
#include "proxy/base/clock.h"

#include "protocol/writer.h"
#include "proxy/base/log.h"
#include "rules/rule/names.h"

#include <mongoc/mongoc.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/socket.h>

#define CONNECT_TIMEOUT_MS 3000
#define SOCKET_TIMEOUT_MS 60000
#define API_VERSION_REQUIRED 498870
#define COMMIT_TIMEOUT_MS 10000
#define DESCRIPTORS_MOST (1 << 20)
#define AGE_MAX_MS (12 * 60 * 60 * 1000)

/* Exported for those who set a stream initiator of their own, but missing in the public headers:
 * connects, layers TLS where the uri asks for it, and buffers. `client` is the client itself. */
mongoc_stream_t *mongoc_client_default_stream_initiator(const mongoc_uri_t *uri,
							const mongoc_host_list_t *host,
							void *client, bson_error_t *error);

struct link {
	mongoc_client_t *client;
	mongoc_client_session_t *session; /* of a transaction that is open */
	const atomic_bool *stopping;
	uint64_t serial;
	int64_t opened;                  /* monotonic microseconds */
	uint64_t time;                   /* the latest operationTime */
	struct link *next;               /* of all there are; under the lock, as is the address */
	struct sockaddr_storage address; /* our end of the connection; no family: none */
	bool connected;                  /* the one stream has been made, or tried */
	bool dead;
	bool standalone;
	uint8_t *hello;
	uint8_t *body; /* of the last reply; owned */
	struct reply_summary reply;
	struct link_error error;
};

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

static struct bytes view_of(const uint8_t *document)
{
	if (!document)
		return (struct bytes){0};
	return (struct bytes){document, (size_t)load_int32(document)};
}

static void link_fail(struct link *link, int64_t code, const char *message)
{
	link->error = (struct link_error){.code = code};
	snprintf(link->error.message, sizeof(link->error.message), "%s", message);
}

must_check enum link_result link_refuse(struct link *link, int64_t code, const char *message)
{
	link_fail(link, code, message);
	return LINK_REFUSED;
}

void link_cut_command(char *message)
{
	static const char quotes[] = " to execute command { ";
	char *command = strstr(message, quotes), *colon;

	colon = command ? strchr(command + strlen(quotes), ':') : NULL;
	if (colon && strlen(colon) > strlen(": ... }"))
		memcpy(colon, ": ... }", sizeof(": ... }"));
}

static void take_error(struct link *link, struct bytes document)
{
	struct element element;
	struct bytes text = bytes_of("no reason given");
	int64_t code = 0;

	if (document_find(document, "code", &element) && !element_integer(&element, &code))
		code = 0;
	if (document_find(document, "errmsg", &element) && !element_string(&element, &text))
		text = bytes_of("no reason given");
	link->error.code = code;
	snprintf(link->error.message, sizeof(link->error.message), "%.*s", (int)text.length,
		 (const char *)text.data);
	if (code == ERROR_UNAUTHORIZED)
		link_cut_command(link->error.message);
}

static void take_write_error(struct link *link, struct bytes write_errors)
{
	struct cursor cursor;
	struct element element, index;
	struct bytes document;

	if (!cursor_open(&cursor, write_errors) ||
	    cursor_next(&cursor, &element) != CURSOR_ELEMENT ||
	    !element_document(&element, &document))
		return;
	take_error(link, document);
	if (!document_find(document, "index", &index) ||
	    !element_integer(&index, &link->error.done))
		link->error.done = 0;
}

/* The server says that it does not take writes (any more), that it is going away, or that it wants
 * to be spoken to otherwise. */
static bool is_over(int64_t code)
{
	switch (code) {
	case 91:    /* ShutdownInProgress */
	case 189:   /* PrimarySteppedDown */
	case 10107: /* NotWritablePrimary */
	case 11600: /* InterruptedAtShutdown */
	case 11602: /* InterruptedDueToReplStateChange */
	case 13435: /* NotPrimaryNoSecondaryOk */
	case 13436: /* NotPrimaryOrSecondary */
	case API_VERSION_REQUIRED:
		return true;
	default:
		return false;
	}
}

static bool find_concern_error(const struct link *link, struct bytes *document)
{
	struct element concern;

	return document_find(view_of(link->body), "writeConcernError", &concern) &&
	       element_document(&concern, document);
}

/* It may stand alone, or beside the error that was taken. True where it says that all is over. */
static bool judge_concern(struct link *link)
{
	struct bytes document;
	struct element element;
	int64_t code;

	if (!find_concern_error(link, &document))
		return false;
	link->error.unacknowledged = true;
	if (link->reply.ok && link->reply.write_errors.length == 0) {
		take_error(link, document);
		link->error.write_concern = true;
	}
	return document_find(document, "code", &element) && element_integer(&element, &code) &&
	       is_over(code);
}

static enum link_result judge_reply(struct link *link)
{
	struct bytes document;

	link->error = (struct link_error){0};
	if (!reply_summarise(view_of(link->body), &link->reply)) {
		link_fail(link, 0, "the server's reply can't be read");
		return LINK_LOST;
	}
	if (link->reply.operation_time.length == 8 &&
	    (uint64_t)load_int64(link->reply.operation_time.data) > link->time)
		link->time = (uint64_t)load_int64(link->reply.operation_time.data);
	if (!link->reply.ok)
		take_error(link, view_of(link->body));
	else if (link->reply.write_errors.length > 0)
		take_write_error(link, link->reply.write_errors);
	else if (!find_concern_error(link, &document))
		return LINK_DONE;
	return judge_concern(link) || is_over(link->error.code) ? LINK_LOST : LINK_REFUSED;
}

/* True where mongod answered, be it with an error. */
static bool was_answered(const uint8_t *body)
{
	struct element element;

	return document_find(view_of(body), "ok", &element);
}

static int64_t unanswered_code(const bson_error_t *error)
{
	return error->domain == MONGOC_ERROR_CLIENT &&
			       error->code == MONGOC_ERROR_CLIENT_AUTHENTICATE
		       ? LINK_AUTHENTICATION_FAILED
		       : 0;
}

static void forget_reply(struct link *link)
{
	bson_free(link->body);
	link->body = NULL;
	link->reply = (struct reply_summary){.n = -1};
}

/* Takes the reply over. */
static enum link_result take_reply(struct link *link, bson_t *reply, const bson_error_t *error)
{
	uint32_t length;
	enum link_result result;

	link->body = bson_destroy_with_steal(reply, true, &length);
	if (was_answered(link->body)) {
		result = judge_reply(link);
	} else {
		link_fail(link, unanswered_code(error), error->message);
		result = LINK_LOST;
	}
	link->dead = result == LINK_LOST;
	return result;
}

static void send_command(struct link *link, const char *database, const bson_t *command,
			 bson_t *reply, bson_error_t *error)
{
	bson_t options = BSON_INITIALIZER;

	if (!link->session)
		(void)mongoc_client_command_simple(link->client, database, command, NULL, reply,
						   error);
	else if (mongoc_client_session_append(link->session, &options, error))
		(void)mongoc_client_command_with_opts(link->client, database, command, NULL,
						      &options, reply, error);
	else
		bson_init(reply);
	bson_destroy(&options);
}

must_check bool link_pause(const struct link *link, int64_t milliseconds)
{
	return clock_pause(milliseconds, link->stopping);
}

must_check enum link_result link_run(struct link *link, const char *database, struct bytes command)
{
	bson_t sent, reply;
	bson_error_t error = {0};

	if (link->dead)
		return LINK_LOST;
	if (atomic_load(link->stopping)) {
		link_fail(link, 0, "stopping");
		return LINK_LOST;
	}
	require(bson_init_static(&sent, command.data, command.length));
	forget_reply(link);
	send_command(link, database, &sent, &reply, &error);
	return take_reply(link, &reply, &error);
}

static mongoc_transaction_opt_t *transaction_options(void)
{
	mongoc_transaction_opt_t *options = mongoc_transaction_opts_new();
	mongoc_read_concern_t *read = mongoc_read_concern_new();
	mongoc_write_concern_t *write = mongoc_write_concern_new();

	mongoc_read_concern_set_level(read, MONGOC_READ_CONCERN_LEVEL_SNAPSHOT);
	mongoc_write_concern_set_wmajority(write, COMMIT_TIMEOUT_MS);
	mongoc_transaction_opts_set_read_concern(options, read);
	mongoc_transaction_opts_set_write_concern(options, write);
	mongoc_read_concern_destroy(read);
	mongoc_write_concern_destroy(write);
	return options;
}

must_check enum link_result link_begin(struct link *link)
{
	mongoc_transaction_opt_t *options;
	bson_error_t error = {0};

	if (link->dead)
		return LINK_LOST;
	require(!link->session);
	link->session = mongoc_client_start_session(link->client, NULL, &error);
	options = transaction_options();
	if (!link->session ||
	    !mongoc_client_session_start_transaction(link->session, options, &error)) {
		link_fail(link, 0, error.message);
		link->dead = true;
	}
	mongoc_transaction_opts_destroy(options);
	return link->dead ? LINK_LOST : LINK_DONE;
}

static void end_session(struct link *link)
{
	mongoc_client_session_destroy(link->session);
	link->session = NULL;
}

must_check enum link_result link_commit(struct link *link)
{
	bson_error_t error = {0};
	bson_t reply;
	enum link_result result;

	if (link->dead)
		return LINK_LOST;
	forget_reply(link);
	(void)mongoc_client_session_commit_transaction(link->session, &reply, &error);
	result = take_reply(link, &reply, &error);
	end_session(link);
	return result;
}

void link_abort(struct link *link)
{
	if (link->session)
		end_session(link); /* which aborts what is open */
}

bool link_in_transaction(const struct link *link)
{
	return link->session;
}

struct bytes link_body(const struct link *link)
{
	return view_of(link->body);
}

must_check uint8_t *link_steal_body(struct link *link)
{
	uint8_t *body = link->body;

	link->body = NULL;
	return body;
}

const struct reply_summary *link_reply(const struct link *link)
{
	return &link->reply;
}

const struct link_error *link_error(const struct link *link)
{
	return &link->error;
}

uint64_t link_time(const struct link *link)
{
	return link->time;
}

bool link_standalone(const struct link *link)
{
	return link->standalone;
}

struct bytes link_hello(const struct link *link)
{
	return view_of(link->hello);
}

uint64_t link_process(const struct link *link)
{
	struct element id;

	if (!document_find_path(link_hello(link), "topologyVersion.processId", &id) ||
	    id.type != BSON_BYTE_OBJECT_ID)
		return link->serial; /* mongos has none */
	return (uint64_t)load_int64(id.value.data + 4);
}

bool link_alive(const struct link *link)
{
	return !link->dead && bson_get_monotonic_time() - link->opened < AGE_MAX_MS * 1000LL;
}

uint64_t link_serial(const struct link *link)
{
	return link->serial;
}

/* One batch of a cursor: its documents to `each`, then what getMore needs. */
static bool take_batch(struct link *link, link_document each, void *context, int64_t *id,
		       char **collection)
{
	struct cursor cursor;
	struct element batch, element;
	struct bytes documents, document, name, database;

	if (!document_find(link->reply.cursor, "firstBatch", &batch) &&
	    !document_find(link->reply.cursor, "nextBatch", &batch))
		return false;
	if (!element_document(&batch, &documents) || !cursor_open(&cursor, documents))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (element_document(&element, &document))
			each(context, document);
	}
	if (!document_find(link->reply.cursor, "id", &element) || !element_integer(&element, id))
		return false;
	if (*id == 0 || *collection)
		return true;
	if (!document_find(link->reply.cursor, "ns", &element) || !element_string(&element, &name))
		return false;
	if (!name_split(name, &database, &name))
		return false;
	*collection = must_strndup((const char *)name.data, name.length);
	return true;
}

static enum link_result get_more(struct link *link, const char *database, int64_t id,
				 const char *collection)
{
	auto_buffer struct buffer command = {0};
	size_t start = writer_open(&command);

	writer_int64(&command, "getMore", id);
	writer_string(&command, "collection", collection);
	writer_close(&command, start);
	return link_run(link, database, buffer_view(&command));
}

static void keep_body(struct link *link, struct replies *replies)
{
	replies->bodies =
		must_realloc(replies->bodies, (replies->count + 1) * sizeof(*replies->bodies));
	replies->bodies[replies->count++] = link_steal_body(link);
}

void replies_free(struct replies *replies)
{
	for (size_t i = 0; i < replies->count; i++)
		bson_free(replies->bodies[i]);
	free(replies->bodies);
	*replies = (struct replies){0};
}

/* `replies`: NULL where none is kept. */
static enum link_result find_all(struct link *link, const char *database, struct bytes command,
				 link_document each, void *context, struct replies *replies)
{
	auto_free char *collection = NULL;
	enum link_result result = link_run(link, database, command);
	int64_t id = 0;

	while (result == LINK_DONE) {
		if (!take_batch(link, each, context, &id, &collection)) {
			link_fail(link, 0, "the server's cursor can't be read");
			link->dead = true;
			return LINK_LOST;
		}
		if (replies)
			keep_body(link, replies);
		if (id == 0)
			break;
		result = get_more(link, database, id, collection);
	}
	return result;
}

must_check enum link_result link_find(struct link *link, const char *database, struct bytes command,
				      link_document each, void *context)
{
	return find_all(link, database, command, each, context, NULL);
}

must_check enum link_result link_find_kept(struct link *link, const char *database,
					   struct bytes command, link_document each, void *context,
					   struct replies *replies)
{
	return find_all(link, database, command, each, context, replies);
}

struct first {
	struct bytes document;
	bool found;
};

static void keep_first(void *context, struct bytes document)
{
	struct first *first = context;

	if (!first->found)
		*first = (struct first){document, true};
}

must_check enum link_result link_find_one(struct link *link, const char *database,
					  struct bytes command, struct bytes *document, bool *found)
{
	struct first first = {0};
	enum link_result result = link_find(link, database, command, keep_first, &first);

	if (result != LINK_DONE)
		return result;
	*found = first.found;
	if (first.found)
		*document = first.document;
	return result;
}

must_check enum link_result link_find_any(struct link *link, const char *database,
					  const bson_t *command, bool *found)
{
	struct bytes document;

	return link_find_one(link, database, (struct bytes){bson_get_data(command), command->len},
			     &document, found);
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

static void set_options(mongoc_uri_t *uri)
{
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, true);
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYREADS, false);
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, false);
	mongoc_uri_set_option_as_bool(uri, MONGOC_URI_SERVERSELECTIONTRYONCE, true);
	mongoc_uri_set_option_as_int32(uri, MONGOC_URI_CONNECTTIMEOUTMS, CONNECT_TIMEOUT_MS);
	mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS,
				       CONNECT_TIMEOUT_MS);
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
	link->standalone = !document_find(view_of(link->hello), "setName", &element) &&
			   !document_find(view_of(link->hello), "msg", &element);
}

/* `declares`: the Stable API's version, with each command. */
static mongoc_client_t *client_new(const mongoc_uri_t *uri, bool declares, bson_error_t *error)
{
	mongoc_client_t *client = mongoc_client_new_from_uri_with_error(uri, error);
	mongoc_server_api_t *version;

	if (!client)
		return NULL;
	if (!mongoc_uri_get_appname(uri))
		mongoc_client_set_appname(client, "spillway");
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
	size_t start = writer_open(&hello);

	writer_int32(&hello, "hello", 1);
	writer_close(&hello, start);
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

/* A server may be set to take no command without the version, its first one too. Others, of before
 * mongod 5.0, take none with it: so it is told to those who ask. */
static struct link *link_new(mongoc_uri_t *uri, int32_t answer_ms, const atomic_bool *stopping,
			     bson_error_t *error)
{
	struct link *link;

	set_options(uri);
	mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SOCKETTIMEOUTMS, answer_ms);
	link = link_try(uri, false, stopping, error);
	if (!link && strstr(error->message, "apiVersion parameter is required"))
		link = link_try(uri, true, stopping, error);
	mongoc_uri_destroy(uri);
	return link;
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

static mongoc_uri_t *parse_uri(const char *text, bson_error_t *error)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, driver_start);
	return mongoc_uri_new_with_error(text, error);
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
	auto_free char *one = text_for_host(text, host);
	mongoc_uri_t *uri = parse_uri(one, error);

	return uri ? link_new(uri, SOCKET_TIMEOUT_MS, stopping, error) : NULL;
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

bool link_sign_in_failed(const bson_error_t *error, char *reason, size_t size)
{
	if (error->code != LINK_AUTHENTICATION_FAILED)
		return false;
	snprintf(reason, size,
		 "the upstream account can't sign in (%s): look at its user and password in "
		 "upstream.uri, upstream.uri_file or $SPILLWAY_UPSTREAM_URI",
		 error->message);
	return true;
}

/* mongod's errors that may be tried again, and those of a command that was interrupted. */
bool link_error_passes(const struct link_error *error)
{
	static const int64_t codes[] = {
		6,     /* HostUnreachable */
		7,     /* HostNotFound */
		24,    /* LockTimeout */
		43,    /* CursorNotFound */
		46,    /* LockBusy */
		50,    /* MaxTimeMSExpired */
		89,    /* NetworkTimeout */
		90,    /* CallbackCanceled */
		107,   /* LockFailed */
		112,   /* WriteConflict */
		117,   /* ConflictingOperationInProgress */
		134,   /* ReadConcernMajorityNotAvailableYet */
		175,   /* QueryPlanKilled */
		202,   /* NetworkInterfaceExceededTimeLimit */
		208,   /* TooManyLocks */
		210,   /* CannotVerifyAndSignLogicalTime */
		211,   /* KeyNotFound: that of a cluster time */
		215,   /* DatabaseDropPending */
		216,   /* ElectionInProgress */
		237,   /* CursorKilled */
		239,   /* SnapshotTooOld */
		246,   /* SnapshotUnavailable */
		251,   /* NoSuchTransaction */
		261,   /* TooManyLogicalSessions */
		262,   /* ExceededTimeLimit */
		264,   /* TooManyFilesOpen */
		267,   /* PreparedTransactionInProgress */
		276,   /* IndexBuildAborted */
		279,   /* ClientDisconnect */
		285,   /* IndexBuildAlreadyInProgress */
		290,   /* TransactionExceededLifetimeLimitSeconds */
		314,   /* ObjectIsBusy */
		355,   /* InterruptedDueToStorageChange */
		365,   /* TemporarilyUnavailable */
		9001,  /* SocketException */
		11601, /* Interrupted */
		12586, /* BackgroundOperationInProgressForDatabase */
		12587, /* BackgroundOperationInProgressForNamespace */
		14031, /* OutOfDiskSpace */
		46841, /* ClientMarkedKilled */
	};

	for (size_t i = 0; i < ARRAY_LENGTH(codes); i++)
		if (error->code == codes[i])
			return true;
	return error->write_concern || is_over(error->code);
}

enum link_result link_lost_in_passing(const struct link *link, enum link_result result)
{
	return result == LINK_REFUSED && link_error_passes(&link->error) ? LINK_LOST : result;
}

enum link_result link_lost_or_unauthorized(const struct link *link, enum link_result result)
{
	return result == LINK_REFUSED && link->error.code != ERROR_UNAUTHORIZED ? LINK_LOST
										: result;
}

enum link_result link_unless_unauthorized(const struct link *link, enum link_result result)
{
	return result == LINK_REFUSED && link->error.code == ERROR_UNAUTHORIZED ? LINK_DONE
										: result;
}

typedef struct link *link_opener(const char *text, const char *host, const atomic_bool *stopping,
				 bson_error_t *error);

/* To the first of the uri's hosts that can be opened so. */
static struct link *open_first(const char *text, link_opener *open, const atomic_bool *stopping,
			       bson_error_t *error)
{
	mongoc_uri_t *uri = parse_uri(text, error);
	const mongoc_host_list_t *host;
	struct link *link = NULL;

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
	mongoc_uri_t *uri = parse_uri(text, error), *bare;

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

must_check bool link_asks_tls(const char *text)
{
	bson_error_t error;
	mongoc_uri_t *uri = parse_uri(text, &error);
	bool asks = uri && mongoc_uri_get_tls(uri);

	mongoc_uri_destroy(uri);
	return asks;
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
