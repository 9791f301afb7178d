/* Any bytes as an OP_COMPRESSED frame: what comes out is as long as was claimed, and can be packed
 * again. */
#include "tests/fuzz/fuzz.h"

#include "protocol/compressed.h"

static void pack_again(struct bytes frame, enum compressor compressor)
{
	auto_buffer struct buffer packed = {0};
	auto_buffer struct buffer same = {0};
	enum compressor other;

	compressed_pack(frame, compressor, &packed);
	require(compressed_unpack(buffer_view(&packed), &same, &other));
	require(other == compressor);
	require(bytes_equal(buffer_view(&same), frame));
}

/* The seeds are frames with a right length; most changed ones have a wrong one, which is put right
 * here so that the decompressors see them. */
static void unpack(struct buffer *frame)
{
	auto_buffer struct buffer out = {0};
	enum compressor compressor;
	struct frame_header header;
	uint32_t flags;

	store_int32(frame->data, (int32_t)frame->length);
	store_int32(frame->data + 12, OPCODE_COMPRESSED);
	buffer_append(&out, "front", 5);
	if (!compressed_unpack(buffer_view(frame), &out, &compressor)) {
		require(out.length == 5);
		return;
	}
	buffer_consume(&out, 5);
	require(frame_next(buffer_view(&out), &header) == FRAME_READY);
	require((size_t)header.length == out.length);
	require(header.length == FRAME_HEADER_LENGTH + load_int32(frame->data + 20));
	require(header.opcode == load_int32(frame->data + 16));
	require(compressed_flags(buffer_view(frame), &flags) ==
		(header.opcode == OPCODE_MESSAGE && out.length >= FRAME_HEADER_LENGTH + 4));
	require(header.opcode != OPCODE_MESSAGE || out.length < FRAME_HEADER_LENGTH + 4 ||
		flags == (uint32_t)load_int32(out.data + FRAME_HEADER_LENGTH));
	if (out.length < 100000)
		pack_again(buffer_view(&out), compressor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_buffer struct buffer frame = {0};

	if (size < FRAME_HEADER_LENGTH)
		return 0;
	buffer_append(&frame, data, size);
	unpack(&frame);
	return 0;
}
