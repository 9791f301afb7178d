/* Tests rules/sequence/sequence.c: refusals in the form of the request, and what is only watched.
 */
#include "tests/unit/play.h"

#include "protocol/legacy.h"

static struct play play;

#define REFUSED "{'odd': 'books', '$db': 'shop'}"

Test(sequence, a_refusal_is_an_error_of_mongod_s_form)
{
	struct element name;
	struct bytes text;

	play_command(&play, REFUSED, VERDICT_REFUSE);
	play_expect_error(&play, 115, "Spillway rule 'books' on 'shop.books'");
	cr_assert(document_find(play_message(&play).body, "codeName", &name));
	cr_assert(element_string(&name, &text) && bytes_are(text, "CommandNotSupported"));
	cr_assert_eq(play_notes(&play), 0);
	play_close(&play);
}

Test(sequence, what_wants_no_reply_is_refused_without_one)
{
	struct made made = {.body = REFUSED, .flags = MESSAGE_MORE_TO_COME};

	play_request(&play, made, VERDICT_REFUSE);
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	cr_assert_eq(play.sequence->output.length, 0);
	play_close(&play);
}

Test(sequence, a_refusal_ends_the_clients_transaction)
{
	play_command(&play, "{'odd': 'books', " TRANSACTION ", '$db': 'shop'}", VERDICT_REFUSE);
	play_end_transaction(&play);
	play_expect_error(&play, 115, "Spillway rule 'books' on 'shop.books'");
	play_close(&play);
	/* nothing has begun */
	play_command(&play,
		     "{'odd': 'books', " TRANSACTION ", 'startTransaction': true, '$db': 'shop'}",
		     VERDICT_REFUSE);
	play_expect_error(&play, 115, "Spillway rule 'books' on 'shop.books'");
	play_close(&play);
}

/* ---- mongod's own error ---- */

#define WHERE "{'$where': 'x', 'f': 1}"
#define FIND_WHERE "{'find': 'books', 'filter': " WHERE
#define ASKED(command) "{'explain': " command "}, 'verbosity': 'queryPlanner', '$db': 'shop'}"

Test(sequence, a_command_that_mongod_refuses_fails_with_mongods_error)
{
	play_command(&play, FIND_WHERE ", 'maxTimeMS': 5, '$db': 'shop'}", VERDICT_REFUSE);
	play_expect_helper(&play, ASKED(FIND_WHERE));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'bad', 'code': 2, 'codeName': 'BadValue'}");
	play_expect_answer(&play,
			   "{'ok': 0.0, 'errmsg': 'bad', 'code': 2, 'codeName': 'BadValue'}");
	play_close(&play);
	/* mongod would run the command */
	play_command(&play, FIND_WHERE ", '$db': 'shop'}", VERDICT_REFUSE);
	play_reply(&play, "{'ok': 1.0, 'queryPlanner': {}}");
	play_expect_error(&play, 115, "Spillway rule 'books' on 'shop.books'");
	play_close(&play);
	/* the explain's own error */
	play_command(&play, FIND_WHERE ", '$db': 'shop'}", VERDICT_REFUSE);
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'large', 'code': 10334}");
	play_expect_error(&play, 115, "Spillway rule 'books' on 'shop.books'");
	play_close(&play);
}

Test(sequence, what_mongod_says_of_an_explain_it_says_of_the_clients_command)
{
	play_command(&play, FIND_WHERE ", '$db': 'shop'}", VERDICT_REFUSE);
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'Command explain requires login', 'code': 13}");
	play_expect_answer(&play,
			   "{'ok': 0.0, 'errmsg': 'Command find requires login', 'code': 13}");
	play_close(&play);
}

Test(sequence, malformed_fields_go_where_mongod_looks_for_them)
{
	play_command(&play,
		     "{'count': 'books', 'query': " WHERE
		     ", 'maxTimeMS': -1, 'readConcern': 'x', '$db': 'shop'}",
		     VERDICT_REFUSE);
	play_expect_helper(&play, "{'explain': {'count': 'books', 'query': " WHERE
				  "}, 'verbosity': 'queryPlanner', 'maxTimeMS': -1, "
				  "'readConcern': 'x', '$db': 'shop'}");
	play_close(&play);
	play_command(&play,
		     "{'aggregate': 'books', 'pipeline': [{'$match': " WHERE
		     "}], 'maxTimeMS': -1, '$db': 'shop'}",
		     VERDICT_REFUSE);
	play_expect_helper(&play, ASKED("{'aggregate': 'books', 'pipeline': [{'$match': " WHERE
					"}], 'maxTimeMS': -1"));
	play_close(&play);
}

Test(sequence, a_write_fails_with_mongods_error_as_a_write_does)
{
	struct made made = {.body = "{'update': 'books', 'let': {'x': '$f'}, '$db': 'shop'}",
			    .sequence = "updates",
			    .documents = "[{'q': {'n': 1}, 'u': {'$set': {'n': 1}}}]"};

	play_request(&play, made, VERDICT_REFUSE);
	play_expect_helper(&play, ASKED("{'update': 'books', 'let': {'x': '$f'}, 'updates': "
					"[{'q': {'n': 1}, 'u': {'$set': {'n': 1}}}]"));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'bad', 'code': 2, 'codeName': 'BadValue', "
			  "'operationTime': 1}");
	play_expect_answer(&play, "{'n': 0, 'writeErrors': [{'index': 0, 'code': 2, 'errmsg': "
				  "'bad'}], 'nModified': 0, 'ok': 1.0, 'operationTime': 1}");
	play_close(&play);
	/* of the command itself */
	play_request(&play, made, VERDICT_REFUSE);
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'type', 'code': 14, 'codeName': 'TypeMismatch'}");
	play_expect_answer(&play,
			   "{'ok': 0.0, 'errmsg': 'type', 'code': 14, 'codeName': 'TypeMismatch'}");
	play_close(&play);
	/* mongod explains one statement: of several each is asked about */
	made.documents = "[{'q': {'n': 1}, 'u': {'$set': {'n': 1}}}, {'q': {}, 'u': {}}]";
	play_request(&play, made, VERDICT_WRITE);
	play_reply(&play, "{'queryPlanner': {}, 'ok': 1.0}");
	play_expect_error(&play, 115, "Spillway rule 'books' on 'shop.books'");
	play_close(&play);
}

Test(sequence, mongods_error_ends_the_clients_transaction)
{
	play_command(&play, FIND_WHERE ", " TRANSACTION ", '$db': 'shop'}", VERDICT_REFUSE);
	play_expect_helper(&play, ASKED(FIND_WHERE));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'bad', 'code': 2}");
	play_end_transaction(&play);
	play_expect_answer(&play, "{'ok': 0.0, 'errmsg': 'bad', 'code': 2}");
	play_close(&play);
}

#define IN_TRANSACTION(more) "{'update': 'books', " TRANSACTION ", " more
#define PULL "'updates': [{'q': {'_id': 1}, 'u': {'$pull': {'f': 1}}}], '$db': 'shop'}"

Test(sequence, one_that_there_is_no_memory_for_fails_and_ends_the_clients_transaction)
{
	play_command(&play, "{'update': 'books', " PULL, VERDICT_WRITE);
	play.outcome = sequence_give_up(play.sequence);
	play_expect_error(&play, 365, SEQUENCE_NO_MEMORY);
	play_close(&play);
	play_command(&play, "{'update': 'books', " LSID ", " NUMBER ", " PULL, VERDICT_WRITE);
	play.outcome = sequence_give_up(play.sequence);
	cr_assert(bytes_contain(play_message(&play).body, "NoWritesPerformed"));
	play_close(&play);
	play_command(&play, IN_TRANSACTION(PULL), VERDICT_WRITE);
	play.outcome = sequence_give_up(play.sequence);
	play.sent_id = load_int32(play.sequence->output.data + 4);
	play_end_transaction(&play);
	play_expect_error(&play, 365, SEQUENCE_NO_MEMORY);
	play_close(&play);
}

/* It may have come compressed. Spillway's own answer is packed as the client's request was. */
Test(sequence, a_frame_of_the_servers_goes_as_it_is_behind_the_end_of_the_transaction)
{
	play_command(&play, IN_TRANSACTION(PULL), VERDICT_WRITE);
	play_reply(&play, "{'n': 0, 'nModified': 0, 'ok': 1.0}");
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'late', 'code': 50}");
	play_end_transaction(&play);
	cr_assert_neq(play.sequence->output.data, play.sequence->buffer.data);
	play_expect_answer(&play, "{'ok': 0.0, 'errmsg': 'late', 'code': 50}");
	play_close(&play);
	play_command(&play, "{'odd': 'books', " TRANSACTION ", '$db': 'shop'}", VERDICT_REFUSE);
	play_end_transaction(&play);
	cr_assert_eq(play.sequence->output.data, play.sequence->buffer.data);
	play_close(&play);
}

#define REFUSED_UPDATE(more) \
	"{'update': 'books', 'updates': [{'q': {'_id': 1}, 'u': {'$set': {'_spill': 1}}}]" more \
	", '$db': 'shop'}"

/* A driver that has lost the reply of its first attempt must not take the write for refused. */
Test(sequence, a_retryable_write_that_is_refused_before_anything_is_sent_says_so)
{
	static const char explained[] = "{'queryPlanner': {}, 'ok': 1.0}";
	static const struct {
		const char *command;
		bool labelled;
	} cases[] = {
		{REFUSED_UPDATE(", " LSID ", " NUMBER), true},
		{REFUSED_UPDATE(", " LSID), false},
		{REFUSED_UPDATE(", " TRANSACTION ", 'startTransaction': true"), false},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		play_command(&play, cases[i].command, VERDICT_REFUSE);
		play_reply(&play, explained);
		play_expect_error(&play, 115, "Spillway rule 'books' on 'shop.books'");
		cr_assert_eq(bytes_contain(play_message(&play).body, "NoWritesPerformed"),
			     cases[i].labelled);
		play_close(&play);
	}
}

Test(sequence, what_changes_a_collection_goes_both_ways_as_it_came)
{
	struct made made = {.body = "{'collMod': 'books', '$db': 'shop'}", .checksum = true};

	play_request(&play, made, VERDICT_WATCH);
	play_expect_forwarded(&play);
	made.body = "{'ok': 1.0}";
	play_reply_made(&play, made);
	play_expect_passed(&play);
	play_close(&play);
	made.body = "{'collMod': 'books', '$db': 'shop'}";
	made.flags = MESSAGE_MORE_TO_COME;
	play_request(&play, made, VERDICT_WATCH);
	cr_assert_eq(play.outcome, SEQUENCE_SEND_LAST);
	play_close(&play);
}

/* An OP_QUERY or OP_GET_MORE of just a header, flags, a namespace, two numbers and a document. */
static struct packet old_packet(enum opcode opcode, const char *namespace, const char *json)
{
	struct frame_header header = {.opcode = opcode, .request_id = PLAY_ID};
	struct bytes document = made_bson(json);
	static const uint8_t zeros[FRAME_HEADER_LENGTH + 4];
	struct buffer frame = {0};

	buffer_append(&frame, zeros, sizeof(zeros));
	buffer_append(&frame, namespace, strlen(namespace) + 1);
	buffer_append(&frame, zeros, 8);
	buffer_append(&frame, document.data, document.length);
	header.length = (int32_t)frame.length;
	frame_store_header(frame.data, &header);
	return made_packet(frame);
}

Test(sequence, older_requests_are_refused_in_their_own_form)
{
	static const struct {
		enum opcode opcode;
		const char *namespace, *document, *field; /* that holds the message */
		int32_t flags;
	} cases[] = {
		{OPCODE_QUERY, "shop.$cmd", "{'drop': 'books_more'}", "errmsg", 0},
		{OPCODE_QUERY, "shop.$cmd", "{'dropDatabase': 1}", "errmsg", 0},
		{OPCODE_QUERY, "shop.books", "{}", "$err", LEGACY_REPLY_QUERY_FAILURE},
		{OPCODE_GET_MORE, "shop.books", "{}", "$err", LEGACY_REPLY_QUERY_FAILURE},
	};
	struct shop shop = shop_open();

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		struct packet packet =
			old_packet(cases[i].opcode, cases[i].namespace, cases[i].document);
		struct sequence_input input = {.now = 1};
		struct sequence *sequence;
		struct legacy_reply reply;
		struct element text, code;
		struct match match;
		int64_t number;

		match_packet(shop.cache, &packet, &match);
		cr_assert_eq(match.verdict, VERDICT_REFUSE);
		sequence = sequence_new(&packet, &match);
		cr_assert_eq(sequence_resume(sequence, &input), SEQUENCE_DONE);
		cr_assert(legacy_reply_parse(sequence->output, &reply));
		cr_assert_eq(reply.header.response_to, PLAY_ID);
		cr_assert_eq(reply.flags, cases[i].flags);
		cr_assert(document_find(reply.document, cases[i].field, &text));
		cr_assert(memmem(text.value.data, text.value.length, "Spillway rule 'books'", 21));
		cr_assert(document_find(reply.document, "code", &code));
		cr_assert(element_integer(&code, &number) && number == 115);
		sequence_free(sequence);
	}
	shop_close(&shop);
}

static struct sequence *ask(struct shop *shop, const char *json, const char *collection)
{
	struct packet packet = made_packet(made_frame(&(struct made){.body = json, .id = PLAY_ID}));
	struct sequence_input input = {.now = 1};
	struct sequence *sequence;
	struct match match;

	match_packet(shop->cache, &packet, &match);
	cr_assert_neq(match.asks_indexes, NULL, "%s", json);
	cr_assert_str_eq(match.asks_indexes->collection, collection);
	sequence = sequence_new_ask(&packet, &match);
	cr_assert_eq(sequence_resume(sequence, &input), SEQUENCE_TEND);
	cr_assert_eq(sequence->match.tending, MOVER_TEND_INDEXES);
	cr_assert(bytes_are(sequence->move.note.collection, collection));
	cr_assert_str_eq(sequence->move.note.rule->name, collection);
	return sequence;
}

Test(sequence, an_index_that_is_not_known_is_looked_up_before_the_command_is_matched)
{
	static const char *const commands[] = {
		"{'find': 'books', 'hint': 'x', '$db': 'shop'}",
		"{'count': 'books', 'hint': {'f.a': -1}, '$db': 'shop'}",
		"{'aggregate': 'books', 'pipeline': [], 'hint': 'x', '$db': 'shop'}",
		"{'delete': 'books', 'deletes': [{'q': {}, 'hint': {'f': 1}}], '$db': 'shop'}",
		"{'findAndModify': 'books', 'remove': true, 'hint': 'x', '$db': 'shop'}",
		"{'collMod': 'books', 'index': {'name': 'x', 'unique': true}, '$db': 'shop'}",
		"{'explain': {'find': 'books', 'hint': 'x'}, '$db': 'shop'}",
		("{'bulkWrite': 1, 'ops': [{'delete': 0, 'filter': {}, 'hint': 'x'}], 'nsInfo': "
		 "[{'ns': 'shop.books'}], '$db': 'admin'}"),
	};
	struct shop shop = shop_open();
	struct sequence *sequence;
	struct sequence_input moved = {.now = 2, .moved = true}, failed = {.now = 2};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		sequence = ask(&shop, commands[i], "books");
		cr_assert_eq(sequence_resume(sequence, &moved), SEQUENCE_AGAIN);
		sequence_free(sequence);
		sequence = ask(&shop, commands[i], "books");
		cr_assert_eq(sequence_resume(sequence, &failed), SEQUENCE_DONE);
		cr_assert_eq(sequence->end.code, ERROR_TEMPORARILY_UNAVAILABLE);
		sequence_free(sequence);
	}
	shop_close(&shop);
}

Test(sequence, keys_apart_from_the_array_and_known_indexes_are_not_looked_up)
{
	static const char *const commands[] = {
		"{'find': 'books', 'hint': {'x': 1}, '$db': 'shop'}",
		"{'find': 'books', 'hint': {'$natural': 1}, '$db': 'shop'}",
		"{'find': 'books', 'hint': '_id_', '$db': 'shop'}",
		"{'find': 'books', 'hint': 'known', '$db': 'shop'}",
		"{'find': 'books', 'hint': {'f.a': {'$numberLong': '1'}}, '$db': 'shop'}",
		"{'find': 'books', 'hint': {}, '$db': 'shop'}",
		"{'find': 'books', '$db': 'shop'}",
		"{'find': 'elsewhere', 'hint': 'x', '$db': 'shop'}",
	};
	struct shop shop = shop_open();
	struct match match;

	known_indexes_take(
		rule_set_indexes(shop.config->rules, bytes_of("shop"), bytes_of("books")),
		made_bson("{'0': {'name': 'known', 'key': {'f.a': 1}}}"));
	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		struct packet packet = made_packet(made_frame(&(struct made){.body = commands[i]}));

		match_packet(shop.cache, &packet, &match);
		cr_assert_eq(match.asks_indexes, NULL, "%s", commands[i]);
		packet_fini(&packet);
	}
	shop_close(&shop);
}

Test(sequence, one_that_was_never_begun_can_be_freed)
{
	struct shop shop = shop_open();
	struct packet packet = made_packet(made_frame(&(struct made){.body = REFUSED}));
	struct match match;

	sequence_free(NULL);
	match_packet(shop.cache, &packet, &match);
	for (int verdict = VERDICT_READ; verdict <= VERDICT_REFUSE; verdict++) {
		struct packet again = made_packet(made_frame(&(struct made){.body = REFUSED}));
		struct sequence *sequence;

		match.verdict = (enum match_verdict)verdict;
		sequence = sequence_new(&again, &match);
		cr_assert(sequence_memory(sequence) > 0);
		sequence_free(sequence);
	}
	packet_fini(&packet);
	shop_close(&shop);
}
