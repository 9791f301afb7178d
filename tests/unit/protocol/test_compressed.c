/* Tests protocol/compressed.c: what a compressed message yields is what it claimed, or nothing. */
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/unit/samples.h"

#include "protocol/compressed.h"
#include "protocol/message.h"

static const enum compressor compressors[] = {COMPRESSOR_NOOP, COMPRESSOR_SNAPPY, COMPRESSOR_ZLIB,
					      COMPRESSOR_ZSTD};

/* An OP_COMPRESSED frame from its parts. */
static void compose(struct buffer *frame, int32_t opcode, int32_t claim, uint8_t compressor,
		    struct bytes packed)
{
	struct frame_header header = {(int32_t)(FRAME_HEADER_LENGTH + 9 + packed.length), 7, -8,
				      OPCODE_COMPRESSED};

	buffer_reserve(frame, (size_t)header.length);
	frame_store_header(frame->data + frame->length, &header);
	frame->length += FRAME_HEADER_LENGTH;
	buffer_append(frame, &opcode, 4);
	buffer_append(frame, &claim, 4);
	buffer_append(frame, &compressor, 1);
	buffer_append(frame, packed.data, packed.length);
}

/* Unpacks from memory that ends with the frame; checks what must hold however it goes. */
static bool unpacks_into(struct bytes frame, struct buffer *out)
{
	auto_free uint8_t *copy = exact_copy(frame);
	size_t before = out->length;
	enum compressor compressor = COMPRESSOR_NOOP;
	struct frame_header header;

	if (!compressed_unpack((struct bytes){copy, frame.length}, out, &compressor)) {
		cr_assert_eq(out->length, before);
		return false;
	}
	cr_assert_eq(compressor, frame.data[24]);
	cr_assert_eq(frame_next((struct bytes){out->data + before, out->length - before}, &header),
		     FRAME_READY);
	cr_assert_eq((size_t)header.length, out->length - before);
	cr_assert_eq(header.length, FRAME_HEADER_LENGTH + load_int32(frame.data + 20));
	return true;
}

static bool unpacks(struct bytes frame)
{
	auto_buffer struct buffer out = {0};

	return unpacks_into(frame, &out);
}

static bool parts_unpack(int32_t claim, uint8_t compressor, struct bytes packed)
{
	auto_buffer struct buffer frame = {0};

	compose(&frame, OPCODE_MESSAGE, claim, compressor, packed);
	return unpacks(buffer_view(&frame));
}

static void packed_sample(enum compressor compressor, struct buffer *packed)
{
	auto_buffer struct buffer frame = sample("message/update_sequence");

	compressed_pack(buffer_view(&frame), compressor, packed);
}

Test(compressed, what_was_packed_is_unpacked_behind_what_stood_there)
{
	auto_buffer struct buffer frame = sample("message/update_sequence");

	for (size_t i = 0; i < ARRAY_LENGTH(compressors); i++) {
		auto_buffer struct buffer packed = {0};
		auto_buffer struct buffer out = {0};
		struct frame_header header;

		buffer_append(&packed, "in front", 8);
		compressed_pack(buffer_view(&frame), compressors[i], &packed);
		buffer_consume(&packed, 8);
		cr_assert_eq(frame_next(buffer_view(&packed), &header), FRAME_READY);
		cr_assert_eq(header.opcode, OPCODE_COMPRESSED);
		cr_assert_eq(header.request_id, load_int32(frame.data + 4));
		cr_assert_eq(header.response_to, load_int32(frame.data + 8));
		buffer_append(&out, "in front", 8);
		cr_assert(unpacks_into(buffer_view(&packed), &out));
		buffer_consume(&out, 8);
		assert_bytes(buffer_view(&out), buffer_view(&frame));
	}
}

Test(compressed, a_message_of_nothing_and_a_large_one_come_back)
{
	static const size_t lengths[] = {0, 1, 65535, 65536, 65537, 131073, 3000000};

	for (size_t i = 0; i < ARRAY_LENGTH(lengths) * ARRAY_LENGTH(compressors); i++) {
		enum compressor compressor = compressors[i % ARRAY_LENGTH(compressors)];
		size_t length = FRAME_HEADER_LENGTH + lengths[i / ARRAY_LENGTH(compressors)];
		auto_free uint8_t *bytes = must_calloc(1, length);
		auto_buffer struct buffer packed = {0};
		auto_buffer struct buffer out = {0};

		for (size_t at = FRAME_HEADER_LENGTH; at < length; at++)
			bytes[at] = (uint8_t)(at * at >> 5);
		store_int32(bytes, (int32_t)length);
		compressed_pack((struct bytes){bytes, length}, compressor, &packed);
		cr_assert(unpacks_into(buffer_view(&packed), &out), "%zu bytes", length);
		assert_bytes(buffer_view(&out), ((struct bytes){bytes, length}));
	}
}

/* As a server's reply may be when names in it have become longer. */
Test(compressed, a_message_above_the_limit_goes_as_it_is)
{
	size_t length = FRAME_MAX_LENGTH + 1;
	auto_free uint8_t *bytes = must_calloc(1, length);
	auto_buffer struct buffer packed = {0};

	store_int32(bytes, (int32_t)length);
	compressed_pack((struct bytes){bytes, length}, COMPRESSOR_ZSTD, &packed);
	assert_bytes(buffer_view(&packed), ((struct bytes){bytes, length}));
}

Test(compressed, what_mongod_packed_is_unpacked)
{
	static const char *const names[] = {"compressed/reply_snappy", "compressed/reply_zlib",
					    "compressed/reply_zstd",   "compressed/request_snappy",
					    "compressed/request_zlib", "compressed/request_zstd"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		auto_buffer struct buffer frame = sample(names[i]);
		auto_buffer struct buffer out = {0};
		struct message message;

		cr_assert(unpacks_into(buffer_view(&frame), &out), "%s", names[i]);
		cr_assert(message_parse(buffer_view(&out), &message), "%s", names[i]);
		cr_assert(document_valid(message.body), "%s", names[i]);
		cr_assert_eq(message.header.request_id, load_int32(frame.data + 4));
		cr_assert_eq(message.header.response_to, load_int32(frame.data + 8));
	}
}

Test(compressed, a_claim_that_is_not_exactly_what_comes_is_refused)
{
	for (size_t i = 0; i < ARRAY_LENGTH(compressors); i++) {
		auto_buffer struct buffer packed = {0};
		int32_t claim;

		packed_sample(compressors[i], &packed);
		claim = load_int32(packed.data + 20);
		for (int32_t other = -2; other < claim + 100; other++) {
			store_int32(packed.data + 20, other);
			cr_assert_eq(unpacks(buffer_view(&packed)), other == claim);
		}
	}
}

/* No more than a step of the stream, whatever the claim. */
Test(compressed, no_memory_is_taken_for_a_claim_alone)
{
	static const int32_t claims[] = {1000000, FRAME_MAX_LENGTH - 16, FRAME_MAX_LENGTH - 15,
					 INT32_MAX, INT32_MIN};

	for (size_t i = 0; i < ARRAY_LENGTH(claims) * ARRAY_LENGTH(compressors); i++) {
		auto_buffer struct buffer packed = {0};
		auto_buffer struct buffer out = {0};

		packed_sample(compressors[i % ARRAY_LENGTH(compressors)], &packed);
		store_int32(packed.data + 20, claims[i / ARRAY_LENGTH(compressors)]);
		cr_assert_not(unpacks_into(buffer_view(&packed), &out));
		cr_assert_leq(out.capacity, 128 * 1024);
	}
}

static void zeros_by_zlib(struct buffer *packed, size_t length)
{
	auto_free uint8_t *zeros = must_calloc(1, length);
	uLongf room = compressBound(length);

	buffer_reserve(packed, room);
	cr_assert_eq(compress2(packed->data, &room, zeros, length, 9), Z_OK);
	packed->length = room;
}

static void zeros_by_zstd(struct buffer *packed, size_t length)
{
	auto_free uint8_t *zeros = must_calloc(1, length);
	size_t room = ZSTD_compressBound(length);

	buffer_reserve(packed, room);
	packed->length = ZSTD_compress(packed->data, room, zeros, length, 3);
	cr_assert_not(ZSTD_isError(packed->length));
}

Test(compressed, a_bomb_is_stopped_where_its_claim_ends)
{
	for (int i = 0; i < 2; i++) {
		auto_buffer struct buffer packed = {0};
		auto_buffer struct buffer frame = {0};
		auto_buffer struct buffer out = {0};

		if (i == 0)
			zeros_by_zlib(&packed, 20000000);
		else
			zeros_by_zstd(&packed, 20000000);
		compose(&frame, OPCODE_MESSAGE, 100000, i == 0 ? COMPRESSOR_ZLIB : COMPRESSOR_ZSTD,
			buffer_view(&packed));
		cr_assert_not(unpacks_into(buffer_view(&frame), &out));
		cr_assert_leq(out.capacity, 512 * 1024);
	}
}

Test(compressed, the_largest_message_is_taken_and_one_byte_more_is_not)
{
	auto_buffer struct buffer packed = {0};
	size_t largest = FRAME_MAX_LENGTH - FRAME_HEADER_LENGTH;

	zeros_by_zstd(&packed, largest);
	cr_assert(parts_unpack((int32_t)largest, COMPRESSOR_ZSTD, buffer_view(&packed)));
	packed.length = 0;
	zeros_by_zstd(&packed, largest + 1);
	cr_assert_not(parts_unpack((int32_t)largest + 1, COMPRESSOR_ZSTD, buffer_view(&packed)));
}

static void varint(struct buffer *out, size_t value)
{
	for (; value > 127; value >>= 7)
		buffer_append(out, &(uint8_t){(uint8_t)(value | 0x80)}, 1);
	buffer_append(out, &(uint8_t){(uint8_t)value}, 1);
}

/* The densest snappy block there is: one letter, then copies of 64 bytes by three. */
static void dense_snappy(struct buffer *packed, size_t copies, size_t claim)
{
	varint(packed, claim);
	buffer_append(packed, "\0x", 2);
	for (size_t i = 0; i < copies; i++)
		buffer_append(packed, "\xfe\1\0", 3);
}

Test(compressed, the_densest_snappy_block_is_taken)
{
	for (size_t copies = 1; copies < 400000; copies *= 7) {
		auto_buffer struct buffer packed = {0};
		size_t length = 1 + 64 * copies;

		dense_snappy(&packed, copies, length);
		cr_assert(parts_unpack((int32_t)length, COMPRESSOR_SNAPPY, buffer_view(&packed)));
	}
}

Test(compressed, snappy_takes_no_memory_for_what_its_bytes_cannot_hold)
{
	auto_buffer struct buffer packed = {0};
	auto_buffer struct buffer frame = {0};
	auto_buffer struct buffer out = {0};

	dense_snappy(&packed, 100, 47000000);
	compose(&frame, OPCODE_MESSAGE, 47000000, COMPRESSOR_SNAPPY, buffer_view(&packed));
	cr_assert_not(unpacks_into(buffer_view(&frame), &out));
	cr_assert_leq(out.capacity, 1024);
}

Test(compressed, bytes_behind_the_stream_are_refused)
{
	for (size_t i = 0; i < ARRAY_LENGTH(compressors); i++) {
		for (int byte = 0; byte < 256; byte++) {
			auto_buffer struct buffer packed = {0};

			packed_sample(compressors[i], &packed);
			buffer_append(&packed, &(uint8_t){(uint8_t)byte}, 1);
			store_int32(packed.data, (int32_t)packed.length);
			cr_assert_not(unpacks(buffer_view(&packed)));
		}
	}
}

Test(compressed, two_streams_behind_each_other_are_refused)
{
	auto_buffer struct buffer packed = {0};
	size_t length;

	zeros_by_zstd(&packed, 100);
	length = packed.length;
	buffer_reserve(&packed, length);
	buffer_append(&packed, packed.data, length);
	cr_assert_not(parts_unpack(100, COMPRESSOR_ZSTD, buffer_view(&packed)));
	cr_assert_not(parts_unpack(200, COMPRESSOR_ZSTD, buffer_view(&packed)));
}

/* The header's length is set to what is there, so that the stream ends early. */
Test(compressed, a_stream_that_ends_early_is_refused)
{
	for (size_t i = 0; i < ARRAY_LENGTH(compressors); i++) {
		auto_buffer struct buffer packed = {0};

		packed_sample(compressors[i], &packed);
		cr_assert_eq(prefixes_taken(buffer_view(&packed), unpacks), 0);
		for (size_t length = FRAME_HEADER_LENGTH; length < packed.length; length++) {
			store_int32(packed.data, (int32_t)length);
			cr_assert_not(unpacks((struct bytes){packed.data, length}));
		}
	}
}

Test(compressed, a_changed_byte_never_yields_more_or_less_than_was_claimed)
{
	for (size_t i = 0; i < ARRAY_LENGTH(compressors); i++) {
		auto_buffer struct buffer packed = {0};

		packed_sample(compressors[i], &packed);
		cr_assert_gt(changes_taken(buffer_view(&packed), unpacks), 0);
	}
}

Test(compressed, a_compressed_message_inside_another_is_refused)
{
	auto_buffer struct buffer inner = {0};
	auto_buffer struct buffer outer = {0};
	struct bytes body;

	packed_sample(COMPRESSOR_ZLIB, &inner);
	body = (struct bytes){inner.data + FRAME_HEADER_LENGTH, inner.length - FRAME_HEADER_LENGTH};
	compose(&outer, OPCODE_COMPRESSED, (int32_t)body.length, COMPRESSOR_NOOP, body);
	cr_assert_not(unpacks(buffer_view(&outer)));
	outer.length = 0;
	compose(&outer, OPCODE_MESSAGE, (int32_t)body.length, COMPRESSOR_NOOP, body);
	cr_assert(unpacks(buffer_view(&outer)), "the same under another opcode");
}

Test(compressed, unknown_compressors_are_refused)
{
	for (int compressor = 4; compressor < 256; compressor++)
		cr_assert_not(parts_unpack(3, (uint8_t)compressor, bytes_of("abc")));
}

Test(compressed, another_opcode_and_a_frame_too_short_are_refused)
{
	auto_buffer struct buffer frame = {0};

	compose(&frame, OPCODE_MESSAGE, 0, COMPRESSOR_NOOP, (struct bytes){0});
	cr_assert(unpacks(buffer_view(&frame)));
	store_int32(frame.data, FRAME_HEADER_LENGTH + 8);
	cr_assert_not(unpacks(buffer_view(&frame)));
	store_int32(frame.data, FRAME_HEADER_LENGTH + 9);
	store_int32(frame.data + 12, OPCODE_MESSAGE);
	cr_assert_not(unpacks(buffer_view(&frame)));
}

/* A frame header that asks for a window of 128 MB, and one block of three bytes. */
Test(compressed, zstd_takes_no_window_beyond_what_the_claim_can_need)
{
	cr_assert_not(
		parts_unpack(3, COMPRESSOR_ZSTD, LITERAL("\x28\xb5\x2f\xfd\0\x88\x19\0\0abc")));
	cr_assert(parts_unpack(3, COMPRESSOR_ZSTD, LITERAL("\x28\xb5\x2f\xfd\0\x58\x19\0\0abc")),
		  "2 MB, as a client may use that does not know the size before");
}

Test(compressed, a_zstd_stream_need_not_say_its_size)
{
	auto_free uint8_t *bytes = must_calloc(1, 300000);
	auto_buffer struct buffer packed = {0};
	ZSTD_CCtx *context = ZSTD_createCCtx();
	ZSTD_inBuffer input = {bytes, 300000, 0};
	ZSTD_outBuffer output;

	for (size_t i = 0; i < 300000; i++)
		bytes[i] = (uint8_t)(i * i >> 7);
	buffer_reserve(&packed, ZSTD_compressBound(300000));
	output = (ZSTD_outBuffer){packed.data, packed.capacity, 0};
	cr_assert_not(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0)));
	cr_assert_eq(ZSTD_compressStream2(context, &output, &input, ZSTD_e_end), 0);
	packed.length = output.pos;
	cr_assert(parts_unpack(300000, COMPRESSOR_ZSTD, buffer_view(&packed)));
	cr_assert_not(parts_unpack(299999, COMPRESSOR_ZSTD, buffer_view(&packed)));
	cr_assert_not(parts_unpack(300001, COMPRESSOR_ZSTD, buffer_view(&packed)));
	ZSTD_freeCCtx(context);
}

Test(compressed, what_packing_would_make_too_long_stays_as_it_is)
{
	auto_free uint8_t *bytes = must_malloc(FRAME_MAX_LENGTH);
	struct bytes frame = {bytes, FRAME_MAX_LENGTH};
	auto_buffer struct buffer out = {0};
	uint64_t random = 88172645463325252;

	for (size_t at = 0; at < FRAME_MAX_LENGTH; at += 8) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		memcpy(bytes + at, &random, 8);
	}
	frame_store_header(bytes, &(struct frame_header){FRAME_MAX_LENGTH, 1, 2, OPCODE_MESSAGE});
	compressed_pack(frame, COMPRESSOR_SNAPPY, &out);
	assert_bytes(buffer_view(&out), frame);
}

Test(compressed, a_client_may_offer_what_can_be_read)
{
	static const char *const readable[] = {"snappy", "zlib", "zstd", "noop"};
	static const char *const others[] = {"", "lz4", "SNAPPY", "zli", "zlibx", "brotli"};

	for (size_t i = 0; i < ARRAY_LENGTH(readable); i++)
		cr_assert(compressor_readable(bytes_of(readable[i])));
	for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
		cr_assert_not(compressor_readable(bytes_of(others[i])));
}

/* An OP_MSG of so many bytes that has these flags, packed. */
static void pack_flags(struct buffer *packed, size_t length, int32_t flags,
		       enum compressor compressor)
{
	auto_buffer struct buffer frame = {0};
	struct frame_header header = {(int32_t)length, 7, -8, OPCODE_MESSAGE};

	buffer_reserve(&frame, length);
	memset(frame.data, 0, length);
	frame_store_header(frame.data, &header);
	store_int32(frame.data + FRAME_HEADER_LENGTH, flags);
	frame.length = length;
	compressed_pack(buffer_view(&frame), compressor, packed);
}

Test(compressed, the_flags_of_a_message_inside_are_read)
{
	const size_t lengths[] = {FRAME_HEADER_LENGTH + 4, 100, 1000000};
	const int32_t given[] = {0, 2, 1 << 16 | 3};
	uint32_t flags;

	for (size_t i = 0; i < ARRAY_LENGTH(compressors) * 9; i++) {
		auto_buffer struct buffer packed = {0};
		auto_free uint8_t *copy = NULL;

		pack_flags(&packed, lengths[i / 3 % 3], given[i % 3], compressors[i / 9]);
		copy = exact_copy(buffer_view(&packed));
		flags = 77;
		cr_assert(compressed_flags((struct bytes){copy, packed.length}, &flags));
		cr_assert_eq(flags, (uint32_t)given[i % 3]);
	}
}

Test(compressed, no_flags_are_read_of_what_has_none)
{
	uint32_t flags;

	for (size_t i = 0; i < ARRAY_LENGTH(compressors); i++) {
		auto_buffer struct buffer shorter = {0}, whole = {0};

		pack_flags(&shorter, FRAME_HEADER_LENGTH + 3, 2, compressors[i]);
		cr_assert_not(compressed_flags(buffer_view(&shorter), &flags));
		pack_flags(&whole, FRAME_HEADER_LENGTH + 5, 2, compressors[i]);
		for (size_t length = 0; length < whole.length; length++)
			cr_assert_not(compressed_flags((struct bytes){whole.data, length}, &flags));
		store_int32(whole.data + FRAME_HEADER_LENGTH, OPCODE_REPLY);
		cr_assert_not(compressed_flags(buffer_view(&whole), &flags));
		store_int32(whole.data + FRAME_HEADER_LENGTH, OPCODE_MESSAGE);
		memset(whole.data + COMPRESSED_HEAD - 1, 0x55, whole.length - COMPRESSED_HEAD + 1);
		cr_assert_not(compressed_flags(buffer_view(&whole), &flags));
	}
}
