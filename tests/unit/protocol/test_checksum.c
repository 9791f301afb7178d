/* Tests protocol/checksum.c: the CRC-32C of OP_MSG. */
#include "tests/unit/samples.h"

#include "protocol/checksum.h"

/* The definition, a bit at a time. */
static uint32_t slow_crc32c(struct bytes bytes)
{
	uint32_t sum = 0xffffffff;

	for (size_t i = 0; i < bytes.length; i++) {
		sum ^= bytes.data[i];
		for (int bit = 0; bit < 8; bit++)
			sum = sum & 1 ? (sum >> 1) ^ 0x82f63b78 : sum >> 1;
	}
	return ~sum;
}

Test(checksum, known_values_come_out)
{
	uint8_t zeros[32] = {0}, ones[32];

	memset(ones, 0xff, sizeof(ones));
	cr_assert_eq(checksum_crc32c(LITERAL("123456789")), 0xe3069283);
	cr_assert_eq(checksum_crc32c((struct bytes){zeros, 32}), 0x8a9136aa); /* RFC 3720, B.4 */
	cr_assert_eq(checksum_crc32c((struct bytes){ones, 32}), 0x62a8ab43);
	cr_assert_eq(checksum_crc32c((struct bytes){0}), 0);
}

Test(checksum, every_length_and_alignment_agrees_with_the_definition)
{
	uint8_t bytes[80];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	for (size_t start = 0; start < 9; start++) {
		for (size_t length = 0; length + start <= sizeof(bytes); length++) {
			struct bytes part = {bytes + start, length};

			cr_assert_eq(checksum_crc32c(part), slow_crc32c(part));
		}
	}
}

Test(checksum, what_mongod_sends_matches)
{
	auto_buffer struct buffer request = sample("frame/checksummed_request");
	auto_buffer struct buffer reply = sample("frame/checksummed_reply");

	cr_assert(checksum_matches(buffer_view(&request)));
	cr_assert(checksum_matches(buffer_view(&reply)));
}

Test(checksum, a_frame_without_one_always_matches)
{
	auto_buffer struct buffer frame = sample("frame/find_reply");

	cr_assert(checksum_matches(buffer_view(&frame)));
	frame.data[frame.length - 1] ^= 1;
	cr_assert(checksum_matches(buffer_view(&frame)));
}

Test(checksum, any_changed_bit_is_noticed)
{
	auto_buffer struct buffer frame = sample("frame/checksummed_reply");

	for (size_t bit = 0; bit < frame.length * 8; bit++) {
		bool flag = bit == FRAME_HEADER_LENGTH * 8; /* says that there is no checksum */

		frame.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		cr_assert_eq(checksum_matches(buffer_view(&frame)), flag, "bit %zu", bit);
		frame.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static bool matches(struct bytes frame)
{
	return checksum_matches(frame);
}

Test(checksum, a_frame_that_ends_early_does_not_match)
{
	auto_buffer struct buffer frame = sample("frame/checksummed_reply");

	/* Too short to say that it has a checksum: 0 to 19 bytes. */
	cr_assert_eq(prefixes_taken(buffer_view(&frame), matches), 20);
}
