/* Tests proxy/tls/tls.c: the engine against OpenSSL itself, in memory. */
#include "tests/unit/secured.h"

#include <openssl/err.h>

/* As records of so many bytes. */
static void other_write(struct pair *pair, const uint8_t *data, size_t length, size_t record)
{
	for (size_t at = 0; at < length; at += least(record, length - at)) {
		int part = (int)least(record, length - at);

		cr_assert_eq(SSL_write(pair->other, data + at, part), part);
	}
}

Test(tls, a_handshake_goes_in_pieces_of_any_size)
{
	static const size_t pieces[] = {1, 2, 3, 5, 64, 1000, WHOLE};
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < ARRAY_LENGTH(pieces) * 4; i++) {
		struct pair pair;

		open_pair(&pair, &world, i % 2, versions[i / 2 % 2]);
		pump(&pair, pieces[i / 4]);
		cr_assert(pair.shaken && SSL_is_init_finished(pair.other), "%zu", i);
		cr_assert(tls_write(pair.tls, bytes_of("from here"), &pair.out));
		cr_assert_eq(SSL_write(pair.other, "from there", 10), 10);
		pump(&pair, pieces[i / 4]);
		expect_bytes(&pair.other_got, "from here", 9);
		expect_bytes(&pair.got, "from there", 10);
		cr_assert_not(tls_met_plain(pair.tls));
		cr_assert_str_eq(tls_reason(pair.tls), "nothing failed");
		close_pair(&pair);
	}
	close_world(&world);
}

static void expect_passes(struct pair *pair, size_t length, size_t record, size_t piece)
{
	const uint8_t *data = numbers();

	pair->got.length = pair->other_got.length = 0;
	other_write(pair, data, length, record);
	cr_assert(tls_write(pair->tls, (struct bytes){data, length}, &pair->out));
	cr_assert_eq(pair->out.length > 0, length > 0);
	pump(pair, piece);
	expect_bytes(&pair->got, data, length);
	expect_bytes(&pair->other_got, data, length);
}

Test(tls, bytes_of_any_length_pass_both_ways_in_any_split)
{
	static const size_t lengths[] = {0, 1, 2, 100, 16383, 16384, 16385, 65536, 65537, LARGEST};
	static const size_t records[] = {7, 1000, 16383, 16384, LARGEST};
	static const size_t pieces[] = {1, 4, 5, 6, 1000, 16406, WHOLE};
	static const size_t rooms[] = {1, 16384, 0};
	size_t step = unit_step(ARRAY_LENGTH(lengths) * ARRAY_LENGTH(records), 7);
	struct world world;

	open_world(&world);
	for (size_t v = 0; v < 4; v++) {
		struct pair pair;

		open_shaken(&pair, &world, v % 2, versions[v / 2]);
		for (size_t i = 0; i < ARRAY_LENGTH(lengths) * ARRAY_LENGTH(records); i += step) {
			pair.room = rooms[i % ARRAY_LENGTH(rooms)];
			expect_passes(&pair, lengths[i % ARRAY_LENGTH(lengths)],
				      records[i / ARRAY_LENGTH(lengths)],
				      pieces[i % ARRAY_LENGTH(pieces)]);
		}
		close_pair(&pair);
	}
	close_world(&world);
}

/* Bytes that came in one go with the last flight of the handshake wait until they are read. */
Test(tls, bytes_behind_the_handshake_are_kept)
{
	static const size_t lengths[] = {1, 500, 20000};
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < ARRAY_LENGTH(lengths) * 2; i++) {
		size_t length = lengths[i / 2];
		struct pair pair;

		open_pair(&pair, &world, true, versions[i % 2]);
		while (!SSL_is_init_finished(pair.other)) {
			give_sent(&pair, WHOLE);
			other_go_on(&pair);
			take_sent(&pair, WHOLE);
		}
		other_write(&pair, numbers(), length, 16384);
		cr_assert_eq(pair.shaken, versions[i % 2] == TLS1_2_VERSION);
		cr_assert_eq(pair.got.length, 0);
		give_sent(&pair, WHOLE);
		cr_assert(pair.shaken);
		expect_bytes(&pair.got, numbers(), length);
		close_pair(&pair);
	}
	close_world(&world);
}

Test(tls, what_was_fed_twice_is_read_in_its_order)
{
	struct world world;
	struct pair pair;
	char *data;
	size_t length, half;

	open_world(&world);
	open_shaken(&pair, &world, true, TLS1_3_VERSION);
	other_write(&pair, numbers(), 3000, 700);
	length = (size_t)BIO_get_mem_data(pair.from, &data);
	half = length / 2;
	tls_feed(pair.tls, (struct bytes){(const uint8_t *)data, half});
	tls_feed(pair.tls, (struct bytes){(const uint8_t *)data + half, length - half});
	(void)BIO_reset(pair.from);
	read_all(&pair);
	expect_bytes(&pair.got, numbers(), 3000);
	close_pair(&pair);
	close_world(&world);
}

/* One record whose byte at this place is another: nothing of it is believed. */
static void expect_broken(const struct world *world, bool accepts, int version, size_t place)
{
	struct pair pair;
	char *data;
	size_t length;

	open_shaken(&pair, world, accepts, version);
	cr_assert_eq(SSL_write(pair.other, "twenty bytes of text", 20), 20);
	length = (size_t)BIO_get_mem_data(pair.from, &data);
	data[place % length] ^= 1;
	give_sent(&pair, WHOLE);
	cr_assert_eq(pair.got.length, 0, "%zu", place);
	if (place % length != 3 && place % length != 4) { /* the length: more may be awaited */
		cr_assert_eq(pair.step, TLS_FAILED, "%zu", place);
		cr_assert_str_neq(tls_reason(pair.tls), "nothing failed");
		pair.out.length = 0;
		tls_end(pair.tls, &pair.out);
		cr_assert_eq(pair.out.length, 0, "a farewell behind an alert");
	}
	cr_assert_neq(pair.step, TLS_ENDED);
	close_pair(&pair);
}

Test(tls, a_broken_record_fails)
{
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < 4; i++)
		for (size_t place = 0; place < 40; place += place < 6 ? 1 : 11)
			expect_broken(&world, i % 2, versions[i / 2], place);
	close_world(&world);
}

Test(tls, a_record_that_is_too_long_fails)
{
	static const uint8_t head[] = {SSL3_RT_APPLICATION_DATA, 3, 3, 0xff, 0xff};
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < 4; i++) {
		struct pair pair;

		open_shaken(&pair, &world, i % 2, versions[i / 2]);
		give(&pair, head, sizeof(head));
		cr_assert_eq(pair.step, TLS_FAILED);
		close_pair(&pair);
	}
	close_world(&world);
}

Test(tls, a_farewell_ends_one_direction_only)
{
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < 4; i++) {
		struct pair pair;

		open_shaken(&pair, &world, i % 2, versions[i / 2]);
		cr_assert_eq(SSL_write(pair.other, "the last", 8), 8);
		SSL_shutdown(pair.other);
		give_sent(&pair, WHOLE);
		cr_assert_eq(pair.step, TLS_ENDED);
		expect_bytes(&pair.got, "the last", 8);
		cr_assert(tls_write(pair.tls, bytes_of("an answer"), &pair.out));
		take_sent(&pair, WHOLE);
		expect_bytes(&pair.other_got, "an answer", 9);
		cr_assert_not(SSL_get_shutdown(pair.other) & SSL_RECEIVED_SHUTDOWN);
		tls_end(pair.tls, &pair.out);
		take_sent(&pair, WHOLE);
		cr_assert(SSL_get_shutdown(pair.other) & SSL_RECEIVED_SHUTDOWN);
		close_pair(&pair);
	}
	close_world(&world);
}

Test(tls, whoever_has_said_farewell_still_reads)
{
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < 4; i++) {
		struct pair pair;

		open_shaken(&pair, &world, i % 2, versions[i / 2]);
		tls_end(pair.tls, &pair.out);
		take_sent(&pair, WHOLE);
		cr_assert_eq(SSL_write(pair.other, "still here", 10), 10);
		give_sent(&pair, WHOLE);
		expect_bytes(&pair.got, "still here", 10);
		cr_assert_eq(pair.step, TLS_MORE);
		close_pair(&pair);
	}
	close_world(&world);
}

Test(tls, before_the_handshake_there_is_no_farewell)
{
	struct world world;
	struct pair pair;

	open_world(&world);
	open_accepting(&pair, &world, TLS1_3_VERSION);
	tls_end(pair.tls, &pair.out);
	cr_assert_eq(pair.out.length, 0);
	close_pair(&pair);
	close_world(&world);
}

Test(tls, plain_bytes_instead_of_a_handshake_get_no_answer)
{
	static const char *const plain[] = {"GET / HTTP/1.1\r\n", "\x41", "\x80\x2e\x01\x03\x01"};
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < ARRAY_LENGTH(plain); i++) {
		struct pair pair;

		open_accepting(&pair, &world, TLS1_3_VERSION);
		give(&pair, (const uint8_t *)plain[i], strlen(plain[i]));
		cr_assert_eq(pair.step, TLS_FAILED);
		cr_assert(tls_met_plain(pair.tls));
		cr_assert_str_eq(tls_reason(pair.tls), "the other end does not speak TLS");
		cr_assert_eq(pair.out.length, 0);
		close_pair(&pair);
	}
	close_world(&world);
}

Test(tls, plain_bytes_behind_the_handshake_fail)
{
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < 4; i++) {
		struct pair pair;

		open_shaken(&pair, &world, i % 2, versions[i / 2]);
		give(&pair, (const uint8_t *)"\x25\0\0\0\1\0\0\0\0\0\0\0\xdd\7\0\0", 16);
		cr_assert_eq(pair.step, TLS_FAILED);
		cr_assert_eq(pair.got.length, 0);
		cr_assert_not(tls_met_plain(pair.tls));
		close_pair(&pair);
	}
	close_world(&world);
}

Test(tls, of_a_truncated_record_nothing_is_read)
{
	struct world world;
	struct pair pair;
	char *data;
	size_t length;

	open_world(&world);
	for (size_t cut = 1;; cut++) {
		open_shaken(&pair, &world, true, TLS1_3_VERSION);
		cr_assert_eq(SSL_write(pair.other, "twenty bytes of text", 20), 20);
		length = (size_t)BIO_get_mem_data(pair.from, &data);
		if (cut < length)
			give(&pair, (const uint8_t *)data, cut);
		cr_assert_eq(pair.step, TLS_MORE);
		cr_assert_eq(pair.got.length, 0);
		close_pair(&pair);
		if (cut >= length)
			break;
	}
	close_world(&world);
}

Test(tls, an_answer_to_a_key_update_is_no_longer_than_the_update)
{
	struct world world;

	open_world(&world);
	for (size_t accepts = 0; accepts < 2; accepts++) {
		struct pair pair;

		open_shaken(&pair, &world, accepts, TLS1_3_VERSION);
		for (size_t i = 0; i < 500; i++) {
			size_t update;

			cr_assert_eq(SSL_key_update(pair.other, SSL_KEY_UPDATE_REQUESTED), 1);
			cr_assert_eq(SSL_do_handshake(pair.other), 1);
			update = (size_t)BIO_pending(pair.from);
			give_sent(&pair, WHOLE);
			cr_assert_leq(pair.out.length, update);
			take_sent(&pair, WHOLE);
		}
		cr_assert_eq(pair.step, TLS_MORE, "%s", tls_reason(pair.tls));
		cr_assert(tls_write(pair.tls, bytes_of("with new keys"), &pair.out));
		take_sent(&pair, WHOLE);
		expect_bytes(&pair.other_got, "with new keys", 13);
		close_pair(&pair);
	}
	close_world(&world);
}

Test(tls, nobody_renegotiates)
{
	struct world world;
	struct pair pair;

	open_world(&world);
	open_shaken(&pair, &world, true, TLS1_2_VERSION);
	cr_assert_eq(SSL_renegotiate(pair.other), 1);
	(void)SSL_do_handshake(pair.other);
	give_sent(&pair, WHOLE);
	cr_assert_eq(pair.step, TLS_MORE, "%s", tls_reason(pair.tls));
	cr_assert_gt(pair.out.length, 0);
	cr_assert_lt(pair.out.length, 100);
	BIO_write(pair.to, pair.out.data, (int)pair.out.length);
	cr_assert_eq(SSL_do_handshake(pair.other), -1);
	cr_assert(strstr(ERR_reason_error_string(ERR_peek_last_error()), "no renegotiation"));
	close_pair(&pair);
	close_world(&world);
}
