/* CRC-32C of OP_MSG, eight bytes a step ("slicing by 8"). */
#include "protocol/checksum.h"

#include "protocol/frame.h"
#include "protocol/message.h"

#define POLYNOMIAL 0x82f63b78u
#define SLICES 8
#define CHECKSUM_LENGTH 4

/* tables[0] moves a sum over one byte, tables[n] over one byte and n zeros behind it. */
static uint32_t tables[SLICES][256];

__attribute__((constructor)) static void build_tables(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t sum = byte;

		for (int bit = 0; bit < 8; bit++)
			sum = (sum >> 1) ^ (sum & 1 ? POLYNOMIAL : 0);
		tables[0][byte] = sum;
	}
	for (size_t slice = 1; slice < SLICES; slice++) {
		for (size_t byte = 0; byte < 256; byte++) {
			uint32_t sum = tables[slice - 1][byte];

			tables[slice][byte] = (sum >> 8) ^ tables[0][sum & 0xff];
		}
	}
}

static uint32_t over_eight_bytes(uint32_t sum, const uint8_t *at)
{
	uint64_t word = (uint64_t)load_int64(at) ^ sum;
	uint32_t next = 0;

	for (size_t i = 0; i < SLICES; i++)
		next ^= tables[SLICES - 1 - i][(word >> (8 * i)) & 0xff];
	return next;
}

uint32_t checksum_crc32c(struct bytes bytes)
{
	uint32_t sum = 0xffffffffu;

	for (; bytes.length >= SLICES; bytes.data += SLICES, bytes.length -= SLICES)
		sum = over_eight_bytes(sum, bytes.data);
	for (; bytes.length > 0; bytes.data++, bytes.length--)
		sum = (sum >> 8) ^ tables[0][(sum ^ *bytes.data) & 0xff];
	return ~sum;
}

must_check bool checksum_matches(struct bytes frame)
{
	uint32_t flags;
	struct bytes covered;

	if (frame.length < FRAME_HEADER_LENGTH + sizeof(flags))
		return true;
	flags = (uint32_t)load_int32(frame.data + FRAME_HEADER_LENGTH);
	if (!(flags & MESSAGE_CHECKSUM_PRESENT))
		return true;
	if (frame.length < FRAME_HEADER_LENGTH + sizeof(flags) + CHECKSUM_LENGTH)
		return false;
	covered = (struct bytes){frame.data, frame.length - CHECKSUM_LENGTH};
	return checksum_crc32c(covered) == (uint32_t)load_int32(covered.data + covered.length);
}
