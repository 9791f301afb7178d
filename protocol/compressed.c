/* OP_COMPRESSED: unpacked with its length checks, and packed. */
#include "protocol/compressed.h"

#include <snappy-c.h>
#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>

#define PACKED_START COMPRESSED_HEAD /* opcode, claimed size, compressor */
#define MAX_BODY (FRAME_MAX_LENGTH - FRAME_HEADER_LENGTH)
#define STREAM_STEP (64 * 1024)
#define USUAL_WINDOW_LOG 23 /* 8 MB, which every zstd decoder should take (RFC 8878) */
#define ZLIB_LEVEL Z_DEFAULT_COMPRESSION
#define ZSTD_LEVEL ZSTD_CLEVEL_DEFAULT
#define SNAPPY_WORKS_IN (512 * 1024)

uint8_t compressor_bit(struct bytes name)
{
	static const char *const names[] = {
		[COMPRESSOR_NOOP] = "noop",
		[COMPRESSOR_SNAPPY] = "snappy",
		[COMPRESSOR_ZLIB] = "zlib",
		[COMPRESSOR_ZSTD] = "zstd",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (bytes_are(name, names[i]))
			return (uint8_t)COMPRESSOR_BIT(i);
	return 0;
}

must_check bool compressor_readable(struct bytes name)
{
	return compressor_bit(name) != 0;
}

size_t compressed_look(struct bytes frame, uint8_t *compressor)
{
	int32_t claim = load_int32(frame.data + FRAME_HEADER_LENGTH + 4);

	*compressor = frame.data[FRAME_HEADER_LENGTH + 8];
	return claim < 0 || claim > MAX_BODY ? 0 : (size_t)claim;
}

/* Room for the next step of a stream, but never for more than was claimed: one that is longer stops
 * there, as a stream that makes no progress. So does one that there is no memory for. */
static size_t stream_room(struct buffer *out, size_t left)
{
	size_t room = left < STREAM_STEP ? left : STREAM_STEP;

	return buffer_try_reserve(out, room) ? room : 0;
}

static bool unpack_zlib(struct bytes packed, size_t claim, struct buffer *out)
{
	z_stream stream = {.next_in = packed.data, .avail_in = (uInt)packed.length};
	size_t end = out->length + claim;
	int status = Z_OK;

	if (inflateInit(&stream) != Z_OK)
		return false;
	while (status == Z_OK) {
		size_t room = stream_room(out, end - out->length);

		stream.next_out = out->data + out->length;
		stream.avail_out = (uInt)room;
		status = inflate(&stream, Z_NO_FLUSH);
		out->length += room - stream.avail_out;
	}
	(void)inflateEnd(&stream);
	return status == Z_STREAM_END && stream.avail_in == 0 && out->length == end;
}

/* Of a frame whose header asks for more, zstd would allocate that window before it has seen the
 * content. */
static int window_log(size_t claim)
{
	int log = USUAL_WINDOW_LOG;

	while (((size_t)1 << log) < claim)
		log++;
	return log;
}

/* True when a whole zstd frame was read. */
static bool stream_zstd(ZSTD_DCtx *context, ZSTD_inBuffer *input, size_t end, struct buffer *out)
{
	for (;;) {
		size_t room = stream_room(out, end - out->length);
		ZSTD_outBuffer output = {out->data + out->length, room, 0};
		size_t input_before = input->pos;
		size_t status = ZSTD_decompressStream(context, &output, input);

		out->length += output.pos;
		if (ZSTD_isError(status))
			return false;
		if (status == 0)
			return true;
		if (output.pos == 0 && input->pos == input_before)
			return false;
	}
}

static bool unpack_zstd(struct bytes packed, size_t claim, struct buffer *out)
{
	ZSTD_inBuffer input = {packed.data, packed.length, 0};
	size_t end = out->length + claim;
	ZSTD_DCtx *context = ZSTD_createDCtx();
	bool whole;

	if (!context)
		return false;
	whole = !ZSTD_isError(
			ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, window_log(claim))) &&
		stream_zstd(context, &input, end, out);
	ZSTD_freeDCtx(context);
	return whole && input.pos == input.size && out->length == end;
}

/* The best that a snappy block can do is copy 64 bytes by 3. */
static bool snappy_can_be(size_t packed, size_t claim)
{
	return claim <= packed * 64 / 3;
}

static bool unpack_snappy(struct bytes packed, size_t claim, struct buffer *out)
{
	const char *data = (const char *)packed.data;
	size_t length;

	if (snappy_uncompressed_length(data, packed.length, &length) != SNAPPY_OK)
		return false;
	if (length != claim || !snappy_can_be(packed.length, claim))
		return false;
	if (!buffer_try_reserve(out, claim))
		return false;
	if (snappy_uncompress(data, packed.length, (char *)out->data + out->length, &length) !=
	    SNAPPY_OK)
		return false;
	out->length += length;
	return length == claim;
}

static bool unpack_noop(struct bytes packed, size_t claim, struct buffer *out)
{
	if (packed.length != claim)
		return false;
	return buffer_try_append(out, packed);
}

static bool unpack(uint8_t compressor, struct bytes packed, size_t claim, struct buffer *out)
{
	switch (compressor) {
	case COMPRESSOR_NOOP:
		return unpack_noop(packed, claim, out);
	case COMPRESSOR_SNAPPY:
		return unpack_snappy(packed, claim, out);
	case COMPRESSOR_ZLIB:
		return unpack_zlib(packed, claim, out);
	case COMPRESSOR_ZSTD:
		return unpack_zstd(packed, claim, out);
	default:
		return false;
	}
}

static void append_header(struct buffer *out, const struct frame_header *header)
{
	uint8_t bytes[FRAME_HEADER_LENGTH];

	frame_store_header(bytes, header);
	buffer_append(out, bytes, sizeof(bytes));
}

must_check bool compressed_unpack(struct bytes frame, struct buffer *out,
				  enum compressor *compressor)
{
	struct frame_header header;
	struct bytes packed;
	size_t start = out->length;
	int32_t claim;

	if (frame_next(frame, &header) != FRAME_READY || header.opcode != OPCODE_COMPRESSED)
		return false;
	if (header.length < PACKED_START)
		return false;
	header.opcode = load_int32(frame.data + FRAME_HEADER_LENGTH);
	claim = load_int32(frame.data + FRAME_HEADER_LENGTH + 4);
	packed = (struct bytes){frame.data + PACKED_START, (size_t)header.length - PACKED_START};
	if (header.opcode == OPCODE_COMPRESSED || claim < 0 || claim > MAX_BODY)
		return false;
	header.length = FRAME_HEADER_LENGTH + claim;
	append_header(out, &header);
	if (!unpack(packed.data[-1], packed, (size_t)claim, out)) {
		out->length = start;
		return false;
	}
	*compressor = (enum compressor)packed.data[-1];
	return true;
}

/* A stream stops where `flags` end; the others know only the whole. */
static bool unpack_flags(uint8_t compressor, struct bytes packed, size_t claim, struct buffer *out)
{
	bool streams = compressor == COMPRESSOR_ZLIB || compressor == COMPRESSOR_ZSTD;

	(void)!unpack(compressor, packed, streams ? sizeof(uint32_t) : claim, out);
	return out->length >= sizeof(uint32_t);
}

must_check bool compressed_flags(struct bytes frame, uint32_t *flags)
{
	auto_buffer struct buffer out = {0};
	struct frame_header header;
	uint8_t compressor;
	size_t claim;

	if (frame_next(frame, &header) != FRAME_READY || header.opcode != OPCODE_COMPRESSED ||
	    header.length < PACKED_START ||
	    load_int32(frame.data + FRAME_HEADER_LENGTH) != OPCODE_MESSAGE)
		return false;
	claim = compressed_look(frame, &compressor);
	frame = (struct bytes){frame.data + PACKED_START, (size_t)header.length - PACKED_START};
	if (claim < sizeof(*flags) || !unpack_flags(compressor, frame, claim, &out))
		return false;
	*flags = (uint32_t)load_int32(out.data);
	return true;
}

static size_t packed_bound(enum compressor compressor, size_t length)
{
	switch (compressor) {
	case COMPRESSOR_NOOP:
		return length;
	case COMPRESSOR_SNAPPY:
		return snappy_max_compressed_length(length);
	case COMPRESSOR_ZLIB:
		return compressBound(length);
	case COMPRESSOR_ZSTD:
		return ZSTD_compressBound(length);
	}
	require(!"a compressor without a bound");
}

/* Snappy would end the process where it gets no memory to work in (it is written in C++). */
static bool snappy_can_work(void)
{
	void *memory = malloc(SNAPPY_WORKS_IN);
	bool can = memory != NULL;

	free(memory);
	return can;
}

/* Packs into `at`, where packed_bound bytes have room; the length it took, or 0 where the
 * compressor gets no memory. */
static size_t pack(enum compressor compressor, struct bytes body, uint8_t *at, size_t room)
{
	uLongf zlib_length = room;

	switch (compressor) {
	case COMPRESSOR_NOOP:
		if (body.length > 0)
			memcpy(at, body.data, body.length);
		return body.length;
	case COMPRESSOR_SNAPPY:
		return snappy_can_work() && snappy_compress((const char *)body.data, body.length,
							    (char *)at, &room) == SNAPPY_OK
			       ? room
			       : 0;
	case COMPRESSOR_ZLIB:
		return compress2(at, &zlib_length, body.data, body.length, ZLIB_LEVEL) == Z_OK
			       ? zlib_length
			       : 0;
	case COMPRESSOR_ZSTD:
		room = ZSTD_compress(at, room, body.data, body.length, ZSTD_LEVEL);
		return ZSTD_isError(room) ? 0 : room;
	}
	require(!"a compressor that cannot pack");
}

/* The length of what was appended, or 0. */
static size_t append_packed(struct bytes body, enum compressor compressor, struct buffer *out)
{
	size_t room = packed_bound(compressor, body.length), length;

	if (!buffer_try_reserve(out, room))
		return 0;
	length = pack(compressor, body, out->data + out->length, room);
	out->length += length;
	return length;
}

void compressed_pack(struct bytes frame, enum compressor compressor, struct buffer *out)
{
	struct frame_header header;
	struct bytes body;
	size_t start = out->length;
	uint8_t id = (uint8_t)compressor;
	int32_t claim;

	/* What a server's reply grew to may pass a message. */
	if (frame_next(frame, &header) != FRAME_READY || (size_t)header.length != frame.length) {
		(void)!buffer_try_append(out, frame);
		return;
	}
	body = (struct bytes){frame.data + FRAME_HEADER_LENGTH, frame.length - FRAME_HEADER_LENGTH};
	claim = (int32_t)body.length;
	append_header(out, &header);
	buffer_append(out, &header.opcode, sizeof(header.opcode));
	buffer_append(out, &claim, sizeof(claim));
	buffer_append(out, &id, sizeof(id));
	if ((append_packed(body, compressor, out) == 0 && body.length > 0) ||
	    out->length - start > FRAME_MAX_LENGTH) {
		out->length = start;
		(void)!buffer_try_append(out, frame);
		return;
	}
	header.length = (int32_t)(out->length - start);
	header.opcode = OPCODE_COMPRESSED;
	frame_store_header(out->data + start, &header);
}
