/* Any bytes as an OP_MSG frame: read within its bounds; put together again it is the same message.
 */
#include "tests/fuzz/fuzz.h"

#include "protocol/message.h"
#include "protocol/packet.h"

static void require_same(const struct message *message, const struct message *other)
{
	require(bytes_equal(message->body, other->body));
	require(message->sequence_count == other->sequence_count);
	for (size_t i = 0; i < message->sequence_count; i++) {
		require(bytes_equal(message->sequences[i].identifier,
				    other->sequences[i].identifier));
		require(bytes_equal(message->sequences[i].documents,
				    other->sequences[i].documents));
		require(message->sequences[i].count == other->sequences[i].count);
	}
}

static void write_again(const struct message *message)
{
	auto_buffer struct buffer frame = {0};
	uint32_t flags = message->flags & ~(uint32_t)MESSAGE_CHECKSUM_PRESENT;
	size_t start = message_begin(&frame, message->header.request_id,
				     message->header.response_to, flags);
	struct message other;

	message_begin_body(&frame);
	buffer_append(&frame, message->body.data, message->body.length);
	for (size_t i = 0; i < message->sequence_count; i++) {
		const struct document_sequence *sequence = &message->sequences[i];
		size_t from = message_begin_sequence(&frame, sequence->identifier);

		buffer_append(&frame, sequence->documents.data, sequence->documents.length);
		message_end_sequence(&frame, from);
	}
	message_end(&frame, start);
	require(message_parse(buffer_view(&frame), &other));
	require(other.flags == flags);
	require_same(message, &other);
}

static void read_sequences(const struct message *message, struct bytes frame)
{
	for (size_t i = 0; i < message->sequence_count; i++) {
		struct bytes rest = message->sequences[i].documents, document;
		size_t count = 0;

		require_inside(message->sequences[i].identifier, frame);
		require_inside(rest, frame);
		for (; message_next_document(&rest, &document); count++)
			require_elements_inside(document);
		require(rest.length == 0 && count == message->sequences[i].count);
	}
}

/* The prefix tells the same name as the whole message, where it tells one. */
static void require_prefix_agrees(const struct message *message, struct bytes frame)
{
	struct message_prefix prefix;
	struct cursor cursor;
	struct element first;

	if (message_prefix(frame, &prefix) != PREFIX_KNOWN || prefix.name.length == 0)
		return;
	if (cursor_open(&cursor, message->body) && cursor_next(&cursor, &first) == CURSOR_ELEMENT)
		require(bytes_equal(prefix.name, first.name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes frame = {data, size};
	auto_buffer struct buffer owned = {0};
	struct message message;
	struct packet packet;

	if (message_parse(frame, &message)) {
		require_inside(message.body, frame);
		require_elements_inside(message.body);
		read_sequences(&message, frame);
		require_prefix_agrees(&message, frame);
		write_again(&message);
	}
	buffer_append(&owned, data, size);
	packet_read(&packet, &owned);
	if (packet.kind == PACKET_MESSAGE)
		require_inside(packet.message.body, packet_frame(&packet));
	packet_fini(&packet);
	return 0;
}
