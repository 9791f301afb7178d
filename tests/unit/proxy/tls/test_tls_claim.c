/* Tests proxy/tls/tls_claim.c, and that tls.c asks it. */
#include "tests/unit/secured.h"

#include "proxy/tls/tls_claim.h"

#include <openssl/err.h>

#define RECORD 5
#define CLIENT_HELLO 1
#define CERTIFICATE 11

/* The beginning of a message that claims so many bytes, in records of `piece` bytes. */
static void write_claim(struct buffer *out, uint8_t type, size_t claimed, size_t there,
			size_t piece)
{
	uint8_t message[64] = {type, (uint8_t)(claimed >> 16), (uint8_t)(claimed >> 8),
			       (uint8_t)claimed};

	for (size_t at = 0; at < there; at += piece) {
		uint8_t length = (uint8_t)least(piece, there - at);
		const uint8_t head[RECORD] = {SSL3_RT_HANDSHAKE, 3, 1, 0, length};

		buffer_append(out, head, sizeof(head));
		buffer_append(out, message + at, length);
	}
}

static void write_change(struct buffer *out)
{
	static const uint8_t change[] = {SSL3_RT_CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1};

	buffer_append(out, change, sizeof(change));
}

static void expect_taken(const SSL *connection, const struct buffer *bytes, bool taken)
{
	for (size_t piece = 1; piece <= bytes->length; piece++) {
		struct tls_claim claim = {.over = false};
		bool good = true;

		for (size_t at = 0; good && at < bytes->length; at += piece)
			good = tls_claim_take(
				&claim, connection,
				(struct bytes){bytes->data + at, least(piece, bytes->length - at)});
		cr_assert_eq(good, taken, "in pieces of %zu", piece);
	}
}

Test(tls_claim, a_long_client_hello_is_found_in_records_of_any_length)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	SSL *connection = SSL_new(context);

	for (size_t piece = 1; piece < 20; piece++)
		for (int i = 0; i < 4; i++) {
			auto_buffer struct buffer bytes = {0};
			size_t claimed = TLS_CLAIM_MOST + (i % 2 ? 1 : 0);

			if (i >= 2) { /* behind another one, as a HelloRetryRequest wants it */
				write_claim(&bytes, CLIENT_HELLO, 16, 20, 7);
				write_change(&bytes);
			}
			write_claim(&bytes, CLIENT_HELLO, claimed, 40, piece);
			expect_taken(connection, &bytes, i % 2 == 0);
		}
	SSL_free(connection);
	SSL_CTX_free(context);
}

Test(tls_claim, other_messages_and_encrypted_ones_may_be_long)
{
	auto_buffer struct buffer certificate = {0}, encrypted = {0};
	struct world world;
	struct pair pair;

	open_world(&world);
	open_shaken(&pair, &world, true, TLS1_2_VERSION);
	write_claim(&certificate, CERTIFICATE, 60000, 40, 40);
	expect_taken(pair.other, &certificate, true);
	write_change(&encrypted);
	write_claim(&encrypted, CLIENT_HELLO, 0xffffff, 40, 40);
	expect_taken(pair.other, &encrypted, true);
	close_pair(&pair);
	close_world(&world);
}

/* OpenSSL itself looks at it, also where it is encrypted. */
Test(tls_claim, certificates_of_a_client_may_not_be_long_either)
{
	struct world world;
	struct pair pair;
	SSL *connection;

	open_world(&world);
	open_accepting(&pair, &world, TLS1_3_VERSION);
	connection = tls_side_accept(pair.side);
	cr_assert_leq(SSL_get_max_cert_list(connection), 32768);
	SSL_free(connection);
	close_pair(&pair);
	close_world(&world);
}

Test(tls_claim, a_handshake_ends_before_there_is_room_for_it)
{
	struct world world;

	open_world(&world);
	for (size_t piece = 1; piece < 10; piece++) {
		auto_buffer struct buffer bytes = {0}, out = {0};
		struct pair pair;

		open_accepting(&pair, &world, TLS1_3_VERSION);
		write_claim(&bytes, CLIENT_HELLO, 131000, 40, piece);
		tls_feed(pair.tls, buffer_view(&bytes));
		cr_assert_eq(tls_handshake(pair.tls, &out), TLS_FAILED);
		cr_assert_str_eq(tls_reason(pair.tls), "its ClientHello is too long");
		close_pair(&pair);
	}
	close_world(&world);
}
