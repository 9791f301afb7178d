/* Where one wire message ends and the next begins. */
#include "protocol/frame.h"

must_check enum frame_state frame_next(struct bytes bytes, struct frame_header *header)
{
	int32_t length;

	if (bytes.length < FRAME_HEADER_LENGTH)
		return FRAME_SHORT;
	length = load_int32(bytes.data);
	if (length < FRAME_HEADER_LENGTH || length > FRAME_MAX_LENGTH)
		return FRAME_INVALID;
	header->length = length;
	header->request_id = load_int32(bytes.data + 4);
	header->response_to = load_int32(bytes.data + 8);
	header->opcode = load_int32(bytes.data + 12);
	return bytes.length < (size_t)length ? FRAME_PARTIAL : FRAME_READY;
}

void frame_store_header(uint8_t *at, const struct frame_header *header)
{
	store_int32(at, header->length);
	store_int32(at + 4, header->request_id);
	store_int32(at + 8, header->response_to);
	store_int32(at + 12, header->opcode);
}
