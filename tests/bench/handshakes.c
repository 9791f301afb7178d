/* Opens one connection after the other with TLS, says hello and closes: handshakes a second. */
#include "tests/bench/channel.h"
#include "tests/bench/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { REPLY_SIZE = 4096 };

static uint16_t port;
static bool resumes;
static SSL_CTX *context;
static SSL_SESSION *ticket; /* the latest: a server may take each only once */

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int on_ticket(SSL *tls, SSL_SESSION *session)
{
	(void)tls;
	SSL_SESSION_free(ticket);
	ticket = SSL_SESSION_dup(session); /* closing spoils the connection's own one */
	return 0;
}

static void open_channel(struct channel *channel)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	channel->fd = socket(AF_INET, SOCK_STREAM, 0);
	if (channel->fd < 0 ||
	    connect(channel->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		err(1, "connect to port %u", port);
	setsockopt(channel->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	channel->tls = SSL_new(context);
	channel_require(channel->tls != NULL && SSL_set_fd(channel->tls, channel->fd), "no memory");
	if (resumes && ticket != NULL)
		SSL_set_session(channel->tls, ticket);
	channel_require(SSL_connect(channel->tls) == 1, "connect");
}

static void say_hello(struct channel *channel)
{
	uint8_t bytes[256], reply[REPLY_SIZE];
	struct writer w = {.bytes = bytes};
	size_t body = begin_command(&w);
	size_t seen = 0;

	put_int32_field(&w, "hello", 1);
	put_string_field(&w, "$db", "admin");
	end_document(&w, body);
	write_int32(w.bytes, (int32_t)w.length);
	if (!channel_send(channel, w.bytes, w.length))
		errx(1, "sending hello failed");
	while (seen < HEADER_SIZE || seen < (size_t)read_int32(reply)) {
		ssize_t length = channel_receive(channel, reply + seen, sizeof(reply) - seen);

		if (length < 0)
			errx(1, "closed by the server");
		seen += (size_t)length;
	}
}

/* Returns whether the session of an earlier connection went on. */
static bool shake_hands(void)
{
	struct channel channel;
	bool resumed;

	open_channel(&channel);
	say_hello(&channel);
	resumed = SSL_session_reused(channel.tls);
	SSL_shutdown(channel.tls);
	SSL_free(channel.tls);
	close(channel.fd);
	return resumed;
}

/* An error is a handshake that was full where a resumed one was wanted, or the other way round. */
static void measure(double seconds)
{
	int64_t began = now();
	uint64_t count = 0, errors = 0;
	double took;

	do {
		errors += shake_hands() != resumes;
		count++;
		took = (double)(now() - began) / 1e9;
	} while (took < seconds);
	printf("{\"operations\": %lu, \"seconds\": %.6f, \"per_second\": %.1f, \"p50_us\": %.3f, "
	       "\"errors\": %lu}\n",
	       count, took, (double)count / took, took * 1e6 / (double)count, errors);
	fflush(stdout);
}

/* Usage: handshakes --port=P --ca=FILE --kind=full|resumed. Then reads lines `run SECONDS`;
 * answers each with one line of JSON. */
int main(int argc, char **argv)
{
	const char *ca = NULL;
	char line[64];

	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--port=", 7) == 0)
			port = (uint16_t)atoi(argv[i] + 7);
		else if (strncmp(argv[i], "--ca=", 5) == 0)
			ca = argv[i] + 5;
		else
			resumes = strcmp(argv[i], "--kind=resumed") == 0;
	}
	if (ca == NULL)
		errx(2, "usage: handshakes --port=P --ca=FILE --kind=full|resumed");
	context = channel_context(TLS_client_method(), ca);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(context, on_ticket);
	shake_hands(); /* brings the first ticket */
	printf("{\"connections\": 1}\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		double seconds;

		if (sscanf(line, "run %lf", &seconds) != 1)
			errx(2, "unknown command: %s", line);
		measure(seconds);
	}
	return 0;
}
