/* One connection to one server, and never a second. */
#include "proxy/upstream/link_inner.h"

#include "proxy/base/clock.h"

#include <stdio.h>

#define COMMIT_TIMEOUT_MS 10000
#define AGE_MAX_MS (12 * 60 * 60 * 1000)

struct bytes link_view(const uint8_t *document)
{
	if (!document)
		return (struct bytes){0};
	return (struct bytes){document, (size_t)load_int32(document)};
}

void link_fail(struct link *link, int64_t code, const char *message)
{
	link->error = (struct link_error){.code = code};
	snprintf(link->error.message, sizeof(link->error.message), "%s", message);
}

must_check enum link_result link_refuse(struct link *link, int64_t code, const char *message)
{
	link_fail(link, code, message);
	return LINK_REFUSED;
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
	struct element element;
	struct bytes document;

	if (!cursor_open(&cursor, write_errors) ||
	    cursor_next(&cursor, &element) != CURSOR_ELEMENT ||
	    !element_document(&element, &document))
		return;
	take_error(link, document);
	if (!document_find_integer(document, "index", &link->error.done))
		link->error.done = 0;
}

static bool find_concern_error(const struct link *link, struct bytes *document)
{

	return document_find_document(link_view(link->body), "writeConcernError", document);
}

/* It may stand alone, or beside the error that was taken. True where it says that all is over. */
static bool judge_concern(struct link *link)
{
	struct bytes document;
	int64_t code;

	if (!find_concern_error(link, &document))
		return false;
	link->error.unacknowledged = true;
	if (link->reply.ok && link->reply.write_errors.length == 0) {
		take_error(link, document);
		link->error.write_concern = true;
	}
	return document_find_integer(document, "code", &code) && link_error_ends(code);
}

static enum link_result judge_reply(struct link *link)
{
	struct bytes document;

	link->error = (struct link_error){0};
	link->reply = reply_summarise(link_view(link->body));
	if (!link->reply.readable) {
		link_fail(link, 0, "the server's reply can't be read");
		return LINK_LOST;
	}
	if (link->reply.operation_time.length == 8 &&
	    (uint64_t)load_int64(link->reply.operation_time.data) > link->time)
		link->time = (uint64_t)load_int64(link->reply.operation_time.data);
	if (!link->reply.ok)
		take_error(link, link_view(link->body));
	else if (link->reply.write_errors.length > 0)
		take_write_error(link, link->reply.write_errors);
	else if (!find_concern_error(link, &document))
		return LINK_DONE;
	return judge_concern(link) || link_error_ends(link->error.code) ? LINK_LOST : LINK_REFUSED;
}

/* True where mongod answered, be it with an error. */
static bool was_answered(const uint8_t *body)
{
	struct element element;

	return document_find(link_view(body), "ok", &element);
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

void link_tell(struct link *link, const char *database, struct bytes command)
{
	struct link *again = NULL;
	bson_error_t error;
	bson_t sent, reply;

	if (link->dead) {
		again = link_again(link);
		if (again)
			(void)!link_run(again, database, command);
		link_free(again);
		return;
	}
	require(bson_init_static(&sent, command.data, command.length));
	send_command(link, database, &sent, &reply, &error);
	bson_destroy(&reply);
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
	return link_view(link->body);
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
	return link_view(link->hello);
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
