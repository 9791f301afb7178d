/* Tests protocol/legacy.c: OP_QUERY and OP_REPLY as older clients still speak them. */
#include <stdlib.h>

#include "tests/unit/samples.h"

#include "protocol/legacy.h"

Test(legacy, the_first_hello_of_a_client_is_read)
{
	auto_buffer struct buffer frame = sample("frame/query_hello");
	struct legacy_query query;
	struct element element;

	cr_assert(legacy_query_parse(buffer_view(&frame), &query));
	cr_assert_eq(query.header.opcode, OPCODE_QUERY);
	cr_assert(bytes_are(query.namespace, "admin.$cmd"));
	cr_assert(query.is_command);
	cr_assert_eq(query.flags, 0);
	cr_assert_eq(query.skip, 0);
	cr_assert_eq(query.limit, -1);
	cr_assert(document_valid(query.query));
	assert_bytes(query.command, query.query);
	cr_assert(document_find(query.command, "ismaster", &element));
}

Test(legacy, a_wrapped_command_is_unwrapped)
{
	auto_buffer struct buffer frame = sample("frame/query_wrapped");
	struct legacy_query query;
	struct element element;

	cr_assert(legacy_query_parse(buffer_view(&frame), &query));
	cr_assert_eq(query.flags, 4);
	cr_assert(document_find(query.query, "$query", &element));
	assert_bytes(query.command, element.value);
	cr_assert(document_find(query.command, "ismaster", &element));
}

/* An OP_QUERY of this namespace and document. */
static void compose(struct buffer *frame, const char *namespace, struct bytes document)
{
	static const int32_t numbers[] = {0, -1};
	struct frame_header header = {0, 7, 0, OPCODE_QUERY};

	buffer_reserve(frame, FRAME_HEADER_LENGTH + 4);
	header.length =
		(int32_t)(FRAME_HEADER_LENGTH + 4 + strlen(namespace) + 1 + 8 + document.length);
	frame_store_header(frame->data, &header);
	store_int32(frame->data + FRAME_HEADER_LENGTH, 0);
	frame->length = FRAME_HEADER_LENGTH + 4;
	buffer_append(frame, namespace, strlen(namespace) + 1);
	buffer_append(frame, numbers, sizeof(numbers));
	buffer_append(frame, document.data, document.length);
}

/* Sends {<name>: {x: null}}, as a document or an array, maybe with a field before it; true where
 * {x: null} is the command. */
static bool unwraps(const char *before, const char *name, bool as_array)
{
	auto_buffer struct buffer document = {0};
	auto_buffer struct buffer frame = {0};
	struct bytes wrapped = LITERAL("\x8\0\0\0\xax\0\0");
	struct legacy_query query;
	size_t start = writer_open(&document);

	if (before)
		writer_int32(&document, before, 1);
	if (as_array)
		writer_array(&document, name, wrapped);
	else
		writer_document(&document, name, wrapped);
	writer_close(&document, start);
	compose(&frame, "db.$cmd", buffer_view(&document));
	cr_assert(legacy_query_parse(buffer_view(&frame), &query));
	if (!bytes_equal(query.command, wrapped))
		assert_bytes(query.command, query.query);
	return bytes_equal(query.command, wrapped);
}

/* Asked of mongod 6.0.5, which takes both spellings, an array too, and only in the first place. */
Test(legacy, a_command_is_wrapped_where_mongod_unwraps_it)
{
	cr_assert(unwraps(NULL, "$query", false));
	cr_assert(unwraps(NULL, "query", false));
	cr_assert(unwraps(NULL, "$query", true));
	cr_assert_not(unwraps("y", "$query", false));
	cr_assert_not(unwraps("$query", "$query", false));
	cr_assert_not(unwraps(NULL, "Query", false));
}

static bool is_command(const char *namespace)
{
	auto_buffer struct buffer frame = {0};
	struct legacy_query query;

	compose(&frame, namespace, LITERAL("\5\0\0\0\0"));
	cr_assert(legacy_query_parse(buffer_view(&frame), &query));
	cr_assert(bytes_are(query.namespace, namespace));
	return query.is_command;
}

Test(legacy, a_command_is_sent_to_the_collection_of_that_name)
{
	cr_assert(is_command("admin.$cmd"));
	cr_assert(is_command("shop.$cmd"));
	cr_assert_not(is_command("shop.books"));
	cr_assert_not(is_command("shop.$cmd.sys"));
	cr_assert_not(is_command("$cmd"));
	cr_assert_not(is_command(""));
}

static bool query_reads(struct bytes frame)
{
	struct legacy_query query;

	if (!legacy_query_parse(frame, &query))
		return false;
	cr_assert(inside(query.namespace, frame));
	cr_assert(inside(query.query, frame));
	cr_assert(inside(query.command, query.query));
	return true;
}

static bool reply_reads(struct bytes frame)
{
	struct legacy_reply reply;

	if (!legacy_reply_parse(frame, &reply))
		return false;
	cr_assert(inside(reply.document, frame));
	return true;
}

static bool names_namespace(struct bytes frame)
{
	struct bytes namespace;

	if (!legacy_write_namespace(frame, &namespace))
		return false;
	cr_assert(inside(namespace, frame));
	return true;
}

Test(legacy, no_beginning_of_a_frame_is_read)
{
	auto_buffer struct buffer query = sample("frame/query_wrapped");
	auto_buffer struct buffer reply = sample("frame/reply_hello");
	auto_buffer struct buffer write = sample("frame/legacy_insert");

	cr_assert_eq(prefixes_taken(buffer_view(&query), query_reads), 0);
	cr_assert_eq(prefixes_taken(buffer_view(&reply), reply_reads), 0);
	cr_assert_eq(prefixes_taken(buffer_view(&write), names_namespace), 0);
}

/* The header's length is set to what is there, so that the fields end early. */
static size_t cut_frames_taken(struct bytes frame, try_bytes try)
{
	auto_free uint8_t *copy = exact_copy(frame);
	size_t taken = 0;

	for (size_t length = FRAME_HEADER_LENGTH; length < frame.length; length++) {
		store_int32(copy, (int32_t)length);
		taken += try_exact((struct bytes){copy, length}, try);
	}
	return taken;
}

Test(legacy, fields_that_end_early_are_refused)
{
	auto_buffer struct buffer query = sample("frame/query_hello");
	auto_buffer struct buffer reply = sample("frame/reply_hello");

	cr_assert_eq(cut_frames_taken(buffer_view(&query), query_reads), 0);
	cr_assert_eq(cut_frames_taken(buffer_view(&reply), reply_reads), 1, "one of no documents");
}

Test(legacy, frames_with_a_changed_byte_are_read_within_their_bounds)
{
	auto_buffer struct buffer query = sample("frame/query_wrapped");
	auto_buffer struct buffer reply = sample("frame/reply_failure");
	auto_buffer struct buffer write = sample("frame/legacy_get_more");

	cr_assert_gt(changes_taken(buffer_view(&query), query_reads), 0);
	cr_assert_gt(changes_taken(buffer_view(&reply), reply_reads), 0);
	cr_assert_gt(changes_taken(buffer_view(&write), names_namespace), 0);
}

Test(legacy, what_mongod_answers_is_read)
{
	auto_buffer struct buffer hello = sample("frame/reply_hello");
	auto_buffer struct buffer failure = sample("frame/reply_failure");
	struct legacy_reply reply;
	struct element element;

	cr_assert(legacy_reply_parse(buffer_view(&hello), &reply));
	cr_assert_eq(reply.header.response_to, 7);
	cr_assert_eq(reply.cursor_id, 0);
	cr_assert_eq(reply.starting_from, 0);
	cr_assert_eq(reply.returned, 1);
	cr_assert_eq(reply.flags & LEGACY_REPLY_QUERY_FAILURE, 0);
	cr_assert(document_valid(reply.document));
	cr_assert(document_find(reply.document, "ismaster", &element));
	cr_assert(legacy_reply_parse(buffer_view(&failure), &reply));
	cr_assert_eq(reply.flags & LEGACY_REPLY_QUERY_FAILURE, LEGACY_REPLY_QUERY_FAILURE);
	cr_assert(document_find(reply.document, "$err", &element));
}

Test(legacy, a_reply_of_ours_has_the_form_of_mongods)
{
	auto_buffer struct buffer theirs = sample("frame/reply_hello");
	auto_buffer struct buffer ours = {0};
	struct legacy_reply reply;

	cr_assert(legacy_reply_parse(buffer_view(&theirs), &reply));
	legacy_reply_append(&ours, 7, reply.flags, reply.document);
	store_int32(ours.data + 4, reply.header.request_id);
	assert_bytes(buffer_view(&ours), buffer_view(&theirs));
}

Test(legacy, a_replaced_command_keeps_all_that_stands_around_it)
{
	static const char *const names[] = {"frame/query_hello", "frame/query_wrapped"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		auto_buffer struct buffer frame = sample(names[i]);
		auto_buffer struct buffer changed = {0};
		auto_buffer struct buffer back = {0};
		struct legacy_query query, other;
		struct bytes command = LITERAL("\x0c\0\0\0\xahello\0\0");

		cr_assert(legacy_query_parse(buffer_view(&frame), &query));
		legacy_query_replace(buffer_view(&frame), &query, command, &changed);
		cr_assert(legacy_query_parse(buffer_view(&changed), &other));
		assert_bytes(other.command, command);
		cr_assert_eq(other.flags, query.flags);
		legacy_query_replace(buffer_view(&changed), &other, query.command, &back);
		assert_bytes(buffer_view(&back), buffer_view(&frame));
	}
}

Test(legacy, old_writes_name_their_namespace)
{
	auto_buffer struct buffer insert = sample("frame/legacy_insert");
	auto_buffer struct buffer get_more = sample("frame/legacy_get_more");
	static const int32_t opcodes[] = {OPCODE_UPDATE, OPCODE_DELETE};
	struct bytes namespace = {0};

	cr_assert(legacy_write_namespace(buffer_view(&insert), &namespace));
	cr_assert(bytes_are(namespace, "shop.books"));
	cr_assert(legacy_write_namespace(buffer_view(&get_more), &namespace));
	cr_assert(bytes_are(namespace, "shop.books"));
	for (size_t i = 0; i < ARRAY_LENGTH(opcodes); i++) {
		store_int32(insert.data + 12, opcodes[i]);
		cr_assert(legacy_write_namespace(buffer_view(&insert), &namespace));
	}
	store_int32(insert.data + 12, OPCODE_KILL_CURSORS);
	cr_assert_not(legacy_write_namespace(buffer_view(&insert), &namespace));
	store_int32(insert.data + 12, OPCODE_QUERY);
	cr_assert_not(legacy_write_namespace(buffer_view(&insert), &namespace));
}
