/* Tests rules/write/sequence_find_and_modify.c and sequence_errors.c: the image of a findAndModify
 * is put together. */
#include "tests/unit/play.h"

#define MODIFY(fields) "{'findAndModify': 'books', 'query': {'_id': 7}, " fields ", '$db': 'shop'}"
#define MODIFY_BARE(fields) \
	"{'findAndModify': 'bare', 'query': {'_id': 7}, " fields ", '$db': 'shop'}"
#define PUSH "'update': {'$push': {'f': 6}}"
#define STATE(g) "'_spill': {'f': {'g': " g ", 'h': 2, 'n': 2}}"
#define SPILLED "{'_id': 7, 'f': [1, 2, 5], " STATE(G1) "}"
#define IMAGE(value) \
	"{'lastErrorObject': {'n': 1, 'updatedExisting': true}, 'value': " value ", 'ok': 1.0, " \
	"'operationTime': {'$timestamp': {'t': 5, 'i': 6}}}"
#define ASKS(fields) \
	"{'find': 'books_more', 'filter': {'book': {'$in': [7]}, '_spill.g': {'$in': [" G1 "]}}, " \
	"'sort': {'book': 1, '_spill.i': 1}, 'batchSize': 2147483647, '$db': 'shop', " fields "}"
#define OVERFLOW(documents) \
	"{'cursor': {'firstBatch': [" documents "], 'id': {'$numberLong': '0'}, " \
	"'ns': 'shop.books_more'}, 'ok': 1.0}"
#define BATCH(elements) \
	"{'book': 7, '_spill': {'g': " G1 ", 'p': 0, 'i': 1}, 'more': [" elements "]}"
#define TOO_LARGE "{'ok': 0.0, 'errmsg': 'too large', 'code': 17419, 'codeName': 'Location17419'}"
#define TOO_LARGE_TO_GROW \
	"{'ok': 0.0, 'errmsg': 'too large', 'code': 10334, 'codeName': 'BSONObjectTooLarge'}"

static struct play play;

static void start(const char *command)
{
	play_command(&play, command, VERDICT_FIND_AND_MODIFY);
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
}

static void expect_time(uint32_t second, bool of_cluster)
{
	struct bytes body = play_message(&play).body;
	struct element time, cluster;

	cr_assert(document_find(body, "operationTime", &time));
	cr_assert_eq(time.type, BSON_BYTE_TIMESTAMP);
	cr_assert_eq((uint32_t)load_int32(time.value.data + 4), second);
	cr_assert_eq(document_find(body, "$clusterTime", &cluster), of_cluster);
}

/* What is applied is as new as mongod said, whatever comes behind. */
Test(sequence_find_and_modify, an_error_behind_the_write_tells_its_time)
{
	start(MODIFY(PUSH));
	play_reply(&play, IMAGE(SPILLED));
	play_reply(&play, "{'ok': 0.0, 'code': 96, 'errmsg': 'no', '$clusterTime': {'clusterTime': "
			  "{'$timestamp': {'t': 7, 'i': 1}}}, 'operationTime': {'$timestamp': "
			  "{'t': 6, 'i': 1}}}");
	play_expect_error(&play, 217, "the command was applied");
	expect_time(6, true);
	play_close(&play);
	start(MODIFY(PUSH));
	play_reply(&play, IMAGE(SPILLED));
	play_reply(&play, OVERFLOW("")); /* without a time */
	play_expect_error(&play, 217, "the command was applied");
	expect_time(5, false);
	play_close(&play);
}

Test(sequence_find_and_modify, the_image_is_put_together)
{
	start(MODIFY(PUSH));
	play_expect_forwarded(&play);
	play_reply(&play, IMAGE(SPILLED));
	play_expect_helper(&play, ASKS(NEAREST));
	play_reply(&play, OVERFLOW(BATCH("3, 4")));
	play_expect_answer(&play, IMAGE("{'_id': 7, 'f': [1, 2, 3, 4, 5]}"));
	cr_assert_eq(play.sequence->counts.merged, 1);
	cr_assert_eq(play_notes(&play), 1);
	cr_assert_eq(play.notes[0].reason, MOVER_APPENDED);
	cr_assert_eq(play.notes[0].elements, 1);
	cr_assert_eq(play.notes[0].operation_time.length, 8);
	play_close(&play);
}

/* ---- where nobody knows whether the user may read the overflow ---- */

#define RIGHTS(overflow) \
	"{'find': '" overflow "', 'filter': {'_id': {'$in': []}}, '$db': 'shop', " NEAREST "}"
#define DENIED "{'ok': 0.0, 'errmsg': 'no', 'code': 13, 'codeName': 'Unauthorized'}"

/* Of a document without a state alone. */
#define play_expect_guarded(play) \
	cr_assert(memmem(play_message(play).body.data, play_message(play).body.length, "$exists", \
			 strlen("$exists")))

static void start_unproven(const char *command)
{
	play.unproven = true;
	start(command);
}

Test(sequence_find_and_modify, the_right_to_the_image_is_asked_before_the_write)
{
	start_unproven(MODIFY(PUSH));
	play_expect_helper(&play, RIGHTS("books_more"));
	play_reply(&play, OVERFLOW(""));
	cr_assert(play.sequence->permission.proven);
	play_expect_forwarded(&play);
	play_reply(&play, IMAGE("{'_id': 7, 'f': [1]}"));
	play_expect_passed(&play);
	play_close(&play);
	start_unproven(MODIFY(PUSH));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'no', 'code': 91, 'codeName': 'Shutdown'}");
	cr_assert_not(play.sequence->permission.proven);
	play_expect_forwarded(&play);
	play_close(&play);
}

Test(sequence_find_and_modify, who_may_not_read_the_overflow_leaves_spilled_documents_alone)
{
	static const char *const changes[] = {PUSH, "'update': {'$inc': {'z': 1}}",
					      "'remove': true", "'update': {'z': 1}"};

	for (size_t i = 0; i < ARRAY_LENGTH(changes); i++) {
		char command[200];

		snprintf(command, sizeof(command),
			 "{'findAndModify': 'books', 'query': {'_id': 7}, %s, '$db': 'shop'}",
			 changes[i]);
		start_unproven(command);
		play_reply(&play, DENIED);
		cr_assert_not(play.sequence->permission.proven);
		play_expect_guarded(&play);
		play_reply(&play, "{'lastErrorObject': {'n': 0}, 'value': null, 'ok': 1.0}");
		play_reply(
			&play,
			"{'cursor': {'firstBatch': [{'_id': 7, " STATE(
				G1) "}], "
				    "'id': {'$numberLong': '0'}, 'ns': 'shop.books'}, 'ok': 1.0}");
		play_expect_error(&play, 13, "may not read");
		cr_assert_eq(play_notes(&play), 0);
		play_close(&play);
	}
}

Test(sequence_find_and_modify, who_may_not_read_the_overflow_changes_ordinary_documents)
{
	start_unproven(MODIFY(PUSH));
	play_reply(&play, DENIED);
	play_expect_guarded(&play);
	play_reply(&play, IMAGE("{'_id': 7, 'f': [1]}"));
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_find_and_modify, what_needs_no_right_to_the_overflow_asks_for_none)
{
	start_unproven(MODIFY("'update': {'$inc': {'z': 1}}, 'fields': {'z': 1}"));
	play_expect_forwarded(&play);
	play_close(&play);
	start_unproven(MODIFY(PUSH ", " TRANSACTION)); /* which ends with the error */
	play_expect_forwarded(&play);
	play_close(&play);
}

Test(sequence_find_and_modify, replies_that_need_nothing_pass)
{
	static const char *const replies[] = {
		IMAGE("{'_id': 7, 'f': [1]}"),
		IMAGE("null"),
		"{'ok': 1.0}",
		"{'ok': 0.0, 'errmsg': 'duplicate', 'code': 11000, 'codeName': 'DuplicateKey'}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		start(MODIFY(PUSH));
		play_reply(&play, replies[i]);
		play_expect_passed(&play);
		cr_assert_eq(play_notes(&play), i == 3 ? 0 : 1, "where it was applied");
		play_close(&play);
	}
	start(MODIFY(PUSH));
	play_reply_broken(&play);
	play_expect_passed(&play);
	play_close(&play);
	start(MODIFY(PUSH));
	play_reply_old(&play);
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_find_and_modify, fields_are_completed_and_whole_arrays_take_their_state_with_them)
{
	start(MODIFY_BARE("'update': {'$set': {'f': [9]}, '$inc': {'x': 1}}, 'fields': {'f': 1}, "
			  "'new': true"));
	play_expect_sent(&play, 0,
			 MODIFY_BARE("'update': {'$set': {'f': [9]}, '$inc': {'x': 1}, '$unset': "
				     "{'_spill.f': 1}}, 'fields': {'f': 1, '_spill': 1}, "
				     "'new': true"));
	cr_assert_eq(play.sent_id, PLAY_ID);
	play_reply(&play, IMAGE("{'_id': 7, 'f': [9], '_spill': {}}"));
	play_expect_answer(&play, IMAGE("{'_id': 7, 'f': [9]}"));
	cr_assert_eq(play_notes(&play), 1);
	cr_assert_eq(play.notes[0].reason, MOVER_CHANGED);
	play_close(&play);

	start(MODIFY(PUSH ", 'fields': {'x': 1}"));
	play_expect_forwarded(&play);
	play_close(&play);
}

/* On 6.0.5 an image from mongod's history comes whole, whatever `fields` says. */
Test(sequence_find_and_modify, what_is_merged_is_decided_by_what_comes)
{
	start(MODIFY(PUSH ", 'fields': {'_id': 0, 'f': 1}"));
	play_expect_sent(&play, 0,
			 MODIFY(PUSH ", 'fields': {'f': 1, '_spill.f': 1, '_spill./id': {'$meta': "
				     "'recordId'}}"));
	play_reply(&play,
		   IMAGE("{'_id': 7, 'f': [1, 2, 5], 'has_extras': true, " STATE(G1) ", 'x': 1}"));
	play_reply(&play, OVERFLOW(BATCH("3, 4")));
	play_expect_answer(&play, IMAGE("{'_id': 7, 'f': [1, 2, 3, 4, 5], 'x': 1}"));
	play_close(&play);
}

Test(sequence_find_and_modify, the_other_forms_of_the_request)
{
	struct made made = {.body = MODIFY(PUSH), .flags = MESSAGE_MORE_TO_COME};

	play_request(&play, made, VERDICT_FIND_AND_MODIFY);
	cr_assert_eq(play.outcome, SEQUENCE_SEND_LAST);
	cr_assert_eq(play_notes(&play), 1);
	cr_assert(play.notes[0].unsettled);
	play_close(&play);

	made.body = MODIFY(PUSH ", 'fields': {'f': 1}");
	play_request(&play, made, VERDICT_FIND_AND_MODIFY);
	cr_assert_eq(play.outcome, SEQUENCE_SEND_LAST);
	cr_assert_eq(play_message(&play).flags, MESSAGE_MORE_TO_COME);
	play_close(&play);

	made = (struct made){.body = made.body, .packed = true, .compressor = COMPRESSOR_ZLIB};
	play_request(&play, made, VERDICT_FIND_AND_MODIFY);
	play_expect_sent(&play, 0, MODIFY(PUSH ", 'fields': {'f': 1, '_spill': 1}"));
	play_close(&play);

	start("{'findandmodify': 'books', 'remove': true, '$db': 'shop'}");
	play_reply(&play, IMAGE(SPILLED));
	play_reply(&play, OVERFLOW(BATCH("3, 4")));
	play_expect_answer(&play, IMAGE("{'_id': 7, 'f': [1, 2, 3, 4, 5]}"));
	cr_assert_eq(play_notes(&play), 1);
	cr_assert_eq(play.notes[0].reason, MOVER_DELETED);
	cr_assert_eq(play.notes[0].id_type, BSON_BYTE_INT32, "the image tells the _id");
	play_close(&play);
}

Test(sequence_find_and_modify, each_rule_of_a_namespace_has_its_overflow)
{
	start("{'findAndModify': 'pairs', 'update': {'$push': {'f': 6}}, '$db': 'shop'}");
	play_reply(&play, IMAGE("{'_id': 1, 'f': [1, 2], 'a': {'g': [5]}, '_spill': {'f': {'g': " G1
				", 'h': 2, 'n': 1}, 'a/g': {'g': " G2 ", 'h': 1, 'n': 1}}}"));
	play_reply(&play, OVERFLOW("{'pair': 1, '_spill': {'g': " G1 ", 'p': 0}, 'more': [3]}"));
	play_reply(&play, OVERFLOW("{'of': 1, 'number': 1, '_spill': {'g': " G2
				   ", 'p': 0}, 'rest': [6]}"));
	play_expect_answer(&play, IMAGE("{'_id': 1, 'f': [1, 2, 3], 'a': {'g': [5, 6]}}"));
	cr_assert_eq(play_notes(&play), 2);
	play_close(&play);
}

/* ---- helpers that fail, behind a write that was applied ---- */

static const char *failed(int code, const char *labels)
{
	return made_text("{'ok': 0.0, 'errmsg': 'no', 'code': %d, 'codeName': 'Some'%s}", code,
			 labels);
}

/* The driver sends it again; mongod's history answers. */
Test(sequence_find_and_modify, a_failure_behind_a_retryable_write_is_labelled)
{
	static const int retryable[] = {6,     7,     89,    91,    189, 262, 9001, 10107,
					11600, 11602, 13435, 13436, 50,  112, 134};
	for (size_t i = 0; i < ARRAY_LENGTH(retryable); i++) {
		start(MODIFY(PUSH ", " LSID ", " NUMBER));
		play_reply(&play, IMAGE(SPILLED));
		play_expect_helper(&play, ASKS(LSID ", " NEAREST));
		play_reply(&play, failed(retryable[i], ""));
		play_expect_answer(
			&play, failed(retryable[i], ", 'errorLabels': ['RetryableWriteError']"));
		cr_assert_eq(play_notes(&play), 1);
		play_close(&play);
	}
	start(MODIFY(PUSH ", " LSID ", " NUMBER));
	play_reply(&play, IMAGE(SPILLED));
	play_reply(&play, failed(13, ""));
	play_expect_error(&play, 13, "the user may not read what this command needs");
	play_close(&play);
}

Test(sequence_find_and_modify, labels_of_the_server_stay)
{
	static const char other[] = ", 'errorLabels': ['SystemOverloadedError']";

	start(MODIFY(PUSH ", " LSID ", " NUMBER));
	play_reply(&play, IMAGE(SPILLED));
	play_reply(&play, failed(10107, other));
	play_expect_answer(&play, failed(10107, ", 'errorLabels': ['SystemOverloadedError', "
						"'RetryableWriteError']"));
	play_close(&play);

	start(MODIFY(PUSH));
	play_reply(&play, IMAGE(SPILLED));
	play_reply(&play, failed(10107, other));
	play_expect_error(&play, 217, "the command was applied, but its image can't be read now");
	play_close(&play);

	start(MODIFY(PUSH ", " TRANSACTION));
	play_reply(&play, IMAGE(SPILLED));
	play_expect_helper(&play, ASKS(TRANSACTION));
	play_reply(&play, failed(10107, ", 'errorLabels': ['TransientTransactionError']"));
	play_end_transaction(&play);
	play_expect_answer(&play, failed(10107, ", 'errorLabels': ['TransientTransactionError']"));
	play_close(&play);
}

Test(sequence_find_and_modify, an_image_that_cannot_be_completed_says_that_it_was_applied)
{
	static const struct {
		const char *image, *overflow, *says;
	} cases[] = {
		{IMAGE(SPILLED), OVERFLOW(BATCH("3")), "the array was rewritten meanwhile"},
		{IMAGE(SPILLED), OVERFLOW(""), "the array was rewritten meanwhile"},
		{IMAGE(SPILLED), OVERFLOW("5"), "can't be read; run 'spillway verify'"},
		{IMAGE(SPILLED), "{'ok': 1.0}", "can't be read; run 'spillway verify'"},
		{IMAGE("{'_id': 7, '_spill': {'f': 5}}"), NULL, "can't be read"},
		{IMAGE("{'_id': 7, '_spill': {'gone': {'g': " G1 ", 'h': 1, 'n': 1}}}"), NULL,
		 "can't be read"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		start(MODIFY(PUSH));
		play_reply(&play, cases[i].image);
		if (cases[i].overflow)
			play_reply(&play, cases[i].overflow);
		play_expect_error(&play, 217,
				  "Spillway rule 'books' on 'shop.books': the command was applied");
		play_expect_error(&play, 217, cases[i].says);
		cr_assert_eq(play_notes(&play), 1);
		play_close(&play);
	}
}

Test(sequence_find_and_modify, the_client_s_time_is_used_up)
{
	start(MODIFY(PUSH ", 'maxTimeMS': 100"));
	play.now += 60000;
	play_reply(&play, IMAGE(SPILLED));
	play_expect_helper(&play, ASKS(NEAREST ", 'maxTimeMS': {'$numberLong': '40'}"));
	play_close(&play);
	start(MODIFY(PUSH ", 'maxTimeMS': 100"));
	play.now += 100000;
	play_reply(&play, IMAGE(SPILLED));
	play_expect_error(&play, 217, "the command was applied");
	cr_assert_eq(play_notes(&play), 1);
	play_close(&play);
	start(MODIFY(PUSH ", 'maxTimeMS': 100, " LSID ", " NUMBER));
	play.now += 100000;
	play_reply(&play, IMAGE(SPILLED));
	play_expect_error(&play, 50, "time limit");
	play_close(&play);
}

/* ---- a document too large ---- */

Test(sequence_find_and_modify, a_push_behind_a_move_has_what_is_left_of_the_time)
{
	start(MODIFY(PUSH ", 'maxTimeMS': 100"));
	play_reply(&play, TOO_LARGE);
	play.now += 60000;
	play_moved(&play, true);
	play_expect_sent(&play, 0, MODIFY(PUSH ", 'maxTimeMS': {'$numberLong': '40'}"));
	play_close(&play);
	start(MODIFY(PUSH ", 'maxTimeMS': 100"));
	play_reply(&play, TOO_LARGE);
	play.now += 100000;
	play_moved(&play, true);
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_find_and_modify, a_refused_push_is_sent_again_after_a_move)
{
	static const char *const refusals[] = {TOO_LARGE, TOO_LARGE_TO_GROW};

	for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++) {
		start(MODIFY(PUSH));
		play_reply(&play, refusals[i]);
		cr_assert_eq(play.outcome, SEQUENCE_MOVE);
		cr_assert_str_eq(play.sequence->move.note.rule->name, "books");
		cr_assert_eq(play.sequence->move.note.id_type, BSON_BYTE_INT32);
		play_moved(&play, true);
		play_expect_forwarded(&play);
		play_reply(&play, IMAGE("{'_id': 7}"));
		play_expect_passed(&play);
		cr_assert_eq(play_notes(&play), 1);
		play_close(&play);
	}
	/* once is enough */
	start(MODIFY(PUSH ", 'fields': {'f': 1}"));
	play_reply(&play, TOO_LARGE);
	play_moved(&play, true);
	play_expect_sent(&play, 0, MODIFY(PUSH ", 'fields': {'f': 1, '_spill': 1}"));
	play_reply(&play, TOO_LARGE);
	play_expect_passed(&play);
	cr_assert_eq(play_notes(&play), 0);
	play_close(&play);
	/* it could not be moved */
	start(MODIFY(PUSH));
	play_reply(&play, TOO_LARGE);
	play_moved(&play, false);
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_find_and_modify, each_ruled_array_of_the_document_is_moved)
{
	static const char modify[] = "{'findAndModify': 'pairs', 'query': {'_id': 7}, 'update': "
				     "{'$push': {'a.g': 6}}, '$db': 'shop'}";

	start(modify);
	play_reply(&play, TOO_LARGE);
	cr_assert_str_eq(play.sequence->move.note.rule->name, "first");
	play_moved(&play, false);
	cr_assert_eq(play.outcome, SEQUENCE_MOVE);
	cr_assert_str_eq(play.sequence->move.note.rule->name, "second");
	play_moved(&play, true);
	play_expect_forwarded(&play);
	play_close(&play);
}

Test(sequence_find_and_modify, what_a_move_would_not_help_is_not_moved)
{
	static const char *const commands[] = {
		MODIFY(PUSH ", " TRANSACTION), /* the error has aborted it */
		MODIFY("'update': {'$set': {'f': [1, 2, 3]}}"),
		MODIFY("'update': {'f': [1, 2, 3]}"),
		MODIFY("'remove': true"),
		"{'findAndModify': 'books', 'query': {'x': 1}, " PUSH ", '$db': 'shop'}",
		"{'findAndModify': 'books', " PUSH ", '$db': 'shop'}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		start(commands[i]);
		play_reply(&play, TOO_LARGE);
		play_expect_passed(&play);
		play_close(&play);
	}
}
