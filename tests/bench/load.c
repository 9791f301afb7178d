/* Load generator: closed loop, one outstanding operation a connection, driven slice by slice. */
#include "tests/bench/channel.h"
#include "tests/bench/wire.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	READ_SIZE = 1 << 20,
	HEAD_SIZE = 4096, /* of a reply, looked at for errors */
	MAX_SAMPLES = 1 << 21,
	MAX_DOCUMENT = 16000000,
	MAX_EVENTS = 64,
};

struct options {
	int port, connections;
	int32_t first_id, ids, bytes;
	int32_t members; /* that acknowledge a write; 0: as the server's default is */
	const char *operation, *database, *collection, *array;
	const char *text; /* pushed is {u: <turn>, t: <text>}; NULL: an int */
	const char *ca;   /* who signed the server's certificate; NULL: no TLS */
};

struct connection {
	struct channel channel;
	int32_t number;
	int64_t statements; /* sent: transaction number of the next */
	int64_t asked;      /* when, in nanoseconds */
	uint32_t seen, size;
	uint8_t header[HEADER_SIZE];
};

/* The one message all connections send; what differs is patched in before each send. */
struct message {
	struct writer w;
	size_t session, id, transaction, turn; /* offsets, 0: has none */
};

struct slice {
	uint64_t operations, errors, bytes, sampled;
	int64_t began, ends; /* nanoseconds */
	uint64_t limit;      /* operations, 0: by time */
};

static struct options options = {
	.connections = 1,
	.first_id = 1,
	.ids = 1,
	.bytes = 300,
	.operation = "find",
	.database = "bench",
	.collection = "pages",
	.array = "a",
};
static struct connection *connections;
static struct message message;
static uint32_t samples[MAX_SAMPLES]; /* nanoseconds */
static uint8_t buffer[READ_SIZE];
static int epoll;

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void put_session(struct message *m)
{
	struct writer *w = &m->w;
	size_t session = begin_document_field(w, "lsid");

	put_name(w, 0x05, "id");
	put_int32(w, 16);
	put_byte(w, 4); /* UUID */
	m->session = w->length;
	put_int32(w, 0);
	put_int32(w, (int32_t)getpid());
	put_bytes(w, &(int64_t){now()}, 8);
	end_document(w, session);
}

static void put_id(struct message *m)
{
	put_int32_field(&m->w, "_id", 0);
	m->id = m->w.length - 4;
}

static void make_find(struct message *m)
{
	struct writer *w = &m->w;
	size_t body = begin_command(w);
	size_t filter;

	put_string_field(w, "find", options.collection);
	filter = begin_document_field(w, "filter");
	put_id(m);
	end_document(w, filter);
	put_int32_field(w, "limit", 1);
	put_bool_field(w, "singleBatch", true);
	put_session(m);
	put_string_field(w, "$db", options.database);
	end_document(w, body);
}

/* A retryable write, as drivers send it by default; its documents stand in a sequence. */
static size_t begin_write(struct message *m, const char *command, const char *sequence)
{
	struct writer *w = &m->w;
	size_t body = begin_command(w);
	size_t start;

	put_string_field(w, command, options.collection);
	put_bool_field(w, "ordered", true);
	put_session(m);
	put_int64_field(w, "txnNumber", 0);
	m->transaction = w->length - 8;
	if (options.members > 0) {
		start = begin_document_field(w, "writeConcern");
		put_int32_field(w, "w", options.members);
		end_document(w, start);
	}
	put_string_field(w, "$db", options.database);
	end_document(w, body);
	put_byte(w, 1);
	start = begin_length(w);
	put_bytes(w, sequence, strlen(sequence) + 1);
	return start;
}

static void put_element(struct message *m)
{
	struct writer *w = &m->w;
	size_t element;

	if (options.text == NULL) {
		put_int32_field(w, options.array, 7);
		return;
	}
	element = begin_document_field(w, options.array);
	put_int32_field(w, "u", 0);
	m->turn = w->length - 4;
	put_string_field(w, "t", options.text);
	end_document(w, element);
}

static void make_push(struct message *m)
{
	struct writer *w = &m->w;
	size_t sequence = begin_write(m, "update", "updates");
	size_t statement = begin_length(w);
	size_t part = begin_document_field(w, "q");
	size_t push;

	put_id(m);
	end_document(w, part);
	part = begin_document_field(w, "u");
	push = begin_document_field(w, "$push");
	put_element(m);
	end_document(w, push);
	end_document(w, part);
	end_document(w, statement);
	end_length(w, sequence);
}

/* The whole message has options.bytes bytes, in documents of at most MAX_DOCUMENT. */
static void make_insert(struct message *m)
{
	struct writer *w = &m->w;
	size_t sequence = begin_write(m, "insert", "documents");

	while (w->length + 40 < (size_t)options.bytes) {
		size_t document = begin_length(w);
		size_t room = (size_t)options.bytes - document;
		size_t size = room < MAX_DOCUMENT ? room : MAX_DOCUMENT;

		put_name(w, 0x05, "payload");
		size -= w->length - document + 6;
		put_int32(w, (int32_t)size);
		put_byte(w, 0);
		memset(w->bytes + w->length, 'x', size);
		w->length += size;
		end_document(w, document);
	}
	end_length(w, sequence);
}

static void make_message(struct message *m, const char *operation)
{
	size_t body;

	free(m->w.bytes);
	*m = (struct message){.w.bytes = malloc((size_t)options.bytes + HEAD_SIZE)};
	if (m->w.bytes == NULL)
		err(1, "malloc");
	if (strcmp(operation, "find") == 0) {
		make_find(m);
	} else if (strcmp(operation, "push") == 0) {
		make_push(m);
	} else if (strcmp(operation, "insert") == 0) {
		make_insert(m);
	} else if (strcmp(operation, "hello") == 0) {
		body = begin_command(&m->w);
		put_int32_field(&m->w, "hello", 1);
		put_string_field(&m->w, "$db", "admin");
		end_document(&m->w, body);
	} else {
		errx(2, "unknown operation '%s'", operation);
	}
	write_int32(m->w.bytes, (int32_t)m->w.length);
}

static void patch_message(struct connection *c)
{
	uint8_t *bytes = message.w.bytes;
	int64_t turn = c->statements++;

	write_int32(bytes + 4, (int32_t)turn + 1);
	if (message.session > 0)
		write_int32(bytes + message.session, c->number);
	if (message.transaction > 0)
		memcpy(bytes + message.transaction, &turn, sizeof(turn));
	if (message.turn > 0)
		write_int32(bytes + message.turn, (int32_t)turn);
	if (message.id > 0) {
		int32_t step = (int32_t)((turn + c->number) % options.ids);

		write_int32(bytes + message.id, options.first_id + step);
	}
}

static void ask(struct connection *c)
{
	patch_message(c);
	c->asked = now();
	if (!channel_send(&c->channel, message.w.bytes, message.w.length))
		errx(1, "connection %d: sending failed", c->number);
}

/* A reply that says ok: 1 and, of a push, n: 1; of a long one the start is enough. */
static bool reply_is_good(const struct connection *c, const uint8_t *reply, size_t length)
{
	static const uint8_t good[] = {1, 'o', 'k', 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f};
	static const uint8_t one[] = {0x10, 'n', 0, 1, 0, 0, 0};

	if (read_int32(c->header + 8) != (int32_t)c->statements)
		errx(1, "a reply to request %d where %d was asked", read_int32(c->header + 8),
		     (int32_t)c->statements);
	if (length < c->size)
		return memmem(reply, length, "errmsg", 6) == NULL;
	return memmem(reply, length, good, sizeof(good)) != NULL &&
	       (message.id == 0 || message.transaction == 0 ||
		memmem(reply, length, one, sizeof(one)) != NULL);
}

static void take_sample(struct slice *slice, int64_t nanoseconds)
{
	if (slice->sampled < MAX_SAMPLES)
		samples[slice->sampled++] = (uint32_t)nanoseconds;
}

/* Returns whether the reply is whole. */
static bool hear(struct connection *c, struct slice *slice)
{
	ssize_t length = channel_receive(&c->channel, buffer, sizeof(buffer));
	bool whole;

	if (length < 0)
		errx(1, "connection %d: closed by the server", c->number);
	for (ssize_t i = 0; i < length && c->seen + i < HEADER_SIZE; i++)
		c->header[c->seen + i] = buffer[i];
	c->seen += (uint32_t)length;
	if (c->seen >= HEADER_SIZE)
		c->size = (uint32_t)read_int32(c->header);
	whole = c->seen >= HEADER_SIZE && c->seen == c->size;
	if (whole || (c->seen == length && c->size > 0)) {
		size_t looked = (size_t)length < HEAD_SIZE ? (size_t)length : HEAD_SIZE;

		if (whole)
			take_sample(slice, now() - c->asked);
		slice->errors += !reply_is_good(c, buffer, looked);
	}
	slice->bytes += (uint64_t)length;
	return whole;
}

static int wait_ready(struct epoll_event *events)
{
	int count;

	if (options.connections == 1) { /* its recv blocks: nothing between it and the proxy */
		events[0].data.ptr = &connections[0];
		return 1;
	}
	count = epoll_wait(epoll, events, MAX_EVENTS, -1);
	if (count < 0 && errno != EINTR)
		err(1, "epoll_wait");
	return count;
}

static bool slice_goes_on(const struct slice *slice, uint64_t asked)
{
	return slice->limit > 0 ? asked < slice->limit : now() < slice->ends;
}

/* Every connection asks once, then again after each reply until the slice ends; all are heard. */
static void run_slice(struct slice *slice)
{
	struct epoll_event events[MAX_EVENTS];
	uint64_t asked = 0;

	for (int i = 0; i < options.connections && slice_goes_on(slice, asked); i++, asked++)
		ask(&connections[i]);
	while (slice->operations < asked) {
		int count = wait_ready(events);

		for (int i = 0; i < count; i++) {
			struct connection *c = events[i].data.ptr;

			if (!hear(c, slice))
				continue;
			c->seen = c->size = 0;
			slice->operations++;
			if (slice_goes_on(slice, asked)) {
				ask(c);
				asked++;
			}
		}
	}
}

static int compare_samples(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static double percentile(const struct slice *slice, double part)
{
	if (slice->sampled == 0)
		return 0;
	return samples[(size_t)((double)(slice->sampled - 1) * part)] / 1000.0;
}

static void measure(double seconds, uint64_t limit)
{
	struct slice slice = {.limit = limit, .began = now()};
	double took;

	slice.ends = slice.began + (int64_t)(seconds * 1e9);
	run_slice(&slice);
	took = (double)(now() - slice.began) / 1e9;
	qsort(samples, slice.sampled, sizeof(samples[0]), compare_samples);
	printf("{\"operations\": %lu, \"seconds\": %.6f, \"per_second\": %.1f, \"p50_us\": %.3f, "
	       "\"p99_us\": %.3f, \"errors\": %lu, \"bytes\": %lu}\n",
	       slice.operations, took, (double)slice.operations / took, percentile(&slice, 0.5),
	       percentile(&slice, 0.99), slice.errors, slice.bytes);
	fflush(stdout);
}

static void secure(struct channel *channel)
{
	static SSL_CTX *context;

	if (context == NULL) {
		context = channel_context(TLS_client_method(), options.ca);
		SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	}
	channel->tls = SSL_new(context);
	channel_require(channel->tls != NULL && SSL_set_fd(channel->tls, channel->fd) &&
				SSL_connect(channel->tls) == 1,
			"connect");
}

static void open_connection(struct connection *c, int32_t number)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)options.port)};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
	int on = 1;

	c->number = number;
	c->channel.fd = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (c->channel.fd < 0 ||
	    connect(c->channel.fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		err(1, "connect to port %d", options.port);
	setsockopt(c->channel.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (options.ca != NULL)
		secure(&c->channel);
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->channel.fd, &event) < 0)
		err(1, "epoll_ctl");
}

/* Each connection says hello before the next one opens, as a driver's pool grows. */
static void open_connections(void)
{
	struct slice slice = {0};

	epoll = epoll_create1(0);
	connections = calloc((size_t)options.connections, sizeof(*connections));
	if (epoll < 0 || connections == NULL)
		err(1, "epoll, memory");
	make_message(&message, "hello");
	for (int32_t i = 0; i < options.connections; i++) {
		struct connection *c = &connections[i];

		open_connection(c, i);
		ask(c);
		while (!hear(c, &slice))
			continue;
		c->seen = c->size = 0;
	}
	if (slice.errors > 0)
		errx(1, "hello was refused");
	make_message(&message, options.operation);
	printf("{\"connections\": %d}\n", options.connections);
	fflush(stdout);
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{"port", required_argument, NULL, 'p'},
		{"connections", required_argument, NULL, 'c'},
		{"operation", required_argument, NULL, 'o'},
		{"bytes", required_argument, NULL, 'b'},
		{"first-id", required_argument, NULL, 'f'},
		{"ids", required_argument, NULL, 'i'},
		{"collection", required_argument, NULL, 'n'},
		{"array", required_argument, NULL, 'a'},
		{"members", required_argument, NULL, 'm'},
		{"text", required_argument, NULL, 't'},
		{"ca", required_argument, NULL, 's'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (option) {
		case 'p':
			options.port = atoi(optarg);
			break;
		case 'c':
			options.connections = atoi(optarg);
			break;
		case 'o':
			options.operation = optarg;
			break;
		case 'b':
			options.bytes = atoi(optarg);
			break;
		case 'f':
			options.first_id = atoi(optarg);
			break;
		case 'i':
			options.ids = atoi(optarg);
			break;
		case 'n':
			options.collection = optarg;
			break;
		case 'a':
			options.array = optarg;
			break;
		case 'm':
			options.members = atoi(optarg);
			break;
		case 't':
			options.text = optarg;
			break;
		case 's':
			options.ca = optarg;
			break;
		default:
			exit(2);
		}
	}
}

/*
 * Usage: load --port P [--connections N] [--operation find|push|insert|hello] [--bytes B] ...
 * Then reads lines: `run SECONDS`, `count OPERATIONS`; answers each with one line of JSON.
 */
int main(int argc, char **argv)
{
	char line[64];

	read_options(argc, argv);
	open_connections();
	while (fgets(line, sizeof(line), stdin) != NULL) {
		double amount;

		if (sscanf(line, "run %lf", &amount) == 1)
			measure(amount, 0);
		else if (sscanf(line, "count %lf", &amount) == 1)
			measure(0, (uint64_t)amount);
		else
			errx(2, "unknown command: %s", line);
	}
	return 0;
}
