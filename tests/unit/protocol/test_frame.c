/* Tests protocol/frame.c: where a message ends. */
#include "tests/unit/samples.h"

static enum frame_state state_of_length(int32_t length)
{
	uint8_t bytes[FRAME_HEADER_LENGTH] = {0};
	struct frame_header header;

	store_int32(bytes, length);
	return frame_next((struct bytes){bytes, sizeof(bytes)}, &header);
}

Test(frame, a_length_is_taken_and_refused_as_mongod_does)
{
	cr_assert_eq(state_of_length(16), FRAME_READY);
	cr_assert_eq(state_of_length(17), FRAME_PARTIAL);
	cr_assert_eq(state_of_length(48000000), FRAME_PARTIAL);
	cr_assert_eq(state_of_length(48000001), FRAME_INVALID);
	cr_assert_eq(state_of_length(INT32_MAX), FRAME_INVALID);
	cr_assert_eq(state_of_length(15), FRAME_INVALID);
	cr_assert_eq(state_of_length(0), FRAME_INVALID);
	cr_assert_eq(state_of_length(-1), FRAME_INVALID);
	cr_assert_eq(state_of_length(INT32_MIN), FRAME_INVALID);
}

Test(frame, what_speaks_another_protocol_is_invalid)
{
	struct frame_header header;

	cr_assert_eq(frame_next(LITERAL("GET / HTTP/1.1\r\n"), &header), FRAME_INVALID);
	cr_assert_eq(frame_next(LITERAL("PROXY TCP4 127.0.0.1 127.0.0.1 1"), &header),
		     FRAME_INVALID);
}

Test(frame, a_header_is_stored_as_it_is_read)
{
	struct frame_header stored = {20, -7, INT32_MIN, 2013}, read;
	uint8_t bytes[20] = {0};

	frame_store_header(bytes, &stored);
	cr_assert_eq(frame_next((struct bytes){bytes, 20}, &read), FRAME_READY);
	cr_assert_eq(read.length, 20);
	cr_assert_eq(read.request_id, -7);
	cr_assert_eq(read.response_to, INT32_MIN);
	cr_assert_eq(read.opcode, 2013);
}

Test(frame, a_header_is_untouched_until_all_of_it_is_there)
{
	auto_buffer struct buffer frame = sample("frame/hello_request");

	for (size_t length = 0; length <= frame.length; length++) {
		struct bytes prefix = {frame.data, length};
		auto_free uint8_t *copy = exact_copy(prefix);
		struct frame_header header = {-1, -1, -1, -1};
		enum frame_state state = frame_next((struct bytes){copy, length}, &header);

		if (length < FRAME_HEADER_LENGTH) {
			cr_assert_eq(state, FRAME_SHORT);
			cr_assert_eq(header.length, -1);
		} else {
			cr_assert_eq(state, length < frame.length ? FRAME_PARTIAL : FRAME_READY);
			cr_assert_eq((size_t)header.length, frame.length);
		}
	}
}

/* Takes the stream in pieces of `step` bytes; true when the same frames come out. */
static bool same_frames(struct bytes stream, size_t step, const size_t *ends, size_t count)
{
	auto_buffer struct buffer buffer = {0};
	size_t found = 0, consumed = 0;

	for (size_t at = 0; at < stream.length; at += step) {
		size_t piece = stream.length - at < step ? stream.length - at : step;
		struct frame_header header;

		buffer_append(&buffer, stream.data + at, piece);
		while (frame_next(buffer_view(&buffer), &header) == FRAME_READY) {
			consumed += (size_t)header.length;
			if (found == count || ends[found++] != consumed)
				return false;
			buffer_consume(&buffer, (size_t)header.length);
		}
	}
	return found == count && buffer.length == 0;
}

Test(frame, a_stream_has_the_same_frames_however_it_is_cut)
{
	auto_buffer struct buffer stream = sample("frame/stream");
	size_t ends[3] = {0};

	for (size_t i = 0, at = 0; i < 3; i++)
		ends[i] = at += (size_t)load_int32(stream.data + at);
	cr_assert_eq(ends[2], stream.length);
	for (size_t step = 1; step <= stream.length; step++)
		cr_assert(same_frames(buffer_view(&stream), step, ends, 3), "by %zu", step);
}
