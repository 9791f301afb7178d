/* Answers MongoDB's wire protocol with ready-made replies: a server that costs next to nothing. */
#include "tests/bench/channel.h"
#include "tests/bench/wire.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	MAX_PEERS = 65536, /* a peer is found by its descriptor */
	HEAD_SIZE = 128,   /* of a message, all that is ever kept */
	READ_SIZE = 65536,
	MAX_EVENTS = 64,
};

struct peer {
	struct channel channel;
	uint32_t seen; /* bytes of the current message */
	uint32_t size; /* of the current message, 0 until its header is whole */
	uint8_t head[HEAD_SIZE];
};

struct reply {
	uint8_t *bytes;
	size_t length;
};

static struct peer peers[MAX_PEERS];
static SSL_CTX *context; /* NULL: plain */
static struct reply hello_reply, legacy_hello_reply, cursor_reply, empty_reply, write_reply;

static void put_hello(struct writer *w)
{
	put_bool_field(w, "helloOk", true);
	put_bool_field(w, "ismaster", true);
	put_bool_field(w, "isWritablePrimary", true);
	put_int32_field(w, "maxBsonObjectSize", 16777216);
	put_int32_field(w, "maxMessageSizeBytes", 48000000);
	put_int32_field(w, "maxWriteBatchSize", 100000);
	put_int32_field(w, "logicalSessionTimeoutMinutes", 30);
	put_int32_field(w, "connectionId", 1);
	put_int32_field(w, "minWireVersion", 0);
	put_int32_field(w, "maxWireVersion", 17);
	put_bool_field(w, "readOnly", false);
	put_double_field(w, "ok", 1.0);
}

/* Finishes the message in `w` and keeps it as `reply`. */
static void keep_reply(struct reply *reply, struct writer *w)
{
	write_int32(w->bytes, (int32_t)w->length);
	reply->length = w->length;
	reply->bytes = malloc(w->length);
	if (reply->bytes == NULL)
		err(1, "malloc");
	memcpy(reply->bytes, w->bytes, w->length);
}

static void make_hello_replies(struct writer *w)
{
	size_t body = begin_command(w);

	put_hello(w);
	end_document(w, body);
	keep_reply(&hello_reply, w);

	begin_message(w, OP_REPLY);
	put_int32(w, 8); /* AwaitCapable */
	put_int32(w, 0); /* cursor id, both halves */
	put_int32(w, 0);
	put_int32(w, 0); /* starting from */
	put_int32(w, 1); /* documents */
	body = begin_length(w);
	put_hello(w);
	end_document(w, body);
	keep_reply(&legacy_hello_reply, w);
}

/* One document of about `size` bytes, or none. */
static void put_batch(struct writer *w, size_t size)
{
	size_t batch = begin_array_field(w, "firstBatch");

	if (size > 0) {
		size_t document = begin_document_field(w, "0");

		put_int32_field(w, "_id", 1);
		put_name(w, 0x05, "payload");
		put_int32(w, (int32_t)size);
		put_byte(w, 0);
		memset(w->bytes + w->length, 'x', size);
		w->length += size;
		end_document(w, document);
	}
	end_document(w, batch);
}

static void make_cursor_reply(struct reply *reply, struct writer *w, size_t size)
{
	size_t body = begin_command(w);
	size_t cursor = begin_document_field(w, "cursor");

	put_batch(w, size);
	put_int64_field(w, "id", 0);
	put_string_field(w, "ns", "bench.pages");
	end_document(w, cursor);
	put_double_field(w, "ok", 1.0);
	end_document(w, body);
	keep_reply(reply, w);
}

static void make_write_reply(struct writer *w)
{
	size_t body = begin_command(w);

	put_int32_field(w, "n", 1);
	put_int32_field(w, "nModified", 1);
	put_double_field(w, "ok", 1.0);
	end_document(w, body);
	keep_reply(&write_reply, w);
}

static void make_replies(size_t find_size)
{
	struct writer w = {.bytes = malloc(find_size + 4096)};

	if (w.bytes == NULL)
		err(1, "malloc");
	make_hello_replies(&w);
	make_cursor_reply(&cursor_reply, &w, find_size);
	make_cursor_reply(&empty_reply, &w, 0);
	make_write_reply(&w);
	free(w.bytes);
}

static bool is_command(const char *name, const char *const *names)
{
	for (; *names != NULL; names++) {
		if (strcmp(name, *names) == 0)
			return true;
	}
	return false;
}

/* As load asks; what Spillway asks about on its own account has no documents here. */
static bool is_find_by_id(const char *after_collection)
{
	static const char filter[] = "\x03"
				     "filter";

	return memcmp(after_collection, filter, sizeof(filter)) == 0 &&
	       memcmp(after_collection + sizeof(filter) + 4, "\x10_id", 5) == 0;
}

/* The command's name is the first key of the body, which all callers send as the first section. */
static struct reply *choose_reply(const uint8_t *head)
{
	static const char *const hellos[] = {"hello", "isMaster", "ismaster", NULL};
	static const char *const cursors[] = {"aggregate", "listCollections", "listIndexes", NULL};
	const char *name = (const char *)head + BODY_OFFSET + 5;
	const char *collection = name + strlen(name) + 5;

	if (read_int32(head + 12) == OP_QUERY)
		return &legacy_hello_reply;
	if (strcmp(name, "find") == 0)
		return is_find_by_id(collection + strlen(collection) + 1) ? &cursor_reply
									  : &empty_reply;
	if (is_command(name, hellos))
		return &hello_reply;
	if (is_command(name, cursors))
		return &empty_reply;
	return &write_reply;
}

/* The socket blocks: a client of the benchmark always reads what it asked for. */
static bool answer(struct peer *peer)
{
	uint8_t *head = peer->head;
	struct reply *reply;

	head[HEAD_SIZE - 1] = 0;
	head[HEAD_SIZE - 2] = 0;
	if (read_int32(head + 12) == OP_MSG && (head[HEADER_SIZE] & MORE_TO_COME) != 0)
		return true;
	reply = choose_reply(head);
	memcpy(reply->bytes + 8, head + 4, 4); /* responseTo = requestID */
	return channel_send(&peer->channel, reply->bytes, reply->length);
}

/* Takes at most one message's worth of bytes; returns how many, or 0 to close. */
static size_t take_bytes(struct peer *peer, const uint8_t *bytes, size_t length)
{
	size_t wanted = (peer->size > 0 ? peer->size : HEADER_SIZE) - peer->seen;
	size_t taken = length < wanted ? length : wanted;

	if (peer->seen < HEAD_SIZE) {
		size_t room = HEAD_SIZE - peer->seen;

		memcpy(peer->head + peer->seen, bytes, taken < room ? taken : room);
	}
	peer->seen += (uint32_t)taken;
	if (peer->size == 0 && peer->seen == HEADER_SIZE) {
		int32_t size = read_int32(peer->head);

		if (size < BODY_OFFSET + 5 || size > 48000000)
			return 0;
		peer->size = (uint32_t)size;
	} else if (peer->seen == peer->size) {
		if (!answer(peer))
			return 0;
		peer->seen = peer->size = 0;
	}
	return taken;
}

static void close_peer(struct peer *peer)
{
	SSL_free(peer->channel.tls);
	close(peer->channel.fd);
	memset(peer, 0, sizeof(*peer));
}

/* Nobody's handshake holds the others up: the socket blocks only once it is over. */
static void shake_hands(struct peer *peer)
{
	int fd = peer->channel.fd;
	int result;

	ERR_clear_error();
	result = SSL_accept(peer->channel.tls);
	if (result == 1)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	else if (SSL_get_error(peer->channel.tls, result) != SSL_ERROR_WANT_READ)
		close_peer(peer);
}

static void serve_peer(struct peer *peer)
{
	static uint8_t buffer[READ_SIZE];
	ssize_t length;
	size_t at = 0;

	if (peer->channel.tls != NULL && !SSL_is_init_finished(peer->channel.tls)) {
		shake_hands(peer);
		return;
	}
	length = channel_receive(&peer->channel, buffer, sizeof(buffer));
	while (length > 0 && at < (size_t)length) {
		size_t taken = take_bytes(peer, buffer + at, (size_t)length - at);

		if (taken == 0)
			break;
		at += taken;
	}
	if (length < 0 || at < (size_t)length)
		close_peer(peer);
}

/* As mongod with a CA file: it wants a certificate of its clients. */
static void make_context(const char *both, const char *ca)
{
	static const uint8_t name[] = "stub";

	context = channel_context(TLS_server_method(), ca);
	channel_require(SSL_CTX_use_certificate_chain_file(context, both) &&
				SSL_CTX_use_PrivateKey_file(context, both, SSL_FILETYPE_PEM),
			both);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_session_id_context(context, name, sizeof(name));
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
}

static void secure(struct channel *channel)
{
	if (context == NULL)
		return;
	channel->tls = SSL_new(context);
	channel_require(channel->tls != NULL && SSL_set_fd(channel->tls, channel->fd), "accept");
	fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
}

static void accept_peer(int epoll, int listener)
{
	int fd = accept(listener, NULL, NULL);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
	int on = 1;

	if (fd < 0)
		return;
	if (fd >= MAX_PEERS)
		errx(1, "more than %d descriptors", MAX_PEERS);
	peers[fd] = (struct peer){.channel.fd = fd};
	secure(&peers[fd].channel);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		err(1, "epoll_ctl");
}

static int open_listener(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	int on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, 4096) < 0)
		err(1, "listen on port %u", port);
	if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		err(1, "getsockname");
	printf("%u\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

static void serve(int listener)
{
	struct epoll_event events[MAX_EVENTS];
	struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
	int epoll = epoll_create1(0);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0)
		err(1, "epoll");
	for (;;) {
		int count = epoll_wait(epoll, events, MAX_EVENTS, -1);

		for (int i = 0; i < count; i++) {
			if (events[i].data.fd == listener)
				accept_peer(epoll, listener);
			else
				serve_peer(&peers[events[i].data.fd]);
		}
	}
}

/* Usage: stub_server [PORT [BYTES OF A FOUND DOCUMENT [CERTIFICATE AND KEY, CA]]]. Prints the port
 * it listens on. */
int main(int argc, char **argv)
{
	uint16_t port = argc > 1 ? (uint16_t)atoi(argv[1]) : 0;
	size_t find_size = argc > 2 ? (size_t)atol(argv[2]) : 270;

	signal(SIGPIPE, SIG_IGN); /* TLS writes by write(2) */
	if (argc > 4)
		make_context(argv[3], argv[4]);
	make_replies(find_size);
	serve(open_listener(port));
}
