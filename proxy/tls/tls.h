/* TLS on one connection, without a socket: bytes of the other end in, bytes for it out.
 *
 *      tls_feed ──► (sealed bytes) ──► tls_read ──► plain bytes
 *      plain bytes ──► tls_write ──► `out` (sealed bytes)
 *
 * What is to go to the other end is appended to `out`, by reading and by the handshake, too. */
#pragma once

#include "protocol/bytes.h"

#include <openssl/types.h>

struct tls;

enum tls_step {
	TLS_MORE,   /* more bytes of the other end are needed */
	TLS_DONE,   /* the handshake is over; or some plain bytes were read */
	TLS_ENDED,  /* the other end says no more */
	TLS_FAILED, /* tls_reason says why; the connection is of no use any more */
};

/* Takes the connection (tls_side.h) over. */
struct tls *tls_new(SSL *connection);
/* Takes NULL. */
void tls_free(struct tls *tls);

/* What is read from next; the view must live until all of it is read, or until tls_keep. */
void tls_feed(struct tls *tls, struct bytes sealed);
/* Copies what has not been read of the view, and frees the copy of before if all of it is read. */
void tls_keep(struct tls *tls);

must_check enum tls_step tls_handshake(struct tls *tls, struct buffer *out);
/* TLS_DONE: *length bytes, one at least. */
must_check enum tls_step tls_read(struct tls *tls, void *room, size_t size, size_t *length,
				  struct buffer *out);
/* False if the connection is of no use any more. Only after the handshake. */
must_check bool tls_write(struct tls *tls, struct bytes plain, struct buffer *out);
/* The farewell: nothing is written behind it. */
void tls_end(struct tls *tls, struct buffer *out);

/* Whether the other end's first byte was none of TLS's. */
bool tls_met_plain(const struct tls *tls);
/* Whether the session of an earlier connection went on: no certificates were sent. */
bool tls_resumed(const struct tls *tls);
/* Why it failed, in words. */
const char *tls_reason(const struct tls *tls);
