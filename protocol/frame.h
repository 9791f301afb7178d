/* Where one wire message ends and the next begins: the header of 16 bytes and its limits. */
#pragma once

#include "protocol/bytes.h"

#define FRAME_HEADER_LENGTH 16
#define FRAME_MAX_LENGTH 48000000 /* mongod's MaxMessageSizeBytes; it closes the socket beyond */

enum opcode {
	OPCODE_REPLY = 1,
	OPCODE_UPDATE = 2001,
	OPCODE_INSERT = 2002,
	OPCODE_QUERY = 2004,
	OPCODE_GET_MORE = 2005,
	OPCODE_DELETE = 2006,
	OPCODE_KILL_CURSORS = 2007,
	OPCODE_COMPRESSED = 2012,
	OPCODE_MESSAGE = 2013,
};

/* MsgHeader of the wire protocol; `length` counts the header too. */
struct frame_header {
	int32_t length;
	int32_t request_id;
	int32_t response_to;
	int32_t opcode; /* any value may stand here, not only an enum opcode */
};

enum frame_state {
	FRAME_SHORT,   /* less than a header; header untouched */
	FRAME_PARTIAL, /* the header is filled in, the rest has not all arrived */
	FRAME_READY,   /* header filled in and all `header.length` bytes are there */
	FRAME_INVALID, /* a length that mongod would refuse; header untouched */
};

/* Looks at the bytes that stand at the start of a frame. */
must_check static inline enum frame_state frame_next(struct bytes bytes,
						     struct frame_header *header)
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
void frame_store_header(uint8_t *at, const struct frame_header *header);
