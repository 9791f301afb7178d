/* Reads the heads of records, and of the messages in them that are not encrypted. */
#include "proxy/tls/tls_claim.h"

#include <openssl/ssl.h>

/* With TLS 1.3 another ClientHello may follow behind a ChangeCipherSpec. */
static void begin_record(struct tls_claim *claim, const SSL *connection)
{
	claim->record_has = 0;
	claim->record_left = (size_t)claim->record[3] << 8 | claim->record[4];
	if (claim->record[0] == SSL3_RT_CHANGE_CIPHER_SPEC &&
	    SSL_version(connection) <= TLS1_2_VERSION)
		claim->over = true;
}

static void begin_message(struct tls_claim *claim)
{
	claim->message_has = 0;
	claim->message_left = (size_t)claim->message[1] << 16 | (size_t)claim->message[2] << 8 |
			      claim->message[3];
}

/* A byte in a record of the handshake. */
static bool take_byte(struct tls_claim *claim, uint8_t byte)
{
	if (claim->message_left > 0) {
		claim->message_left--;
		return true;
	}
	claim->message[claim->message_has++] = byte;
	if (claim->message_has < sizeof(claim->message))
		return true;
	begin_message(claim);
	return claim->message[0] != SSL3_MT_CLIENT_HELLO || claim->message_left <= TLS_CLAIM_MOST;
}

must_check bool tls_claim_take(struct tls_claim *claim, const SSL *connection, struct bytes bytes)
{
	for (size_t i = 0; i < bytes.length && !claim->over; i++) {
		if (claim->record_left > 0) {
			claim->record_left--;
			if (claim->record[0] == SSL3_RT_HANDSHAKE &&
			    !take_byte(claim, bytes.data[i]))
				return false;
			continue;
		}
		claim->record[claim->record_has++] = bytes.data[i];
		if (claim->record_has == sizeof(claim->record))
			begin_record(claim, connection);
	}
	return true;
}
