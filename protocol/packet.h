/* A whole frame that we own, unpacked where it came compressed, and what stands in it. */
#pragma once

#include "protocol/compressed.h"
#include "protocol/message.h"
#include "protocol/reply.h"

enum packet_kind {
	PACKET_MESSAGE, /* OP_MSG: `message` is filled in */
	PACKET_OTHER,   /* another opcode: only `header` and the bytes */
	PACKET_BROKEN,  /* OP_MSG or OP_COMPRESSED that can't be read */
};

/* May be moved as a whole: the views look into the heap. */
struct packet {
	struct buffer raw;      /* as it came */
	struct buffer unpacked; /* empty where it did not come compressed */
	enum packet_kind kind;
	bool starved;               /* broken only because there was no memory to unpack it */
	enum compressor compressor; /* where it came compressed */
	struct frame_header header; /* of the inner frame */
	struct message message;
	struct reply_summary summary; /* of a reply that packet_read_reply has read */
};

/* Takes the frame over and reads it. */
void packet_read(struct packet *packet, struct buffer *frame);
/* The same of a server's reply, which is summarised. */
void packet_read_reply(struct packet *packet, struct buffer *frame);
/* The frame to look into: unpacked where it came compressed. */
struct bytes packet_frame(const struct packet *packet);
static inline bool packet_compressed(const struct packet *packet)
{
	return packet->unpacked.length > 0;
}
/* Gives an OP_MSG another id, in its bytes, too: they may go out as they are. So does what was
 * stored into packet_frame before. */
void packet_rename(struct packet *packet, int32_t request_id);
void packet_fini(struct packet *packet);
/* The same for a packet that holds credentials: its bytes are overwritten. */
void packet_wipe(struct packet *packet);
/* The content moves to the caller. */
struct packet packet_steal(struct packet *packet);
/* The same into `to`, which holds nothing. It copies once, where an assignment copies thrice. */
void packet_move(struct packet *to, struct packet *from);
