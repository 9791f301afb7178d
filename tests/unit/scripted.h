/*
 * A server that answers a link by a script: for the tests of what the mover sends. Each command is
 * kept, and compared with the suite's golden file when the script has ended.
 */
#ifndef TESTS_UNIT_SCRIPTED_H
#define TESTS_UNIT_SCRIPTED_H

#include "tests/unit/golden.h"
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "proxy/upstream/link.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCRIPTED_MOST 40 /* replies of a script */
#define HEADER 16
#define OP_REPLY 1
#define OP_QUERY 2004
#define OP_MSG 2013

struct scripted {
	struct link *link;
	atomic_bool stopping;
	int listener;
	pthread_t thread;
	struct bytes hello;
	struct bytes replies[SCRIPTED_MOST];
	size_t count, told;
	struct buffer commands; /* bodies, one behind the other */
};

static inline bool scripted_receive(int socket, struct buffer *frame)
{
	uint8_t length[4];

	frame->length = 0;
	if (recv(socket, length, 4, MSG_WAITALL) != 4)
		return false;
	buffer_append(frame, length, 4);
	buffer_reserve(frame, (size_t)load_int32(length));
	if (recv(socket, frame->data + 4, (size_t)load_int32(length) - 4, MSG_WAITALL) <= 0)
		return false;
	frame->length = (size_t)load_int32(length);
	return true;
}

static inline void scripted_answer(int socket, const struct buffer *request, struct bytes body)
{
	/* OP_REPLY: flags, cursor, start, 1 document. OP_MSG: flags, kind. */
	static const uint8_t old[20] = {8, [16] = 1}, now[5] = {0};
	bool is_old = load_int32(request->data + 12) == OP_QUERY;
	int32_t header[4] = {0, 7, load_int32(request->data + 4), is_old ? OP_REPLY : OP_MSG};
	auto_buffer struct buffer out = {0};

	header[0] = (int32_t)(sizeof(header) + (is_old ? sizeof(old) : sizeof(now)) + body.length);
	buffer_append(&out, header, sizeof(header));
	buffer_append(&out, is_old ? old : now, is_old ? sizeof(old) : sizeof(now));
	buffer_append(&out, body.data, body.length);
	(void)!write(socket, out.data, out.length);
}

/* Until the link closes the connection, or the script says to cut it. */
static inline void scripted_converse(struct scripted *script, int socket)
{
	static uint8_t fine[] = {17, 0, 0, 0, 1, 'o', 'k', 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0};
	auto_buffer struct buffer request = {0};

	while (scripted_receive(socket, &request)) {
		struct bytes body = {request.data + HEADER + 5, request.length - HEADER - 5};
		struct bytes answer = {fine, sizeof(fine)};

		if (load_int32(request.data + 12) == OP_QUERY ||
		    memcmp(body.data + 5, "hello", 5) == 0) {
			answer = script->hello;
		} else if (memcmp(body.data + 5, "endSessions", 11) != 0) {
			buffer_append(&script->commands, body.data, body.length);
			if (script->told < script->count)
				answer = script->replies[script->told++];
		}
		if (answer.length == 0)
			break;
		scripted_answer(socket, &request, answer);
	}
}

/* One connection after the other, until the test has ended. */
static inline void *scripted_serve(void *context)
{
	struct scripted *script = context;
	int socket;

	while ((socket = accept(script->listener, NULL, NULL)) >= 0) {
		scripted_converse(script, socket);
		close(socket);
	}
	return NULL;
}

#define SCRIPTED_CUT "" /* for a reply: the connection is closed instead */

/* `replies` end with NULL; then {ok: 1} is the answer. */
static inline void scripted_begin(struct scripted *script, const char *hello,
				  const char *const *replies)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(address);
	bson_error_t error;

	*script = (struct scripted){.hello = made_bson(hello)};
	for (; replies[script->count]; script->count++) {
		cr_assert_lt(script->count, SCRIPTED_MOST);
		if (replies[script->count][0])
			script->replies[script->count] = made_bson(replies[script->count]);
	}
	script->listener = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(script->listener, (struct sockaddr *)&address, length), 0);
	cr_assert_eq(listen(script->listener, 1), 0);
	cr_assert_eq(getsockname(script->listener, (struct sockaddr *)&address, &length), 0);
	cr_assert_eq(pthread_create(&script->thread, NULL, scripted_serve, script), 0);
	script->link = link_open_plain(made_text("127.0.0.1:%d", ntohs(address.sin_port)),
				       &script->stopping, &error);
	cr_assert_not_null(script->link, "%s", error.message);
}

/* What differs each time: the session's name, the random half of a new generation, dates. The
 * tests' own generations begin with A, their names' halves with 0. */
static inline void scripted_mask(char *json)
{
	char *at, *end;

	for (at = json; (at = strstr(at, "\"base64\" : \"")); at = end) {
		at += strlen("\"base64\" : \"");
		end = strchr(at, '"');
		if (end - at == 24 && *at != 'A')
			memset(at + 10, '*', 14);
	}
	for (at = json; (at = strstr(at, "{ \"$date\" : { \"$numberLong\" : \"")); at = end) {
		at += strlen("{ \"$date\" : { \"$numberLong\" : \"");
		end = strchr(at, '"');
		memset(at, '*', (size_t)(end - at));
	}
}

static inline void scripted_note(struct bytes command)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	struct cursor cursor;
	struct element element;
	bson_t view;
	char *json;

	cr_assert(cursor_open(&cursor, command));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		if (!element_is(&element, "lsid"))
			writer_element(&out, &element);
	writer_close(&out, start);
	cr_assert(bson_init_static(&view, out.data, out.length));
	json = bson_as_canonical_extended_json(&view, NULL);
	scripted_mask(json);
	golden_line(made_text("C %s", json));
	bson_free(json);
}

/* The whole script was told. */
static inline void scripted_end(struct scripted *script)
{
	size_t at = 0;

	link_free(script->link);
	shutdown(script->listener, SHUT_RDWR);
	pthread_join(script->thread, NULL);
	close(script->listener);
	for (; at < script->commands.length;) {
		size_t length = (size_t)load_int32(script->commands.data + at);

		scripted_note((struct bytes){script->commands.data + at, length});
		at += length;
	}
	cr_assert_eq(script->told, script->count);
	buffer_fini(&script->commands);
	made_free();
}

#define SCRIPTED_MEMBER \
	"{'ok': 1.0, 'isWritablePrimary': true, 'ismaster': true, 'helloOk': true, " \
	"'maxWireVersion': 17, 'minWireVersion': 0, 'setName': 's', 'me': 'a:1', 'hosts': " \
	"['a:1'], 'maxBsonObjectSize': 16777216, 'maxMessageSizeBytes': 48000000, " \
	"'maxWriteBatchSize': 100000, 'logicalSessionTimeoutMinutes': 30, 'operationTime': " \
	"{'$timestamp': {'t': 5, 'i': 1}}}"
#define SCRIPTED_ALONE \
	"{'ok': 1.0, 'isWritablePrimary': true, 'ismaster': true, 'helloOk': true, " \
	"'maxWireVersion': 17, 'minWireVersion': 0, 'maxBsonObjectSize': 16777216, " \
	"'maxMessageSizeBytes': 48000000, 'maxWriteBatchSize': 100000}"

/* A reply with a cursor's one batch, which is a JSON array; and one of a write. */
#define SCRIPTED_BATCH(documents) \
	"{'ok': 1.0, 'cursor': {'id': {'$numberLong': '0'}, 'ns': 'shop.books', " \
	"'firstBatch': " documents "}}"
#define SCRIPTED_DONE(count) \
	"{'ok': 1.0, 'n': " #count ", 'operationTime': {'$timestamp': {'t': 6, 'i': 1}}}"

#endif
