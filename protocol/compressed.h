/* OP_COMPRESSED (specification: compression/OP_COMPRESSED.md): unpacked with its length checks, and
 * packed. */
#pragma once

#include "protocol/frame.h"

enum compressor {
	COMPRESSOR_NOOP = 0,
	COMPRESSOR_SNAPPY = 1,
	COMPRESSOR_ZLIB = 2,
	COMPRESSOR_ZSTD = 3,
};

/* True for the names that may stay in a hello's `compression` list: snappy, zlib, zstd (and noop).
 */
must_check bool compressor_readable(struct bytes name);
/* Some compressors: a bit for each, by its id. */
#define COMPRESSOR_BIT(id) (1u << (id))
/* The bit of a name; 0 of others than those above. */
uint8_t compressor_bit(struct bytes name);

/* What must be there of an OP_COMPRESSED frame for compressed_look. */
#define COMPRESSED_HEAD (FRAME_HEADER_LENGTH + 9)

/* The claimed size of what is inside, without its header, and the compressor's id, of which any
 * value may stand there. A size that cannot be is 0. `frame` begins an OP_COMPRESSED frame and has
 * COMPRESSED_HEAD bytes. */
size_t compressed_look(struct bytes frame, uint8_t *compressor);

/* Appends the inner frame (a header with the original opcode and the outer ids, then the unpacked
 * body) to `out`. False, `out` unchanged, where the claimed size is negative or over the message
 * limit, the compressor is unknown, a compressed message stands inside, the stream is broken or
 * truncated or has bytes behind it, or what it yields is not exactly the claimed size. Nothing is
 * allocated by the claim alone: memory grows with what is really produced (snappy: its own inner
 * length must equal the claim and be possible for the bytes that are there). `compressor` says what
 * it was packed with. */
must_check bool compressed_unpack(struct bytes frame, struct buffer *out,
				  enum compressor *compressor);

/* The flags of the OP_MSG inside, of which no more is unpacked than the compressor needs. False
 * where there is none, or where it can't be read. */
must_check bool compressed_flags(struct bytes frame, uint32_t *flags);

/* Appends `frame` (header included) as an OP_COMPRESSED frame to `out`; the ids are kept. As mongod
 * does, appends it as it is where packing would make it longer than a message may be, and also
 * where the compressor gets no memory. Appends nothing where there is no memory for that either. */
void compressed_pack(struct bytes frame, enum compressor compressor, struct buffer *out);
