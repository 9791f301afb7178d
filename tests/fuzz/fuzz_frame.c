/* Any bytes as a stream: the same frames however it is cut, each read within its bounds. */
#include "tests/fuzz/fuzz.h"

#include "protocol/checksum.h"
#include "protocol/legacy.h"
#include "protocol/message.h"

static void read_legacy(struct bytes frame)
{
	struct legacy_query query;
	struct legacy_reply reply;
	struct bytes namespace;

	if (legacy_query_parse(frame, &query)) {
		auto_buffer struct buffer same = {0};

		require_inside(query.namespace, frame);
		require_inside(query.query, frame);
		require_inside(query.command, query.query);
		legacy_query_replace(frame, &query, query.command, &same);
		require(bytes_equal(buffer_view(&same), frame));
	}
	if (legacy_reply_parse(frame, &reply))
		require_inside(reply.document, frame);
	if (legacy_write_namespace(frame, &namespace))
		require_inside(namespace, frame);
}

/* What is known of a beginning stays so as more comes. */
static void read_prefixes(struct bytes stream, struct bytes frame)
{
	struct message_prefix whole = {0}, part;
	enum prefix_state last = message_prefix(stream, &whole);
	size_t most = frame.length < 100 ? frame.length : 100;

	require(last != PREFIX_PARTIAL);
	for (size_t length = 0; length < most; length++) {
		enum prefix_state state = message_prefix((struct bytes){frame.data, length}, &part);

		require(state == PREFIX_PARTIAL || state == last);
		if (state != PREFIX_KNOWN)
			continue;
		require(bytes_equal(part.name, whole.name));
		require(bytes_equal(part.collection, whole.collection));
		require_inside(part.collection, frame);
	}
}

static void read_frame(struct bytes stream, struct frame_header *header)
{
	struct bytes frame = {stream.data, (size_t)header->length};
	uint8_t stored[FRAME_HEADER_LENGTH];

	frame_store_header(stored, header);
	require(memcmp(stored, frame.data, sizeof(stored)) == 0);
	(void)checksum_matches(frame);
	read_legacy(frame);
	read_prefixes(stream, frame);
}

static size_t next_end(struct bytes stream, size_t at, bool read)
{
	struct bytes rest = {stream.data + at, stream.length - at};
	struct frame_header header;

	if (frame_next(rest, &header) != FRAME_READY)
		return 0;
	if (read)
		read_frame(rest, &header);
	return at + (size_t)header.length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes stream = {data, size};
	auto_buffer struct buffer arrived = {0};
	size_t step, whole_end = 0, end = 0, next;

	if (size == 0)
		return 0;
	step = 1 + data[size - 1];
	while ((next = next_end(stream, whole_end, true)))
		whole_end = next;
	for (size_t at = 0; at < size; at += step) {
		buffer_append(&arrived, data + at, size - at < step ? size - at : step);
		while ((next = next_end(buffer_view(&arrived), end, false)))
			end = next;
	}
	require(end == whole_end);
	return 0;
}
