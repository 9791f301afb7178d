/* Tests protocol/message.c: OP_MSG is taken apart as mongod 6.0.5 does, and put together. */
#include <stdlib.h>

#include "tests/unit/samples.h"

#include "protocol/cursor.h"
#include "protocol/message.h"

#define BODY LITERAL("\x13\0\0\0\x2insert\0\2\0\0\0c\0\0")
#define DOCUMENT LITERAL("\x0c\0\0\0\x10x\0\1\0\0\0\0")

static void append_body(struct buffer *frame, struct bytes body)
{
	message_begin_body(frame);
	buffer_append(frame, body.data, body.length);
}

/* A sequence of two documents. */
static void append_sequence(struct buffer *frame, const char *identifier)
{
	size_t start = message_begin_sequence(frame, bytes_of(identifier));

	for (int i = 0; i < 2; i++)
		buffer_append(frame, DOCUMENT.data, DOCUMENT.length);
	message_end_sequence(frame, start);
}

Test(message, what_was_written_is_read_again)
{
	auto_buffer struct buffer frame = {0};
	struct message message;
	struct bytes document;
	size_t start;

	buffer_append(&frame, "before", 6);
	start = message_begin(&frame, 7, -8, MESSAGE_EXHAUST_ALLOWED);
	append_sequence(&frame, "documents");
	append_body(&frame, BODY);
	append_sequence(&frame, "others");
	message_end(&frame, start);
	buffer_consume(&frame, 6);

	cr_assert(message_parse(buffer_view(&frame), &message));
	cr_assert_eq((size_t)message.header.length, frame.length);
	cr_assert_eq(message.header.request_id, 7);
	cr_assert_eq(message.header.response_to, -8);
	cr_assert_eq(message.header.opcode, OPCODE_MESSAGE);
	cr_assert_eq(message.flags, MESSAGE_EXHAUST_ALLOWED);
	assert_bytes(message.body, BODY);
	cr_assert_eq(message.sequence_count, 2);
	cr_assert(bytes_are(message.sequences[0].identifier, "documents"));
	cr_assert(bytes_are(message.sequences[1].identifier, "others"));
	cr_assert_eq(message.sequences[1].count, 2);
	for (int i = 0; i < 2; i++) {
		cr_assert(message_next_document(&message.sequences[1].documents, &document));
		assert_bytes(document, DOCUMENT);
	}
	cr_assert_not(message_next_document(&message.sequences[1].documents, &document));
}

Test(message, what_clients_and_mongod_send_is_read)
{
	static const char *const names[] = {
		"frame/hello_request",       "frame/hello_primary",
		"frame/find_reply",          "frame/write_error",
		"frame/checksummed_request", "frame/checksummed_reply",
		"message/update_sequence",   "message/sequence_first",
		"message/get_more_exhaust",  "message/insert_unacknowledged"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		auto_buffer struct buffer frame = sample(names[i]);
		struct message message;

		cr_assert(message_parse(buffer_view(&frame), &message), "%s", names[i]);
		cr_assert(document_valid(message.body), "%s", names[i]);
	}
}

/* Whether a frame of these flags and sections is taken; `tail` stands behind them. */
static bool taken(uint32_t flags, struct bytes sections, struct bytes tail)
{
	auto_buffer struct buffer frame = {0};
	auto_free uint8_t *copy = NULL;
	size_t start = message_begin(&frame, 1, 0, flags);
	struct message message;

	buffer_append(&frame, sections.data, sections.length);
	buffer_append(&frame, tail.data, tail.length);
	message_end(&frame, start);
	copy = exact_copy(buffer_view(&frame));
	return message_parse((struct bytes){copy, frame.length}, &message);
}

#define EMPTY "\0\5\0\0\0\0"

/* Both tables were sent to mongod 6.0.5. */
Test(message, flags_are_taken_and_refused_as_mongod_does)
{
	struct bytes nothing = {0};

	cr_assert(taken(0, LITERAL(EMPTY), nothing));
	cr_assert(taken(MESSAGE_MORE_TO_COME, LITERAL(EMPTY), nothing));
	cr_assert(taken(1u << 16, LITERAL(EMPTY), nothing));
	cr_assert(taken(1u << 17 | 1u << 31, LITERAL(EMPTY), nothing));
	for (int bit = 2; bit < 16; bit++)
		cr_assert_not(taken(1u << bit, LITERAL(EMPTY), nothing), "bit %d", bit);
	cr_assert(taken(MESSAGE_CHECKSUM_PRESENT, LITERAL(EMPTY), LITERAL("abcd")));
	cr_assert_not(taken(MESSAGE_CHECKSUM_PRESENT, LITERAL(EMPTY), nothing));
	cr_assert_not(taken(MESSAGE_CHECKSUM_PRESENT, LITERAL("abc"), nothing));
}

Test(message, sections_are_taken_and_refused_as_mongod_does)
{
	struct bytes body = LITERAL(EMPTY);

	cr_assert_not(taken(0, LITERAL(""), LITERAL("")), "no body");
	cr_assert_not(taken(0, body, body), "two bodies");
	cr_assert_not(taken(0, body, LITERAL("\2\5\0\0\0\0")), "a security token");
	cr_assert_not(taken(0, body, LITERAL("\xff")), "an unknown kind");
	cr_assert_not(taken(0, LITERAL("\0\5\0\0\0\1"), LITERAL("")), "no closing NUL");
	cr_assert_not(taken(0, LITERAL("\0\4\0\0\0"), LITERAL("")));
	cr_assert_not(taken(0, LITERAL("\0\6\0\0\0\0"), LITERAL("")));
	cr_assert_not(taken(0, LITERAL("\0"), LITERAL("")));
	cr_assert(taken(0, body, LITERAL("\1\5\0\0\0\0")), "an empty name, and no documents");
	cr_assert(taken(0, LITERAL("\1\x0b\0\0\0a\0\5\0\0\0\0"), body), "a sequence in front");
	cr_assert_not(taken(0, body, LITERAL("\1\x0c\0\0\0a\0\5\0\0\0\0")), "size too large");
	cr_assert_not(taken(0, body, LITERAL("\1\x0a\0\0\0a\0\5\0\0\0\0")), "size too small");
	cr_assert_not(taken(0, body, LITERAL("\1\4\0\0\0")));
	cr_assert_not(taken(0, body, LITERAL("\1\0\0\0\0\0")));
	cr_assert_not(taken(0, body, LITERAL("\1\xff\xff\xff\xff\0")));
	cr_assert_not(taken(0, body, LITERAL("\1\xff\xff\xff\x7f\0")));
	cr_assert_not(taken(0, body, LITERAL("\1\x9\0\0\0abcde")), "a name without its end");
	cr_assert_not(taken(0, body, LITERAL("\1\6\0\0\0a\0\1\6\0\0\0a\0")), "a name twice");
	cr_assert(taken(0, body, LITERAL("\1\6\0\0\0a\0\1\6\0\0\0b\0")), "two sequences");
	cr_assert_not(taken(0, body, LITERAL("\1\6\0\0\0a\0\1\6\0\0\0b\0\1\6\0\0\0c\0")));
}

Test(message, a_field_may_not_stand_in_the_body_and_in_a_sequence)
{
	struct bytes sequence = LITERAL("\1\6\0\0\0a\0");

	cr_assert(taken(0,
			LITERAL("\0\x8\0\0\0\xa"
				"b\0\0"),
			sequence));
	cr_assert_not(taken(0,
			    LITERAL("\0\x8\0\0\0\xa"
				    "a\0\0"),
			    sequence));
}

Test(message, another_opcode_is_no_message)
{
	auto_buffer struct buffer frame = sample("frame/find_reply");
	struct message message;

	store_int32(frame.data + 12, OPCODE_COMPRESSED);
	cr_assert_not(message_parse(buffer_view(&frame), &message));
}

Test(message, bytes_behind_the_frame_are_not_looked_at)
{
	auto_buffer struct buffer frame = sample("message/update_sequence");
	struct message message;

	buffer_append(&frame, "\1\xff\xff\xff\xff", 5);
	cr_assert(message_parse(buffer_view(&frame), &message));
	cr_assert_eq((size_t)message.header.length, frame.length - 5);
}

/* Reads the frame and all its documents; checks that all lies inside. */
static bool reads(struct bytes frame)
{
	struct message message;
	struct bytes document;

	if (!message_parse(frame, &message))
		return false;
	cr_assert(inside(message.body, frame));
	cr_assert_leq(message.sequence_count, MESSAGE_MAX_SEQUENCES);
	for (size_t i = 0; i < message.sequence_count; i++) {
		struct bytes rest = message.sequences[i].documents;
		size_t count = 0;

		cr_assert(inside(message.sequences[i].identifier, frame));
		cr_assert(inside(rest, frame));
		for (; message_next_document(&rest, &document); count++)
			cr_assert(inside(document, message.sequences[i].documents));
		cr_assert_eq(count, message.sequences[i].count);
		cr_assert_eq(rest.length, 0);
	}
	return true;
}

Test(message, no_beginning_of_a_frame_is_a_message)
{
	auto_buffer struct buffer frame = sample("message/update_sequence");

	cr_assert(reads(buffer_view(&frame)));
	cr_assert_eq(prefixes_taken(buffer_view(&frame), reads), 0);
}

/* The header's own length is set to what is there, so that the sections end early. */
Test(message, sections_that_end_early_are_refused)
{
	auto_buffer struct buffer frame = sample("message/update_sequence");
	struct message message;
	size_t body_end;

	cr_assert(message_parse(buffer_view(&frame), &message));
	body_end = (size_t)(message.body.data + message.body.length - frame.data);
	for (size_t length = FRAME_HEADER_LENGTH; length < frame.length; length++) {
		auto_free uint8_t *copy = exact_copy((struct bytes){frame.data, length});

		store_int32(copy, (int32_t)length);
		cr_assert_eq(reads((struct bytes){copy, length}), length == body_end);
	}
}

Test(message, a_frame_with_a_changed_byte_is_read_within_its_bounds)
{
	auto_buffer struct buffer frame = sample("message/update_sequence");

	cr_assert_gt(changes_taken(buffer_view(&frame), reads), 0);
}

static enum prefix_state prefix_of(struct bytes bytes, struct message_prefix *prefix)
{
	return message_prefix(bytes, prefix);
}

Test(message, the_command_is_known_as_soon_as_its_bytes_are_there)
{
	auto_buffer struct buffer frame = sample("message/update_sequence");
	size_t enough =
		FRAME_HEADER_LENGTH + 4 + 1 + 4 + 1 + sizeof("update") + 4 + sizeof("books");

	for (size_t length = 0; length <= frame.length; length++) {
		auto_free uint8_t *copy = exact_copy((struct bytes){frame.data, length});
		struct message_prefix prefix = {.flags = 99};
		enum prefix_state state = prefix_of((struct bytes){copy, length}, &prefix);

		cr_assert_eq(state, length < enough ? PREFIX_PARTIAL : PREFIX_KNOWN);
		cr_assert_eq(prefix.flags, length < enough ? 99 : 0);
		if (length >= enough) {
			cr_assert(bytes_are(prefix.name, "update"));
			cr_assert(bytes_are(prefix.collection, "books"));
		}
	}
}

Test(message, a_command_whose_value_is_no_string_has_no_collection)
{
	auto_buffer struct buffer frame = sample("message/get_more_exhaust");
	struct message_prefix prefix;
	size_t enough = FRAME_HEADER_LENGTH + 4 + 1 + 4 + 1 + sizeof("getMore");

	cr_assert_eq(message_prefix((struct bytes){frame.data, enough - 1}, &prefix),
		     PREFIX_PARTIAL);
	cr_assert_eq(message_prefix((struct bytes){frame.data, enough}, &prefix), PREFIX_KNOWN);
	cr_assert(bytes_are(prefix.name, "getMore"));
	cr_assert_eq(prefix.collection.length, 0);
	cr_assert_eq(prefix.flags, MESSAGE_EXHAUST_ALLOWED);
}

Test(message, a_body_behind_a_sequence_is_late)
{
	auto_buffer struct buffer frame = sample("message/sequence_first");
	struct message_prefix prefix;

	cr_assert_eq(message_prefix((struct bytes){frame.data, 20}, &prefix), PREFIX_PARTIAL);
	cr_assert_eq(message_prefix((struct bytes){frame.data, 21}, &prefix), PREFIX_LATE);
	cr_assert_eq(message_prefix(buffer_view(&frame), &prefix), PREFIX_LATE);
}

/* {<a name>: <a string>} */
static void long_command(struct buffer *frame, size_t name_length, size_t value_length)
{
	auto_free char *letters = must_malloc(name_length + value_length + 1);
	struct bytes value = {(const uint8_t *)letters, value_length};
	size_t start = message_begin(frame, 1, 0, 0), body;

	memset(letters, 'x', name_length + value_length);
	letters[name_length] = '\0';
	message_begin_body(frame);
	body = writer_open(frame);
	writer_text(frame, letters, value);
	letters[name_length] = 'x';
	writer_close(frame, body);
	message_end(frame, start);
}

Test(message, a_name_too_long_to_be_a_command_needs_no_more_bytes)
{
	for (size_t length = 253; length < 260; length++) {
		auto_buffer struct buffer frame = {0};
		struct message_prefix prefix;
		size_t known;

		long_command(&frame, length, 3);
		cr_assert_eq(message_prefix(buffer_view(&frame), &prefix), PREFIX_KNOWN);
		known = length <= MESSAGE_LONGEST_NAME ? length : 0;
		cr_assert_eq(prefix.name.length, known);
		cr_assert_eq(message_prefix((struct bytes){frame.data, 282}, &prefix),
			     length <= MESSAGE_LONGEST_NAME ? PREFIX_PARTIAL : PREFIX_KNOWN);
	}
}

Test(message, a_value_too_long_to_be_a_collection_needs_no_more_bytes)
{
	for (size_t length = 253; length < 260; length++) {
		auto_buffer struct buffer frame = {0};
		struct message_prefix prefix;
		bool fits = length <= MESSAGE_LONGEST_NAME;

		long_command(&frame, 6, length);
		cr_assert_eq(message_prefix(buffer_view(&frame), &prefix), PREFIX_KNOWN);
		cr_assert_eq(prefix.collection.length, fits ? length : 0);
		cr_assert_eq(message_prefix((struct bytes){frame.data, 60}, &prefix),
			     fits ? PREFIX_PARTIAL : PREFIX_KNOWN);
	}
}

Test(message, what_can_never_become_a_command_is_invalid)
{
	struct message_prefix prefix;
	auto_buffer struct buffer frame = sample("message/update_sequence");
	struct bytes start = {frame.data, 60};

	frame.data[24] = 0xff; /* the body's length */
	cr_assert_eq(message_prefix(start, &prefix), PREFIX_INVALID);
	frame.data[24] = 0;
	frame.data[25] = 0; /* the type of its first element */
	cr_assert_eq(message_prefix(start, &prefix), PREFIX_INVALID);
	frame.data[25] = BSON_BYTE_STRING;
	frame.data[33] = 0; /* the length of its value */
	cr_assert_eq(message_prefix(start, &prefix), PREFIX_INVALID);
	store_int32(frame.data, 15);
	cr_assert_eq(message_prefix(start, &prefix), PREFIX_INVALID);
}

Test(message, what_is_not_known_has_to_be_whole)
{
	struct message_prefix prefix;
	auto_buffer struct buffer frame = sample("message/update_sequence");
	struct bytes start = {frame.data, 60};

	for (int bit = 2; bit < 16; bit++) {
		store_int32(frame.data + 16, 1 << bit); /* a required flag */
		cr_assert_eq(message_prefix(start, &prefix), PREFIX_LATE);
	}
	store_int32(frame.data + 16, 1 << 17);
	cr_assert_eq(message_prefix(start, &prefix), PREFIX_KNOWN);
	frame.data[20] = 2; /* the section's kind */
	cr_assert_eq(message_prefix(start, &prefix), PREFIX_LATE);
}

Test(message, a_whole_frame_is_never_partial)
{
	auto_buffer struct buffer frame = sample("message/update_sequence");
	struct message_prefix prefix;

	/* Its length says that it ends early; the bytes of the next one stand behind it. */
	for (int32_t length = FRAME_HEADER_LENGTH; length < 40; length++) {
		store_int32(frame.data, length);
		cr_assert_eq(message_prefix(buffer_view(&frame), &prefix), PREFIX_INVALID);
	}
}

static bool prefix_reads(struct bytes bytes)
{
	struct message_prefix prefix;

	if (message_prefix(bytes, &prefix) != PREFIX_KNOWN)
		return false;
	cr_assert(inside(prefix.name, bytes));
	cr_assert(inside(prefix.collection, bytes));
	return true;
}

Test(message, a_prefix_with_a_changed_byte_is_read_within_its_bounds)
{
	auto_buffer struct buffer frame = sample("message/update_sequence");

	cr_assert_gt(changes_taken((struct bytes){frame.data, 50}, prefix_reads), 0);
	cr_assert_gt(changes_taken((struct bytes){frame.data, 40}, prefix_reads), 0);
}
