/* One connection, one hello: a socket that does not block, and poll between its steps. */
#include "proxy/tls/reach.h"

#include "proxy/base/address.h"
#include "proxy/base/clock.h"
#include "proxy/tls/tls.h"
#include "protocol/message.h"
#include "protocol/template.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define REACH_MS 3000
#define SLICE_MS 100 /* how often `stopping` is looked at */
#define HELLO_MOST ((size_t)1 << 20)

struct reaching {
	int socket;
	int64_t until;
	const atomic_bool *stopping;
	struct tls *tls; /* NULL: plain */
	char *reason;
	size_t size;
};

static bool failed(const struct reaching *reaching, const char *what, const char *why)
{
	snprintf(reaching->reason, reaching->size, "%s: %s", what, why);
	return false;
}

static bool await(const struct reaching *reaching, short events)
{
	struct pollfd wait = {.fd = reaching->socket, .events = events};

	while (!atomic_load(reaching->stopping) && clock_now() < reaching->until)
		if (poll(&wait, 1, SLICE_MS) > 0)
			return true;
	return failed(reaching, "it does not answer", "the time is over");
}

static bool connect_to(struct reaching *reaching, const char *address)
{
	struct sockaddr_storage where = {0};
	socklen_t length;
	int error = 0;
	socklen_t error_length = sizeof(error);

	if (!address_resolve_now(address, &where))
		return failed(reaching, "its name cannot be resolved", address);
	length = where.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					     : sizeof(struct sockaddr_in);
	reaching->socket = socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (reaching->socket < 0)
		return failed(reaching, "no socket can be made", strerror(errno));
	if (connect(reaching->socket, (struct sockaddr *)&where, length) == 0)
		return true;
	if (errno != EINPROGRESS)
		return failed(reaching, "it cannot be connected to", strerror(errno));
	if (!await(reaching, POLLOUT))
		return false;
	getsockopt(reaching->socket, SOL_SOCKET, SO_ERROR, &error, &error_length);
	return error == 0 || failed(reaching, "it cannot be connected to", strerror(error));
}

static bool send_all(const struct reaching *reaching, struct bytes bytes)
{
	while (bytes.length > 0) {
		ssize_t sent = send(reaching->socket, bytes.data, bytes.length, MSG_NOSIGNAL);

		if (sent > 0) {
			bytes.data += sent;
			bytes.length -= (size_t)sent;
		} else if (errno != EAGAIN && errno != EINTR) {
			return failed(reaching, "the connection was lost", strerror(errno));
		} else if (!await(reaching, POLLOUT)) {
			return false;
		}
	}
	return true;
}

/* Some bytes, as the kernel has them. */
static bool receive(const struct reaching *reaching, uint8_t *room, size_t size, size_t *length)
{
	for (;;) {
		ssize_t got = recv(reaching->socket, room, size, 0);

		if (got > 0) {
			*length = (size_t)got;
			return true;
		}
		if (got == 0)
			return failed(reaching, "the server closed the connection",
				      reaching->tls ? "it may not speak TLS, or may want a "
						      "certificate"
						    : "it may want TLS (servers.tls)");
		if (errno != EAGAIN && errno != EINTR)
			return failed(reaching, "the connection was lost", strerror(errno));
		if (!await(reaching, POLLIN))
			return false;
	}
}

static bool shake(const struct reaching *reaching)
{
	for (;;) {
		auto_buffer struct buffer out = {0};
		enum tls_step step = tls_handshake(reaching->tls, &out);
		uint8_t room[4096];
		size_t length;

		if (!send_all(reaching, buffer_view(&out)))
			return false;
		if (step == TLS_DONE)
			return true;
		if (step != TLS_MORE)
			return failed(reaching, "the handshake of TLS failed",
				      tls_reason(reaching->tls));
		if (!receive(reaching, room, sizeof(room), &length))
			return false;
		tls_feed(reaching->tls, (struct bytes){room, length});
		tls_keep(reaching->tls);
	}
}

static bool send_hello(const struct reaching *reaching)
{
	auto_buffer struct buffer frame = {0}, body = {0}, sealed = {0};
	size_t start = message_begin(&frame, 1, 0, 0);

	template_write_document(&body, "{hello: 1, apiVersion: '1', '$db': 'admin'}");
	message_begin_body(&frame);
	buffer_append(&frame, body.data, body.length);
	message_end(&frame, start);
	if (!reaching->tls)
		return send_all(reaching, buffer_view(&frame));
	if (!tls_write(reaching->tls, buffer_view(&frame), &sealed))
		return failed(reaching, "TLS failed", tls_reason(reaching->tls));
	return send_all(reaching, buffer_view(&sealed));
}

/* Adds plain bytes that have come. */
static bool take(const struct reaching *reaching, struct buffer *plain)
{
	auto_buffer struct buffer out = {0};
	uint8_t room[4096];
	size_t length;

	buffer_reserve(plain, sizeof(room));
	if (!reaching->tls) {
		if (!receive(reaching, plain->data + plain->length, sizeof(room), &length))
			return false;
		plain->length += length;
		return true;
	}
	switch (tls_read(reaching->tls, plain->data + plain->length, sizeof(room), &length, &out)) {
	case TLS_DONE:
		plain->length += length;
		return true;
	case TLS_MORE:
		if (!receive(reaching, room, sizeof(room), &length))
			return false;
		tls_feed(reaching->tls, (struct bytes){room, length});
		tls_keep(reaching->tls);
		return true;
	case TLS_ENDED:
	case TLS_FAILED:
		break;
	}
	return failed(reaching, "the server ended TLS", tls_reason(reaching->tls));
}

static bool read_hello(const struct reaching *reaching, struct buffer *hello)
{
	auto_buffer struct buffer plain = {0};
	struct frame_header header;
	struct message message;
	enum frame_state state;

	while ((state = frame_next(buffer_view(&plain), &header)) != FRAME_READY) {
		if (state == FRAME_INVALID || plain.length > HELLO_MOST)
			return failed(reaching, "it does not answer as a mongod",
				      "its reply is no message");
		if (!take(reaching, &plain))
			return false;
	}
	if (header.opcode != OPCODE_MESSAGE || !message_parse(buffer_view(&plain), &message))
		return failed(reaching, "it does not answer as a mongod", "its reply is no OP_MSG");
	buffer_append(hello, message.body.data, message.body.length);
	return true;
}

static bool secure(struct reaching *reaching, struct tls_side *side, const char *address)
{
	SSL *connection;

	if (!side)
		return true;
	connection = tls_side_connect(side, address);
	if (!connection)
		return failed(reaching, "no TLS connection can be made", "no memory");
	reaching->tls = tls_new(connection);
	return shake(reaching);
}

must_check bool reach_hello(const struct reach *reach, size_t index, const atomic_bool *stopping,
			    struct buffer *hello, char *reason, size_t size)
{
	const char *address = places_latest(reach->places, index);
	struct reaching reaching = {-1, clock_now() + REACH_MS, stopping, NULL, reason, size};
	bool reached = connect_to(&reaching, address) &&
		       secure(&reaching, tls_pairs_at(reach->tls, index)->server, address) &&
		       send_hello(&reaching) && read_hello(&reaching, hello);

	tls_free(reaching.tls);
	if (reaching.socket >= 0)
		close(reaching.socket);
	return reached;
}
