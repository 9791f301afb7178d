/* Tests rules/write/sequence_write.c, statements.c, write_result.c, notes.c: inserts, updates,
 * deletes, through every order of replies and moves. */
#include "tests/unit/play.h"

#define PUSH(id) "{'q': {'_id': " #id "}, 'u': {'$push': {'f': " #id "}}}"
#define RESET(id, array) "{'q': {'_id': " #id "}, 'u': {'$set': {'f': " array "}}}"
#define RESET_SENT(id, array) \
	"{'q': {'_id': " #id "}, 'u': {'$set': {'f': " array "}, '$unset': {'_spill.f': 1}}}"
#define UPDATE(statements, fields) \
	"{'update': 'books', 'updates': [" statements "]" fields ", '$db': 'shop'}"
#define UPDATE_BARE(statements, fields) \
	"{'update': 'bare', 'updates': [" statements "]" fields ", '$db': 'shop'}"
#define TOO_LARGE(index) "{'index': " #index ", 'code': 17419, 'errmsg': 'too large'}"
#define TOO_LARGE_TO_GROW(index) "{'index': " #index ", 'code': 10334, 'errmsg': 'too large'}"
#define BAD(index) "{'index': " #index ", 'code': 2, 'errmsg': 'bad'}"
/* An update's reply of mongod's. */
#define RESULT(n, errors, modified) \
	"{'n': " #n ", 'electionId': {'$oid': '7fffffff0000000000000001'}, 'opTime': {'ts': " \
	"{'$timestamp': {'t': 5, 'i': " #n "}}, 't': {'$numberLong': '1'}}, " errors \
	"'nModified': " #modified ", 'ok': 1.0}"
#define ERRORS(errors) "'writeErrors': [" errors "], "

static struct play play;

static void expect_move(const char *rule, const char *id)
{
	const struct mover_note *move = &play.sequence->move.note;
	struct bytes expected = made_bson(id);
	struct element element;

	cr_assert_eq(play.outcome, SEQUENCE_MOVE, "%d", play.outcome);
	cr_assert_str_eq(move->rule->name, rule);
	cr_assert(bytes_are(move->database, "shop"));
	cr_assert_eq(move->reason, MOVER_APPENDED);
	cr_assert(document_find(expected, "_id", &element));
	cr_assert_eq(move->id_type, element.type);
	cr_assert(bytes_equal(move->id, element.value));
}

/* ---- the command ---- */

Test(sequence_write, a_push_goes_as_it_came_and_so_does_its_reply)
{
	static const char *const replies[] = {
		RESULT(1, "", 1),
		RESULT(0, ERRORS(BAD(0)), 0),
		"{'ok': 0.0, 'errmsg': 'no', 'code': 13, 'codeName': 'Unauthorized'}",
		"{'ok': 1.0}", /* to w: 0 */
		"{'ok': 1.0, 'writeErrors': 5}",
		"{'ok': 1.0, 'writeErrors': [5, {'code': 'x'}]}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		play_command(&play, UPDATE(PUSH(1), ", 'writeConcern': {'w': 1}"), VERDICT_WRITE);
		play_expect_forwarded(&play);
		play_reply(&play, replies[i]);
		play_expect_passed(&play);
		play_close(&play);
	}
	play_command(&play, UPDATE(PUSH(1), ""), VERDICT_WRITE);
	play_reply_broken(&play);
	play_expect_passed(&play);
	cr_assert_eq(play_notes(&play), 0);
	play_close(&play);
	play_command(&play, UPDATE(PUSH(1), ""), VERDICT_WRITE);
	play_reply_old(&play);
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_write, whole_arrays_take_their_state_with_them_in_the_body)
{
	play_command(&play,
		     UPDATE_BARE(PUSH(1) ", " RESET(
					 2, "[]") ", {'q': {}, 'u': {'$unset': {'f': 1}}, "
						  "'multi': true, 'collation': {'locale': 'de'}}",
				 ", 'ordered': false, 'comment': 'c', " LSID ", " NUMBER
				 ", 'stmtIds': [4, 5, 6], 'maxTimeMS': 9"),
		     VERDICT_WRITE);
	play_expect_sent(
		&play, 0,
		UPDATE_BARE(PUSH(1) ", " RESET_SENT(2, "[]") ", {'q': {}, 'u': {'$unset': {'f': "
							     "1, '_spill.f': 1}}, "
							     "'multi': true, 'collation': "
							     "{'locale': 'de'}}",
			    ", 'ordered': false, 'comment': 'c', " LSID ", " NUMBER
			    ", 'stmtIds': [4, 5, 6], 'maxTimeMS': 9"));
	cr_assert_eq(play.sent_id, PLAY_ID);
	play_reply(&play, RESULT(2, "", 2));
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_write, whole_arrays_take_their_state_with_them_in_a_sequence)
{
	struct made made = {.body = "{'update': 'bare', 'ordered': true, '$db': 'shop'}",
			    .sequence = "updates",
			    .documents = "[" PUSH(1) ", " RESET(2, "5") "]",
			    .checksum = true};

	play_request(&play, made, VERDICT_WRITE);
	play_expect_sent(&play, 0, made.body);
	play_expect_documents(&play, "updates", "[" PUSH(1) ", " RESET_SENT(2, "5") "]");
	play_reply(&play, RESULT(2, "", 2));
	play_expect_passed(&play);
	play_close(&play);

	made.packed = true;
	made.compressor = COMPRESSOR_ZSTD;
	play_request(&play, made, VERDICT_WRITE);
	play_expect_documents(&play, "updates", "[" PUSH(1) ", " RESET_SENT(2, "5") "]");
	play_close(&play);
}

Test(sequence_write, unacknowledged_writes_end_when_they_are_sent)
{
	struct made made = {.body = UPDATE(PUSH(1), ", 'writeConcern': {'w': 0}"),
			    .flags = MESSAGE_MORE_TO_COME};

	play_request(&play, made, VERDICT_WRITE);
	cr_assert_eq(play.outcome, SEQUENCE_SEND_LAST);
	cr_assert(bytes_equal(play.sequence->output, play.request));
	cr_assert_eq(play_notes(&play), 1);
	cr_assert(play.notes[0].unsettled);
	play_close(&play);

	made.body = UPDATE_BARE(RESET(1, "[]"), "");
	play_request(&play, made, VERDICT_WRITE);
	cr_assert_eq(play.outcome, SEQUENCE_SEND_LAST);
	cr_assert_eq(play_message(&play).flags, MESSAGE_MORE_TO_COME);
	made_expect(play_message(&play).body, UPDATE_BARE(RESET_SENT(1, "[]"), ""));
	cr_assert_eq(play_notes(&play), 1);
	play_close(&play);
}

/* ---- what the mover is told ---- */

Test(sequence_write, a_write_cut_before_its_reply_may_have_been_done)
{
	play_command(&play, UPDATE(PUSH(1), ""), VERDICT_WRITE);
	cr_assert_eq(play_notes(&play), 0, "nothing is known yet");
	cr_assert_eq(play_cut(&play), 1);
	cr_assert_eq(play.notes[0].reason, MOVER_APPENDED);
	cr_assert(play.notes[0].unsettled);
	play_close(&play);
}

struct noted {
	const char *command;
	size_t count;
	enum mover_reason reason; /* of the first note */
	const char *id;           /* {_id: ...}, or NULL: the filter */
	const char *filter;
	int64_t elements;
};

static void expect_note(const struct noted *noted)
{
	const struct mover_note *note = play.notes;
	struct bytes expected;
	struct element id;

	cr_assert_eq(play_notes(&play), noted->count, "%s: %zu", noted->command, play.note_count);
	if (noted->count == 0)
		return;
	cr_expect_eq(note->reason, noted->reason, "%s: %d", noted->command, note->reason);
	cr_expect_eq(note->elements, noted->elements, "%s", noted->command);
	cr_expect_str_eq(note->rule->name, "books");
	cr_expect(bytes_are(note->database, "shop") && bytes_are(note->collection, "books"));
	cr_expect_eq(note->id_type != 0, noted->id != NULL, "%s", noted->command);
	if (noted->id) {
		expected = made_bson(noted->id);
		cr_assert(document_find(expected, "_id", &id));
		cr_expect_eq(id.type, note->id_type, "%s", noted->command);
		cr_expect(bytes_equal(id.value, note->id), "%s", noted->command);
	}
	if (noted->filter)
		made_expect(note->filter, noted->filter);
	else
		cr_expect_eq(note->filter.length, 0, "%s", noted->command);
}

#define INSERT(documents) "{'insert': 'books', 'documents': [" documents "], '$db': 'shop'}"
#define DELETE(q) "{'delete': 'books', 'deletes': [{'q': " q ", 'limit': 0}], '$db': 'shop'}"
#define ONE(q, u) UPDATE("{'q': " q ", 'u': " u "}", "")
#define APPEND "{'$push': {'f': 1}}"

Test(sequence_write, the_mover_is_told_what_happened_to_which_document)
{
	static const struct noted cases[] = {
		{ONE("{'_id': 5}", APPEND), 1, MOVER_APPENDED, "{'_id': 5}", NULL, 1},
		{ONE("{'_id': 5, 'x': 1}", "{'$push': {'f': {'$each': [1, 2, 3]}}}"), 1,
		 MOVER_APPENDED, "{'_id': 5}", NULL, 3},
		{ONE("{'_id': 5}", "{'$set': {'f': [1]}}"), 1, MOVER_CHANGED, "{'_id': 5}", NULL,
		 0},
		{ONE("{'_id': 5}", "{'f': [1]}"), 1, MOVER_CHANGED, "{'_id': 5}", NULL, 0},
		{ONE("{'_id': 5}", "{'$setOnInsert': {'f': [1, 2, 3]}}"), 1, MOVER_APPENDED,
		 "{'_id': 5}", NULL, 0},
		/* which document */
		{ONE("{'_id': {'$eq': 'a'}}", APPEND), 1, MOVER_APPENDED, "{'_id': 'a'}", NULL, 1},
		{ONE("{'_id': {'$gt': 1, '$eq': 5}}", APPEND), 1, MOVER_APPENDED, "{'_id': 5}",
		 NULL, 1},
		{ONE("{'$and': [{'x': 1}, {'_id': 5}]}", APPEND), 1, MOVER_APPENDED, "{'_id': 5}",
		 NULL, 1},
		{ONE("{'_id': {'a': 1, '$eq': 5}}", APPEND), 1, MOVER_APPENDED,
		 "{'_id': {'a': 1, '$eq': 5}}", NULL, 1},
		{ONE("{'_id': {}}", APPEND), 1, MOVER_APPENDED, "{'_id': {}}", NULL, 1},
		{ONE("{'_id': null}", APPEND), 1, MOVER_APPENDED, "{'_id': null}", NULL, 1},
		{ONE("{'_id': {'$in': [5]}}", APPEND), 1, MOVER_APPENDED, NULL,
		 "{'_id': {'$in': [5]}}", 1},
		{ONE("{'_id': [5]}", APPEND), 1, MOVER_APPENDED, NULL, "{'_id': [5]}", 1},
		{ONE("{'$or': [{'_id': 5}]}", APPEND), 1, MOVER_APPENDED, NULL,
		 "{'$or': [{'_id': 5}]}", 1},
		{ONE("{'$and': 5}", APPEND), 1, MOVER_APPENDED, NULL, "{'$and': 5}", 1},
		{ONE("{'_id': {'$regularExpression': {'pattern': 'a', 'options': ''}}}", APPEND), 1,
		 MOVER_APPENDED, NULL,
		 "{'_id': {'$regularExpression': {'pattern': 'a', 'options': ''}}}", 1},
		{UPDATE("{'q': {'_id': 'a'}, 'u': " APPEND ", 'collation': {'locale': 'de'}}", ""),
		 1, MOVER_APPENDED, NULL, "{'_id': 'a'}", 1},
		{UPDATE("{'q': {'_id': {'a': 'b'}}, 'u': " APPEND
			", 'collation': {'locale': 'de'}}",
			""),
		 1, MOVER_APPENDED, NULL, "{'_id': {'a': 'b'}}", 1},
		{UPDATE("{'q': {'_id': 5}, 'u': " APPEND ", 'collation': {'locale': 'de'}}", ""), 1,
		 MOVER_APPENDED, "{'_id': 5}", NULL, 1},
		/* statements that matter and others */
		{UPDATE("{'q': {'_id': 1}, 'u': {'$set': {'x': 1}}}, " PUSH(2) ", " PUSH(3), ""), 2,
		 MOVER_APPENDED, "{'_id': 2}", NULL, 1},
		{INSERT("{'_id': 1}, {'_id': 2, 'f': [1, 2, 3]}"), 1, MOVER_CHANGED, "{'_id': 2}",
		 NULL, 0},
		{INSERT("{'f': [1, 2, 3]}"), 1, MOVER_SOMEWHERE, NULL, NULL, 0},
		{DELETE("{'_id': 5}"), 1, MOVER_DELETED, "{'_id': 5}", NULL, 0},
		{DELETE("{'x': 5}"), 0, 0, NULL, NULL, 0},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		play_command(&play, cases[i].command, VERDICT_WRITE);
		play_reply(&play, "{'n': 1, 'ok': 1.0}");
		expect_note(&cases[i]);
		play_close(&play);
	}
}

Test(sequence_write, notes_tell_the_time_and_whether_they_can_be_seen)
{
	static const uint8_t time[] = {6, 0, 0, 0, 5, 0, 0, 0};
	static const char reply[] =
		"{'n': 1, 'ok': 1.0, 'operationTime': {'$timestamp': {'t': 5, 'i': 6}}}";

	play_command(&play, UPDATE(PUSH(1), ""), VERDICT_WRITE);
	play_reply(&play, reply);
	cr_assert_eq(play_notes(&play), 1);
	cr_assert(bytes_equal(play.notes[0].operation_time, (struct bytes){time, sizeof(time)}));
	cr_assert_not(play.notes[0].unsettled);
	play_close(&play);

	play_command(&play, UPDATE(PUSH(1), ", " TRANSACTION), VERDICT_WRITE);
	play_reply(&play, reply);
	cr_assert_eq(play_notes(&play), 1);
	cr_assert(play.notes[0].unsettled);
	play_close(&play);

	play_command(&play, UPDATE(PUSH(1), ""), VERDICT_WRITE);
	play_reply(&play, "{'ok': 0.0, 'code': 13, 'errmsg': 'no'}");
	cr_assert_eq(play_notes(&play), 0);
	play_close(&play);

	play_command(
		&play,
		"{'update': 'pairs', 'updates': [{'q': {'_id': 1}, 'u': {'$push': {'a.g': 1}}}], "
		"'$db': 'shop'}",
		VERDICT_WRITE);
	play_reply(&play, reply);
	cr_assert_eq(play_notes(&play), 2, "each rule looks for itself");
	cr_assert_str_eq(play.notes[0].rule->name, "first");
	cr_assert_str_eq(play.notes[1].rule->name, "second");
	play_close(&play);
}

/* ---- a document too large: its tail is moved, the statement sent once more ---- */

Test(sequence_write, a_single_refused_push_is_sent_again_after_a_move)
{
	play_command(&play, UPDATE(PUSH(1), ", " LSID ", " NUMBER), VERDICT_WRITE);
	play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	expect_move("books", "{'_id': 1}");
	play_moved(&play, true);
	play_expect_sent(&play, 0,
			 "{'update': 'books', 'updates': [" PUSH(
				 1) "], " LSID ", " NUMBER ", '$db': 'shop', 'stmtIds': [0]}");
	play_reply(&play, RESULT(1, "", 1));
	play_expect_answer(&play, RESULT(1, "", 1));
	cr_assert_eq(play_notes(&play), 1);
	play_close(&play);
}

Test(sequence_write, in_order_the_rest_goes_out_from_the_refused_one_on)
{
	play_command(&play,
		     UPDATE(PUSH(0) ", " PUSH(1) ", " PUSH(2) ", " PUSH(3),
			    ", " LSID ", " NUMBER ", 'comment': 'c'"),
		     VERDICT_WRITE);
	play_reply(&play, RESULT(1, ERRORS(TOO_LARGE(1)), 1));
	expect_move("books", "{'_id': 1}");
	play_moved(&play, true);
	play_expect_sent(&play, 0,
			 "{'update': 'books', 'updates': [" PUSH(1) ", " PUSH(2) ", " PUSH(
				 3) "], " LSID ", " NUMBER
				    ", 'comment': 'c', '$db': 'shop', 'stmtIds': [1, 2, 3]}");
	play_reply(&play, RESULT(2, ERRORS(TOO_LARGE_TO_GROW(2)), 2));
	expect_move("books", "{'_id': 3}");
	play_moved(&play, true);
	play_expect_sent(&play, 0,
			 "{'update': 'books', 'updates': [" PUSH(
				 3) "], " LSID ", " NUMBER
				    ", 'comment': 'c', '$db': 'shop', 'stmtIds': [3]}");
	play_reply(&play, RESULT(1, "", 1));
	play_expect_answer(&play, "{'n': 4, 'electionId': {'$oid': '7fffffff0000000000000001'}, "
				  "'opTime': {'ts': {'$timestamp': {'t': 5, 'i': 1}}, 't': "
				  "{'$numberLong': '1'}}, 'nModified': 4, 'ok': 1.0}");
	cr_assert_eq(play_notes(&play), 4);
	play_close(&play);
}

Test(sequence_write, an_order_that_is_null_is_that_of_the_statements)
{
	play_command(&play, UPDATE(PUSH(0) ", " PUSH(1), ", 'ordered': null"), VERDICT_WRITE);
	play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	play_moved(&play, true);
	play_expect_sent(&play, 0,
			 "{'update': 'books', 'updates': [" PUSH(0) ", " PUSH(
				 1) "], 'ordered': null, '$db': 'shop'}");
	play_reply(&play, RESULT(0, ERRORS(BAD(0)), 0));
	play_expect_answer(&play, RESULT(0, ERRORS(BAD(0)), 0));
	play_close(&play);
}

Test(sequence_write, out_of_order_only_the_refused_ones_go_out_again)
{
	play_command(&play,
		     UPDATE(PUSH(0) ", " PUSH(1) ", " PUSH(2) ", " PUSH(3), ", 'ordered': false"),
		     VERDICT_WRITE);
	play_reply(&play, RESULT(1, ERRORS(TOO_LARGE(0) ", " BAD(1) ", " TOO_LARGE(3)), 1));
	expect_move("books", "{'_id': 0}");
	play_moved(&play, true);
	play_expect_sent(&play, 0,
			 "{'update': 'books', 'updates': [" PUSH(0) "], 'ordered': false, '$db': "
								    "'shop'}");
	play_reply(&play, RESULT(1, "", 0));
	expect_move("books", "{'_id': 3}");
	play_moved(&play, true);
	play_expect_sent(&play, 0,
			 "{'update': 'books', 'updates': [" PUSH(3) "], 'ordered': false, '$db': "
								    "'shop'}");
	play_reply(&play, RESULT(1, "", 1));
	play_expect_answer(&play,
			   "{'n': 3, 'electionId': {'$oid': '7fffffff0000000000000001'}, "
			   "'opTime': {'ts': {'$timestamp': {'t': 5, 'i': 1}}, 't': "
			   "{'$numberLong': '1'}}, 'writeErrors': [" BAD(1) "], 'nModified': "
									    "2, 'ok': 1.0}");
	play_close(&play);
}

Test(sequence_write, the_rest_of_a_document_sequence_is_one_too)
{
	struct made made = {.body = "{'update': 'bare', " LSID ", " NUMBER
				    ", 'stmtId': 10, '$db': 'shop'}",
			    .sequence = "updates",
			    .documents = "[" PUSH(0) ", " PUSH(1) ", " RESET(2, "[]") "]",
			    .packed = true,
			    .compressor = COMPRESSOR_SNAPPY};

	play_request(&play, made, VERDICT_WRITE);
	play_expect_documents(&play, "updates",
			      "[" PUSH(0) ", " PUSH(1) ", " RESET_SENT(2, "[]") "]");
	made_expect(play_message(&play).body, made.body);
	play_reply(&play, RESULT(1, ERRORS(TOO_LARGE(1)), 1));
	expect_move("bare", "{'_id': 1}");
	play_moved(&play, true);
	play_expect_sent(&play, 0,
			 "{'update': 'bare', " LSID ", " NUMBER
			 ", '$db': 'shop', 'stmtIds': [11, 12]}");
	play_expect_documents(&play, "updates", "[" PUSH(1) ", " RESET_SENT(2, "[]") "]");
	play_reply(&play, RESULT(2, "", 2));
	play_expect_answer(&play, "{'n': 3, 'electionId': {'$oid': '7fffffff0000000000000001'}, "
				  "'opTime': {'ts': {'$timestamp': {'t': 5, 'i': 2}}, 't': "
				  "{'$numberLong': '1'}}, 'nModified': 3, 'ok': 1.0}");
	play_close(&play);
}

Test(sequence_write, the_rest_keeps_the_client_s_own_statement_ids_and_what_is_left_of_its_time)
{
	play_command(&play,
		     UPDATE(PUSH(0) ", " PUSH(1),
			    ", 'stmtIds': [7, 30], 'maxTimeMS': 900, " LSID ", " NUMBER),
		     VERDICT_WRITE);
	play_reply(&play, RESULT(1, ERRORS(TOO_LARGE(1)), 1));
	play.now += 100000;
	play_moved(&play, true);
	play_expect_sent(&play, 0,
			 "{'update': 'books', 'updates': [" PUSH(
				 1) "], " LSID ", " NUMBER ", '$db': 'shop', 'stmtIds': [30], "
				    "'maxTimeMS': {'$numberLong': '800'}}");
	play_close(&play);

	play_command(&play, UPDATE(PUSH(0) ", " PUSH(1), ", 'maxTimeMS': 900"), VERDICT_WRITE);
	play_reply(&play, RESULT(1, ERRORS(TOO_LARGE(1)), 1));
	play.now += 900000;
	play_moved(&play, true);
	play_expect_answer(&play, RESULT(1, ERRORS(TOO_LARGE(1)), 1));
	play_close(&play);
}

Test(sequence_write, indexes_of_later_replies_are_the_client_s)
{
	play_command(&play, UPDATE(PUSH(0) ", " PUSH(1) ", " PUSH(2) ", " PUSH(3), ""),
		     VERDICT_WRITE);
	play_reply(&play, RESULT(1,
				 "'writeErrors': [" TOO_LARGE(1) "], 'upserted': [{'index': 0, "
								 "'_id': 0}], ",
				 0));
	play_moved(&play, true);
	play_reply(&play, RESULT(2,
				 "'writeErrors': [" BAD(2) "], 'upserted': [{'index': 1, '_id': "
							   "2}, {'index': 0, '_id': 1}], ",
				 0));
	play_expect_answer(
		&play, "{'n': 3, 'electionId': {'$oid': '7fffffff0000000000000001'}, "
		       "'opTime': {'ts': {'$timestamp': {'t': 5, 'i': 2}}, 't': "
		       "{'$numberLong': '1'}}, 'writeErrors': [" BAD(
			       3) "], 'upserted': "
				  "[{'index': 0, '_id': 0}, {'index': 1, '_id': 1}, {'index': 2, "
				  "'_id': 2}], 'nModified': 0, 'ok': 1.0}");
	play_close(&play);
}

Test(sequence_write, where_nothing_moves_the_error_stands)
{
	play_command(&play, UPDATE(PUSH(0) ", " PUSH(1), ""), VERDICT_WRITE);
	play_reply(&play, RESULT(1, ERRORS(TOO_LARGE(1)), 1));
	play_moved(&play, false);
	play_expect_answer(&play, RESULT(1, ERRORS(TOO_LARGE(1)), 1));
	cr_assert_eq(play_notes(&play), 2);
	play_close(&play);

	/* the next refused one has its turn nevertheless */
	play_command(&play, UPDATE(PUSH(0) ", " PUSH(1), ", 'ordered': false"), VERDICT_WRITE);
	play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0) ", " TOO_LARGE(1)), 0));
	expect_move("books", "{'_id': 0}");
	play_moved(&play, false);
	expect_move("books", "{'_id': 1}");
	play_moved(&play, true);
	play_reply(&play, RESULT(1, "", 1));
	play_expect_answer(&play, RESULT(1, ERRORS(TOO_LARGE(0)), 1));
	play_close(&play);

	/* once is enough */
	play_command(&play, UPDATE(PUSH(0), ""), VERDICT_WRITE);
	play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	play_moved(&play, true);
	play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	play_expect_answer(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	play_close(&play);
}

Test(sequence_write, each_ruled_array_of_the_document_is_moved)
{
	static const char update[] =
		"{'update': 'pairs', 'updates': [{'q': {'_id': 1}, 'u': {'$push': {'a.g': 1}}}], "
		"'$db': 'shop'}";

	play_command(&play, update, VERDICT_WRITE);
	play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	expect_move("first", "{'_id': 1}");
	play_moved(&play, false);
	expect_move("second", "{'_id': 1}");
	play_moved(&play, true);
	play_expect_sent(&play, 0, update);
	play_close(&play);

	play_command(&play, update, VERDICT_WRITE);
	play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	play_moved(&play, true);
	play_moved(&play, false);
	play_expect_sent(&play, 0, update);
	play_close(&play);

	play_command(&play, update, VERDICT_WRITE);
	play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	play_moved(&play, false);
	play_moved(&play, false);
	play_expect_answer(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	play_close(&play);
}

Test(sequence_write, what_a_move_would_not_help_is_not_moved)
{
	static const char *const commands[] = {
		UPDATE(PUSH(0), ", " TRANSACTION), /* the error has aborted it */
		UPDATE("{'q': {'x': 1}, 'u': {'$push': {'f': 1}}}", ""),
		UPDATE(RESET(0, "[1]"), ""),
		UPDATE("{'q': {'_id': 0}, 'u': {'f': [1, 2, 3]}}", ""),
		INSERT("{'_id': 0, 'f': [1, 2, 3]}"),
	};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		play_command(&play, commands[i], VERDICT_WRITE);
		play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
		play_expect_answer(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
		play_close(&play);
	}
	/* an error for a statement that there isn't */
	play_command(&play, UPDATE(PUSH(0), ""), VERDICT_WRITE);
	play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(5)), 0));
	play_expect_answer(&play, RESULT(0, ERRORS(TOO_LARGE(5)), 0));
	play_close(&play);
}

/* ---- the rest fails ---- */

static void start_rest(int n)
{
	play_command(&play, UPDATE(PUSH(0) ", " PUSH(1), ", " LSID ", " NUMBER), VERDICT_WRITE);
	if (n > 0)
		play_reply(&play, RESULT(1, ERRORS(TOO_LARGE(1)), 1));
	else
		play_reply(&play, RESULT(0, ERRORS(TOO_LARGE(0)), 0));
	play_moved(&play, true);
}

Test(sequence_write, an_error_of_the_rest_is_the_command_s)
{
#define STEPPED_DOWN(labels) \
	"{'ok': 0.0, 'errmsg': 'stepped down', 'code': 189, 'codeName': 'PrimarySteppedDown', " \
	"'topologyVersion': {'counter': {'$numberLong': '6'}}" labels "}"
	static const char labelled[] =
		STEPPED_DOWN(", 'errorLabels': ['RetryableWriteError', 'NoWritesPerformed']");

	start_rest(1);
	play_reply(&play, labelled);
	play_expect_answer(&play, STEPPED_DOWN(", 'errorLabels': ['RetryableWriteError']"));
	cr_assert_eq(play_notes(&play), 2);
	play_close(&play);

	start_rest(0);
	play_reply(&play, labelled);
	play_expect_answer(&play, labelled);
	play_close(&play);

	start_rest(1);
	play_reply(&play, STEPPED_DOWN(", 'errorLabels': ['NoWritesPerformed']"));
	play_expect_answer(&play, STEPPED_DOWN(""));
	play_close(&play);

	start_rest(1);
	play_reply(&play, STEPPED_DOWN(", 'errorLabels': 5"));
	play_expect_answer(&play, STEPPED_DOWN(""));
	play_close(&play);
}

Test(sequence_write, a_reply_of_the_rest_that_cannot_be_read_goes_on)
{
	start_rest(1);
	play_reply_broken(&play);
	play_expect_passed(&play);
	play_close(&play);
	start_rest(1);
	play_reply_old(&play);
	play_expect_passed(&play);
	play_close(&play);
	start_rest(1);
	play_reply(&play, "{'n': 'x', 'ok': 1.0}");
	play_expect_passed(&play);
	play_close(&play);
	start_rest(1);
	play_reply(&play, "{'n': 1, 'upserted': [{}], 'ok': 1.0}");
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_write, the_last_reply_lends_what_is_not_counted)
{
	start_rest(1);
	play_reply(&play, "{'n': 1, 'opTime': {'t': 2}, 'retriedStmtIds': [1], 'nModified': 1, "
			  "'writeConcernError': {'code': 64, 'errmsg': 'late'}, 'ok': 1.0, "
			  "'operationTime': {'$timestamp': {'t': 9, 'i': 9}}}");
	play_expect_answer(&play,
			   "{'n': 2, 'opTime': {'t': 2}, 'retriedStmtIds': [1], 'nModified': 2, "
			   "'writeConcernError': {'code': 64, 'errmsg': 'late'}, 'ok': "
			   "1.0, 'operationTime': {'$timestamp': {'t': 9, 'i': 9}}}");
	play_close(&play);
}
