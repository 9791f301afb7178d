/* How long a client says that its ClientHello is. OpenSSL makes room for all of it, 128 KiB, as
 * soon as it has read the length. */
#pragma once

#include "protocol/bytes.h"

#include <openssl/types.h>

/* Longer ones are not taken: a large one of a driver has some 2 KiB. */
#define TLS_CLAIM_MOST ((size_t)16384)

/* Where the records and messages of the handshake stand. All zeros: at their beginning. */
struct tls_claim {
	uint8_t record[5], message[4]; /* the heads */
	uint8_t record_has, message_has;
	size_t record_left, message_left;
	bool over; /* what comes from now on is encrypted */
};

/* Bytes that OpenSSL is about to read. False: they claim too much. */
must_check bool tls_claim_take(struct tls_claim *claim, const SSL *connection, struct bytes bytes);
