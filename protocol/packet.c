/* A whole frame that we own, unpacked where it came compressed. */
#include "protocol/packet.h"

#include "protocol/checksum.h"

#include <errno.h>

struct bytes packet_frame(const struct packet *packet)
{
	return buffer_view(packet_compressed(packet) ? &packet->unpacked : &packet->raw);
}

static enum packet_kind read_packet(struct packet *packet)
{
	if (frame_next(buffer_view(&packet->raw), &packet->header) != FRAME_READY)
		return PACKET_BROKEN;
	if (packet->header.opcode == OPCODE_COMPRESSED) {
		errno = 0;
		if (!compressed_unpack(buffer_view(&packet->raw), &packet->unpacked,
				       &packet->compressor)) {
			packet->starved = errno == ENOMEM;
			return PACKET_BROKEN;
		}
		if (frame_next(buffer_view(&packet->unpacked), &packet->header) != FRAME_READY)
			return PACKET_BROKEN;
	}
	if (packet->header.opcode != OPCODE_MESSAGE)
		return PACKET_OTHER;
	return message_parse(packet_frame(packet), &packet->message) ? PACKET_MESSAGE
								     : PACKET_BROKEN;
}

void packet_read(struct packet *packet, struct buffer *frame)
{
	*packet = (struct packet){.raw = buffer_steal(frame)};
	packet->kind = read_packet(packet);
}

void packet_read_reply(struct packet *packet, struct buffer *frame)
{
	packet_read(packet, frame);
	packet->summary = packet->kind == PACKET_MESSAGE ? reply_summarise(packet->message.body)
							 : (struct reply_summary){.n = -1};
}

void packet_rename(struct packet *packet, int32_t request_id)
{
	struct buffer *frame = packet_compressed(packet) ? &packet->unpacked : &packet->raw;

	store_int32(frame->data + 4, request_id);
	if (packet->message.flags & MESSAGE_CHECKSUM_PRESENT)
		store_int32(
			frame->data + frame->length - 4,
			(int32_t)checksum_crc32c((struct bytes){frame->data, frame->length - 4}));
	if (packet_compressed(packet)) {
		packet->raw.length = 0;
		compressed_pack(buffer_view(frame), packet->compressor, &packet->raw);
		if (packet->raw.length == 0) /* no memory to pack it */
			buffer_append(&packet->raw, frame->data, frame->length);
	}
	packet->header.request_id = packet->message.header.request_id = request_id;
}

void packet_fini(struct packet *packet)
{
	/* Most have been moved away, or never held anything. */
	if (!packet->raw.data && !packet->unpacked.data)
		return;
	buffer_fini(&packet->raw);
	buffer_fini(&packet->unpacked);
	*packet = (struct packet){0};
}

void packet_wipe(struct packet *packet)
{
	buffer_wipe(&packet->raw);
	buffer_wipe(&packet->unpacked);
	*packet = (struct packet){0};
}

struct packet packet_steal(struct packet *packet)
{
	struct packet stolen = *packet;

	*packet = (struct packet){0};
	return stolen;
}

void packet_move(struct packet *to, struct packet *from)
{
	*to = *from;
	*from = (struct packet){0};
}
