/* Tests rules/sequence/permission.c: what mongod is asked about a client's command, and what its
 * answer says. */
#include "tests/unit/play.h"

#include "protocol/writer.h"

#include "rules/sequence/permission.h"

#define ASKED (PERMISSION_LEAST + 7)
#define OUT_OF_RANGE \
	"{'ok': 0.0, 'errmsg': '1099511627783 value for maxTimeMS is out of range', 'code': 2}"

/* What is asked about the request, as the body of an OP_MSG; `own` is compared. */
static struct bytes asked(const struct made *made, bool own, struct buffer *frame)
{
	struct permission_question question = {.request_id = 99, .number = ASKED};
	struct packet packet = made_packet(made_frame(made));
	struct shop shop = shop_open();
	struct message message;
	struct match match;

	match_packet(shop.cache, &packet, &match);
	cr_assert(permission_ask(&question, &packet, &match, frame));
	cr_assert_eq(question.own, own);
	packet_fini(&packet);
	shop_close(&shop);
	cr_assert(message_parse(buffer_view(frame), &message));
	cr_assert_eq(message.flags, 0);
	cr_assert_eq(message.header.request_id, 99);
	return message.body;
}

static void expect_asked(const char *command, bool own, const char *expected)
{
	const struct made made = {.body = command, .id = PLAY_ID};
	auto_buffer struct buffer frame = {0};

	cr_assert_str_eq(made_json(asked(&made, own, &frame)), made_json(made_bson(expected)));
}

#define TIME "{'$numberLong': '1099511627783'}"

Test(permission, the_clients_command_is_asked_about_with_a_time_that_no_server_takes)
{
	expect_asked("{'find': 'books', 'filter': {'list': 1}, '$db': 'shop'}", true,
		     "{'find': 'books', 'filter': {'list': 1}, '$db': 'shop', 'maxTimeMS': " TIME
		     "}");
	expect_asked("{'count': 'books', 'maxTimeMS': 5, '$db': 'shop'}", true,
		     "{'count': 'books', 'maxTimeMS': " TIME ", '$db': 'shop'}");
	expect_asked("{'count': 'books', 'maxTimeMS': 5, '$db': 'shop', 'maxTimeMS': 6}", true,
		     "{'count': 'books', 'maxTimeMS': " TIME ", '$db': 'shop'}");
}

Test(permission, what_mongod_may_ask_no_rights_for_is_asked_about_as_a_find)
{
	static const char find[] = "{'find': 'books', '$db': 'shop', 'maxTimeMS': " TIME "}";

	expect_asked("{'ping': 'books', '$db': 'shop'}", false, find);
	expect_asked("{'buildInfo': 'books', '$db': 'shop'}", false, find);
	expect_asked("{'nonsense': 'books', '$db': 'shop'}", false, find);
}

Test(permission, a_bulk_write_is_asked_about_as_its_first_run_on_the_ruled_namespace)
{
	expect_asked("{'bulkWrite': 1, 'ops': [{'insert': 0, 'document': {'_id': 1}}, {'delete': "
		     "1, 'filter': {'_id': 2}, 'multi': false}], 'nsInfo': [{'ns': 'shop.plain'}, "
		     "{'ns': 'shop.books'}], '$db': 'admin'}",
		     false,
		     "{'delete': 'books', 'ordered': true, '$db': 'shop', 'maxTimeMS': " TIME "}");
}

Test(permission, a_bulk_write_of_an_overflow_collection_is_asked_about_as_a_find_of_it)
{
	expect_asked("{'bulkWrite': 1, 'ops': [{'insert': 1, 'document': {'_id': 1}}], 'nsInfo': "
		     "[{'ns': 'shop.plain'}, {'ns': 'shop.books_more'}], '$db': 'admin'}",
		     false, "{'find': 'books_more', '$db': 'shop', 'maxTimeMS': " TIME "}");
}

Test(permission, flags_go_and_statements_stay)
{
	const struct made made = {.body = "{'update': 'books', '$db': 'shop'}",
				  .sequence = "updates",
				  .documents = "[{'q': {}, 'u': {'$pop': {'list': 1}}}]",
				  .flags = MESSAGE_MORE_TO_COME | MESSAGE_EXHAUST_ALLOWED,
				  .checksum = true};
	auto_buffer struct buffer frame = {0};
	struct message message;

	asked(&made, true, &frame);
	cr_assert(message_parse(buffer_view(&frame), &message));
	cr_assert_eq(message.sequence_count, 1);
	cr_assert_eq(message.sequences[0].count, 1);
}

static enum permission told(const char *reply)
{
	struct packet packet = made_packet(made_frame(&(struct made){.body = reply}));
	enum permission permission = permission_told(&packet);

	packet_fini(&packet);
	return permission;
}

Test(permission, the_answers_code_and_words_tell)
{
	cr_assert_eq(told(OUT_OF_RANGE), PERMISSION_GIVEN);
	cr_assert_eq(
		told("{'ok': 0.0, 'errmsg': 'BSON field maxTimeMS is too large', 'code': 51024}"),
		PERMISSION_GIVEN);
	cr_assert_eq(told("{'ok': 0.0, 'errmsg': 'not authorized on shop to execute command { "
			  "find: 1, maxTimeMS: 1099511627783 }', 'code': 13}"),
		     PERMISSION_DENIED);
	cr_assert_eq(told("{'ok': 0.0, 'errmsg': 'node is not primary', 'code': 10107}"),
		     PERMISSION_OPEN);
	cr_assert_eq(told("{'ok': 1.0, 'n': 0}"), PERMISSION_BROKEN);
}

/* The words that a client hears for the reply's. */
static void expect_words(const char *command, const char *said, const char *heard)
{
	struct permission_question question = {.number = ASKED};
	struct packet reply = made_packet(made_frame(&(struct made){
		.body = made_text("{'ok': 0.0, 'errmsg': '%s', 'code': 13, 'codeName': "
				  "'Unauthorized', 'x': 1}",
				  said)}));
	struct play play = {0};
	struct element text;

	play_command(&play, command, VERDICT_REFUSE);
	cr_assert_eq(permission_pass(&question, play.sequence, &reply), SEQUENCE_DONE);
	cr_assert_eq(play_message(&play).header.response_to, PLAY_ID);
	cr_assert(document_find(play_message(&play).body, "x", &text));
	cr_assert(document_find(play_message(&play).body, "errmsg", &text));
	cr_assert_str_eq((const char *)text.value.data + 4, heard);
	packet_fini(&reply);
	play_close(&play);
}

/* No mongod's; what stands in front of it may be anything. */
Test(permission, words_that_pass_a_message_are_not_passed_on)
{
	struct permission_question question = {.number = ASKED};
	size_t length = 17 << 20;
	auto_free char *words = must_malloc(length + 1);
	struct buffer frame = {0};
	size_t start = message_begin(&frame, 9, PLAY_ID, 0), body;
	struct packet reply;
	struct play play = {0};
	struct element code;

	memset(words, 'x', length);
	words[length] = '\0';
	message_begin_body(&frame);
	body = writer_open(&frame);
	writer_double(&frame, "ok", 0);
	writer_string(&frame, "errmsg", words);
	writer_int32(&frame, "code", ERROR_UNAUTHORIZED);
	writer_close(&frame, body);
	message_end(&frame, start);
	packet_read_reply(&reply, &frame);
	play_command(&play, "{'mapReduce': 'books', '$db': 'shop'}", VERDICT_REFUSE);
	cr_assert_eq(permission_told(&reply), PERMISSION_DENIED);
	cr_assert_eq(permission_pass(&question, play.sequence, &reply), SEQUENCE_DONE);
	cr_assert(document_find(play_message(&play).body, "code", &code));
	cr_assert_eq(load_int32(code.value.data), ERROR_OBJECT_TOO_LARGE);
	packet_fini(&reply);
	play_close(&play);
}

Test(permission, mongods_words_lose_what_the_question_added)
{
	static const char command[] = "{'mapReduce': 'books', '$db': 'shop'}";
	static const char timed[] = "{'mapReduce': 'books', 'maxTimeMS': %s, '$db': 'shop'}";

	expect_words(command, "command mapReduce requires authentication",
		     "command mapReduce requires authentication");
	expect_words(command, "no { a: 1, $db: 2, maxTimeMS: 1099511627783 }",
		     "no { a: 1, $db: 2 }");
	expect_words(made_text(timed, "5"), "no { a: 1, maxTimeMS: 1099511627783, $db: 2 }",
		     "no { a: 1, maxTimeMS: 5, $db: 2 }");
	expect_words(made_text(timed, "5.0"), "no { a: 1, maxTimeMS: 1099511627783, $db: 2 }",
		     "no { a: 1, maxTimeMS: 5.0, $db: 2 }");
	expect_words(made_text(timed, "'x'"), "no { a: 1, maxTimeMS: 1099511627783, $db: 2 }",
		     "no { a: 1, maxTimeMS: ..., $db: 2 }");
}
