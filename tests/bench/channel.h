/* A connection of the benchmark's programs: a blocking socket, with TLS around it or without.
 *
 * TLS is version 1.3 with one cipher, so that all proxies between them seal in the same way. */
#ifndef TESTS_BENCH_CHANNEL_H
#define TESTS_BENCH_CHANNEL_H

#include <err.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct channel {
	int fd;
	SSL *tls; /* NULL: plain */
};

static inline void channel_require(bool good, const char *what)
{
	if (good)
		return;
	ERR_print_errors_fp(stderr);
	errx(1, "TLS: %s", what);
}

static inline SSL_CTX *channel_context(const SSL_METHOD *method, const char *ca)
{
	SSL_CTX *context = SSL_CTX_new(method);

	channel_require(context != NULL && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
				SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") &&
				SSL_CTX_load_verify_file(context, ca),
			"no context");
	/* A record may hold a ticket only: reading does not wait for the next one. */
	SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
	return context;
}

/* Bytes, 0 if none of them were the application's, or -1: the other end has closed. */
static inline ssize_t channel_receive(struct channel *channel, void *room, size_t size)
{
	ssize_t length;

	if (channel->tls == NULL) {
		length = recv(channel->fd, room, size, 0);
		return length > 0 ? length : -1;
	}
	ERR_clear_error();
	length = SSL_read(channel->tls, room, (int)size);
	if (length > 0)
		return length;
	return SSL_get_error(channel->tls, (int)length) == SSL_ERROR_WANT_READ ? 0 : -1;
}

static inline bool channel_send(struct channel *channel, const uint8_t *bytes, size_t length)
{
	while (length > 0) {
		ssize_t sent = channel->tls == NULL ? send(channel->fd, bytes, length, MSG_NOSIGNAL)
						    : SSL_write(channel->tls, bytes, (int)length);

		if (sent <= 0)
			return false;
		bytes += sent;
		length -= (size_t)sent;
	}
	return true;
}

#endif
