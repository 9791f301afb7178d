/* Writes the header of a wire message. */
#include "protocol/frame.h"

void frame_store_header(uint8_t *at, const struct frame_header *header)
{
	store_int32(at, header->length);
	store_int32(at + 4, header->request_id);
	store_int32(at + 8, header->response_to);
	store_int32(at + 12, header->opcode);
}
