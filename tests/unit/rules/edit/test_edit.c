/* Tests rules/edit, except edit_search.c, and rewrite.c: writes for which an array has to be whole,
 * command by command. */
#include "tests/unit/play.h"

#include "rules/sequence/sequence_inner.h"

#define EDIT "{'$set': {'f.0': 9}}"
#define WITHOUT_STATE "{'_spill': {'$exists': false}}"
#define NEVER "{'_id': {'$in': []}}"
#define STATEMENT(q, more) "{'q': " q ", 'u': " EDIT more "}"
#define UPDATE(statements, more) \
	"{'update': 'books', 'updates': [" statements "]" more ", '$db': 'shop'}"
#define RETRYABLE "'lsid': {'id': 1}, 'txnNumber': {'$numberLong': '7'}"
#define GUARDED(q) "{'$and': [" q ", " WITHOUT_STATE "]}"
/* A part of the client's command: the ids of its statements come last. */
#define BEFORE_IDS(statements, more, ids) \
	"{'update': 'books', 'updates': [" statements "]" more ", '$db': 'shop', 'stmtIds': [" ids \
	"]}"
#define ONE UPDATE(STATEMENT("{'_id': 1}", ""), "")
#define E0 UPDATE(STATEMENT(GUARDED("{'_id': 1}"), ""), "")
#define FIND(filter, options, fields) \
	"{'find': 'books', 'filter': " filter ", 'projection': {'_id': 1, '_spill': 1}" options \
	", '$db': 'shop', " fields "}"
#define LOOK(q) "{'$and': [{'_id': {'$eq': 1}}, " q "]}"
#define E1 FIND(LOOK("{'_id': 1}"), ", 'limit': 1", NEAREST)
#define RESULT(n) "{'n': " #n ", 'nModified': " #n ", 'ok': 1.0}"
#define FOUND(documents) CURSOR(documents, "0")
#define CURSOR(documents, id) \
	"{'cursor': {'firstBatch': [" documents "], 'id': {'$numberLong': '" id \
	"'}, 'ns': 'shop.books'}, 'ok': 1.0}"
#define NEXT(documents, id) \
	"{'cursor': {'nextBatch': [" documents "], 'id': {'$numberLong': '" id \
	"'}, 'ns': 'shop.books'}, 'ok': 1.0}"
#define STATE "{'f': {'g': " G1 ", 'h': 2, 'n': 3}}"
#define SPILLED "{'_id': 1, '_spill': " STATE "}"
#define FETCH(fields) \
	"{'find': 'books_more', 'filter': {'book': {'$in': [1]}, '_spill.g': {'$in': [" G1 "]}}, " \
	"'sort': {'book': 1, '_spill.i': 1}, 'batchSize': 2147483647, '$db': 'shop', " fields "}"
#define BATCH(i, p, elements) \
	"{'book': 1, '_spill': {'g': " G1 ", 'p': " #p ", 'i': " #i "}, 'more': [" elements "]}"
#define I2(fields) \
	"{'update': 'books', 'updates': [{'q': {'_id': 1, '_spill': {'$eq': " STATE "}}, 'u': " \
	"{'$push': {'f': {'$each': [3, 4, 5], '$position': 2}}, '$unset': {'_spill': 1, " \
	"'has_extras': 1}}}], '$db': 'shop', 'writeConcern': {'w': 1}" fields "}"

static struct play play;

static void start(const char *command)
{
	play_command(&play, command, VERDICT_WRITE);
}

static void expect_pause(void)
{
	cr_assert_eq(play.outcome, SEQUENCE_PAUSE, "%d", play.outcome);
	cr_assert(play.sequence->pause >= 5 && play.sequence->pause <= 50, "%u",
		  play.sequence->pause);
	play_resume(&play, NULL, false);
}

static void expect_note(enum mover_reason reason)
{
	cr_assert_eq(play_notes(&play), 1, "%zu", play.note_count);
	cr_assert_eq(play.notes[0].reason, reason, "%d", play.notes[0].reason);
	cr_assert_eq(load_int32(play.notes[0].id.data), 1);
}

/* From E1 to I2's reply. */
static void fold(const char *reply)
{
	play_expect_helper(&play, E1);
	play_reply(&play, FOUND(SPILLED));
	play_expect_helper(&play, FETCH(NEAREST));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
	play_expect_helper(&play, I2(""));
	play_reply(&play, reply);
}

/* ---- one document that the filter names ---- */

Test(edit, a_whole_array_takes_one_command)
{
	start(ONE);
	play_expect_sent(&play, 0, E0);
	cr_assert_eq(play.sent_id, PLAY_ID);
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(1));
	expect_note(MOVER_EDITED);
	play_close(&play);
}

Test(edit, what_matches_nothing_is_answered_by_the_write)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	play_expect_helper(&play, E1);
	play_reply(&play, FOUND(""));
	play_expect_sent(
		&play, 0,
		UPDATE(STATEMENT("{'$and': [{'_id': 1}, " NEVER ", " WITHOUT_STATE "]}", ""), ""));
	play_reply(&play, RESULT(0));
	play_expect_answer(&play, RESULT(0));
	play_close(&play);
}

Test(edit, what_a_retryable_write_finds_gone_its_own_history_may_know)
{
	start(UPDATE(STATEMENT("{'_id': 1}", ""), ", " RETRYABLE));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND("")); /* another attempt has done it meanwhile */
	play_expect_sent(
		&play, 0,
		BEFORE_IDS(STATEMENT("{'$and': [{'_id': 1}, " NEVER ", " WITHOUT_STATE "]}", ""),
			   ", " RETRYABLE, "0"));
	play_reply(&play, "{'n': 1, 'retriedStmtIds': [0], 'nModified': 1, 'ok': 1.0}");
	play_expect_answer(&play, "{'n': 1, 'retriedStmtIds': [0], 'nModified': 1, 'ok': 1.0}");
	play_close(&play);
}

/* From E1 to I2, which nobody answers. */
static void begin_fold(void)
{
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
	play_expect_helper(&play, I2(""));
}

Test(edit, an_edit_cut_in_its_fold_tells_the_mover)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	begin_fold();
	cr_assert_eq(play_notes(&play), 0, "nothing is known yet");
	cr_assert_eq(play_cut(&play), 1, "%zu", play.note_count);
	cr_assert_eq(play.notes[0].reason, MOVER_EDITED);
	cr_assert(play.notes[0].unsettled);
	play_close(&play);
}

Test(edit, a_document_that_is_whole_by_now_is_written_once_more)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	play_expect_helper(&play, E1);
	play_reply(&play, FOUND("{'_id': 1}"));
	play_expect_sent(&play, 0, E0);
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(1));
	play_close(&play);
}

Test(edit, a_spilled_array_is_folded_back_first)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	fold(RESULT(1));
	play_expect_sent(&play, 0, E0);
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(1));
	cr_assert_eq(play_notes(&play), 2, "the fold's and the write's: %zu", play.note_count);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(play.notes[i].reason, MOVER_EDITED, "%d", play.notes[i].reason);
		cr_assert_eq(load_int32(play.notes[i].id.data), 1);
	}
	play_close(&play);
}

Test(edit, the_overflow_comes_in_several_batches)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(SPILLED));
	play_expect_helper(&play, FETCH(NEAREST));
	play_reply(&play, CURSOR(BATCH(1, 0, "3"), "88"));
	play_expect_helper(&play, "{'getMore': {'$numberLong': '88'}, 'collection': 'books_more', "
				  "'$db': 'shop'}");
	play_reply(&play, NEXT(BATCH(2, 1, "4"), "88"));
	play_reply(&play, NEXT(BATCH(3, 2, "5"), "0"));
	play_expect_helper(&play, I2(""));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, E0);
	play_close(&play);
}

Test(edit, a_dead_generation_is_never_folded_back)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4"))); /* one is missing */
	expect_pause();
	play_expect_helper(&play, E1);
	play_close(&play);
}

/* The document links so many elements, of which two are there. */
static void look_at_short_of(const char *generation, int linked)
{
	play_expect_helper(&play, E1);
	play_reply(&play, made_text("{'cursor': {'firstBatch': [{'_id': 1, '_spill': {'f': {'g': %s"
				    ", 'h': 2, 'n': %d}}}], 'id': {'$numberLong': '0'}, 'ns': "
				    "'shop.books'}, 'ok': 1.0}",
				    generation, linked));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4")));
}

static void look_at_short(int linked)
{
	look_at_short_of(G1, linked);
}

Test(edit, a_state_that_stays_short_says_that_overflow_is_missing)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	look_at_short(3);
	expect_pause();
	look_at_short(3);
	play_expect_error(&play, 301, "overflow documents are missing");
	cr_assert_eq(play_notes(&play), 0);
	play_close(&play);
}

/* Pushes and moves do not change the generation. */
Test(edit, a_short_array_that_grows_is_damaged_too)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	look_at_short(3);
	expect_pause();
	look_at_short(4);
	play_expect_error(&play, 301, "the document with _id '1' (int): overflow documents are");
	play_close(&play);
}

Test(edit, another_generation_was_rewritten)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	look_at_short(3);
	expect_pause();
	look_at_short_of(G2, 3);
	expect_pause();
	look_at_short(3);
	expect_pause();
	play_close(&play);
}

/* The last of the rounds comes ten seconds behind the first. */
static void lose_to_the_end(const char *command, int rounds)
{
	start(command);
	play_reply(&play, RESULT(0));
	for (int i = 1; i <= rounds; i++) {
		play_reply(&play, FOUND(SPILLED));
		play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
		if (i == rounds)
			play.now += 10 * 1000000;
		play_reply(&play, RESULT(0));
		if (i < rounds)
			expect_pause();
	}
	if (strstr(command, "autocommit"))
		play_end_transaction(&play);
	play_expect_error(&play, 112, "nothing was applied");
	cr_assert_eq(play_notes(&play), 0);
}

static bool labelled(const char *label)
{
	struct element labels, first;
	struct bytes text;

	return document_find(play_message(&play).body, "errorLabels", &labels) &&
	       document_find(labels.value, "0", &first) && element_string(&first, &text) &&
	       bytes_are(text, label);
}

Test(edit, ten_seconds_of_lost_rounds_are_a_write_conflict)
{
	lose_to_the_end(ONE, 30);
	cr_assert_not(labelled("RetryableWriteError"));
	play_close(&play);
	lose_to_the_end(UPDATE(STATEMENT("{'_id': 1}", ""), ", " LSID ", " NUMBER), 30);
	cr_assert(labelled("RetryableWriteError"));
	play_close(&play);
}

Test(edit, four_lost_rounds_end_a_transaction)
{
	lose_to_the_end(UPDATE(STATEMENT("{'_id': 1}", ""), ", " TRANSACTION), 4);
	cr_assert(labelled("TransientTransactionError"));
	play_close(&play);
}

/* What asks for the document knows the variables of let alone. */
Test(edit, a_filter_that_may_name_constants_is_refused)
{
	start(UPDATE(STATEMENT("{'_id': 1, '$expr': {'$eq': ['$n', '$$v']}}", ", 'c': {'v': 3}"),
		     ", 'let': {'v': 9}"));
	play_reply(&play, "{'ok': 1.0, 'queryPlanner': {}}");
	play_expect_error(&play, 115, "name the variables in let");
	play_close(&play);
}

Test(edit, a_filter_with_two_ids_is_refused)
{
	start(UPDATE(STATEMENT("{'_id': 1, '_id': 2}", ""), ""));
	play_reply(&play, "{'ok': 1.0, 'queryPlanner': {}}");
	play_expect_error(&play, 115, "may not name _id twice");
	play_close(&play);
}

/* ---- a filter by fields that go with the fold ---- */

#define SHOWN(q, u) "{'update': 'shown', 'updates': [{'q': " q ", 'u': " u "}], '$db': 'shop'}"
#define LONG_OR_WIDE "{'_id': 1, 'long': true, 'wide': true}"
#define BOTH_EDIT "{'$set': {'f.0': 9, 'g.0': 9}}"
#define SHOWN_E1(q) \
	"{'find': 'shown', 'filter': " LOOK(q) ", 'projection': {'_id': 1, '_spill': 1}, " \
					       "'limit': 1, '$db': 'shop', " NEAREST "}"
#define BORN "{'_id': 1, '_spill': {'f': {'g': " G2 ", 'h': 2, 'n': 0}}}"

/* E1 finds array `f` alone spilled; it goes back. */
static void fold_shown(void)
{
	play_expect_helper(&play, SHOWN_E1(LONG_OR_WIDE));
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, "{'cursor': {'firstBatch': [{'of': 1, '_spill': {'g': " G1
			  ", 'p': 0, 'i': 1}, 'more': [3, 4, 5]}], 'id': {'$numberLong': '0'}, "
			  "'ns': 'shop.shown_more'}, 'ok': 1.0}");
	play_reply(&play, RESULT(1));
}

Test(edit, what_is_said_of_a_flag_that_went_with_the_fold_is_left_out)
{
	start(SHOWN(LONG_OR_WIDE, BOTH_EDIT));
	play_reply(&play, RESULT(0));
	fold_shown();
	/* the other array had no state: its flag has not changed */
	play_expect_sent(&play, 0, SHOWN(GUARDED("{'_id': 1, 'wide': true}"), BOTH_EDIT));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(1));
	play_close(&play);
}

Test(edit, it_stays_left_out_where_another_mover_came_behind_the_fold)
{
	start(SHOWN(LONG_OR_WIDE, BOTH_EDIT));
	play_reply(&play, RESULT(0));
	fold_shown();
	play_reply(&play, RESULT(0));
	play_expect_helper(&play, SHOWN_E1("{'_id': 1, 'wide': true}"));
	play_reply(&play, FOUND(BORN));
	play_expect_helper(&play,
			   "{'update': 'shown', 'updates': [{'q': {'_id': 1, '_spill': "
			   "{'$eq': {'f': {'g': " G2 ", 'h': 2, 'n': 0}}}}, 'u': {'$push': "
			   "{'f': {'$each': [], '$position': 2}}, '$unset': {'_spill': 1}}}], "
			   "'$db': 'shop', 'writeConcern': {'w': 1}}");
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, SHOWN(GUARDED("{'_id': 1, 'wide': true}"), BOTH_EDIT));
	play_close(&play);
}

Test(edit, the_flag_of_an_array_that_may_stay_away_may_be_named_anywhere)
{
	start(SHOWN("{'_id': 1, '$or': [{'wide': true}, {'n': 1}]}", EDIT));
	play_expect_sent(&play, 0,
			 SHOWN("{'$and': [{'_id': 1, '$or': [{'wide': true}, {'n': 1}]}, "
			       "{'_spill.f': {'$exists': false}}]}",
			       EDIT));
	play_close(&play);
	start(SHOWN("{'_id': 1, '$or': [{'long': true}, {'n': 1}]}", EDIT));
	play_reply(&play, "{'ok': 1.0, 'queryPlanner': {}}");
	play_expect_error(&play, 115, "inside $or, $nor or $expr");
	play_close(&play);
}

Test(edit, an_array_too_large_for_its_document_is_refused)
{
	static const char *const replies[] = {
		"{'n': 0, 'writeErrors': [{'index': 0, 'code': 10334, 'errmsg': 'x'}], 'ok': 1.0}",
		"{'n': 0, 'writeErrors': [{'index': 0, 'code': 17419, 'errmsg': 'x'}], 'ok': 1.0}",
		"{'ok': 0.0, 'code': 10334, 'errmsg': 'x'}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		start(UPDATE("{'q': {'_id': 1}, 'u': {'$push': {'f': {'$each': [9], '$position': "
			     "0}}}}",
			     ""));
		play_reply(&play, RESULT(0));
		fold(replies[i]);
		play_expect_answer(&play, "{'n': 0, 'writeErrors': [{'index': 0, 'code': 10334, "
					  "'errmsg': 'the whole array, which this write needs in "
					  "one document, passes 16 MB'}], 'nModified': 0, 'ok': "
					  "1.0}");
		play_close(&play);
	}
}

/* The rest is tested with a mongod (tests/e2e/test_edit_in_place.py): it draws names. */
Test(edit, an_array_too_large_may_be_edited_in_place)
{
	static const char standalone[] = "{'ok': 0.0, 'code': 20, 'errmsg': 'x'}";

	start(ONE);
	play_reply(&play, RESULT(0));
	fold("{'ok': 0.0, 'code': 10334, 'errmsg': 'x'}");
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
	cr_assert(play.sequence->end.holds);
	play_reply(&play, standalone); /* to HOLD */
	cr_assert(play.sequence->end.holds);
	play_reply(&play, standalone); /* to its end */
	cr_assert_not(play.sequence->end.holds);
	play_expect_answer(&play,
			   "{'n': 0, 'writeErrors': [{'index': 0, 'code': 10334, 'errmsg': 'the "
			   "whole array, which this write needs in one document, passes 16 MB; to "
			   "edit it in place takes a transaction, and this server is no member of "
			   "a replica set'}], 'nModified': 0, 'ok': 1.0}");
	play_close(&play);
}

/* What is behind its end can't be told. */
Test(edit, a_list_of_batches_that_the_server_cuts_is_refused)
{
	start(ONE);
	play_reply(&play, RESULT(0));
	fold("{'ok': 0.0, 'code': 10334, 'errmsg': 'x'}");
	play_reply(&play, "{'ok': 1.0, 'value': {'head': [], 'tail': [], 'bytes': 90}}");
	play_reply(&play, CURSOR("{'_id': 1, '_spill': {'g': " G1 ", 'p': 0}, 'bytes': 90}", "9"));
	cr_assert(play.sequence->end.holds);
	play_reply(&play, "{'ok': 1.0}"); /* to its end */
	cr_assert_not(play.sequence->end.holds);
	play_expect_answer(&play,
			   "{'n': 0, 'writeErrors': [{'index': 0, 'code': 10334, 'errmsg': 'the "
			   "whole array, which this write needs in one document, passes 16 MB; to "
			   "edit it in place, the list of its overflow documents may not pass 16 "
			   "MB, either: let each hold more elements (batch.size)'}], 'nModified': "
			   "0, 'ok': 1.0}");
	play_close(&play);
}

Test(edit, an_array_too_large_ends_a_transaction)
{
	start(UPDATE(STATEMENT("{'_id': 1}", ""), ", " TRANSACTION));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
	play_reply(&play, "{'ok': 0.0, 'code': 10334, 'errmsg': 'x'}");
	play_end_transaction(&play);
	play_expect_answer(&play, "{'n': 0, 'writeErrors': [{'index': 0, 'code': 10334, 'errmsg': "
				  "'the whole array, which this write needs in one document, "
				  "passes 16 MB'}], 'nModified': 0, 'ok': 1.0}");
	play_close(&play);
}

/* The image of an update that sets the array as a whole is cut by mongod: of an array that is in
 * two places it would be wrong. */
Test(edit, a_cut_image_needs_the_array_whole)
{
	play_command(&play,
		     "{'findAndModify': 'marked', 'query': {'_id': 1}, 'update': {'$set': {'f': "
		     "[9]}}, 'fields': {'f': {'$slice': [1, 2]}}, '$db': 'shop'}",
		     VERDICT_FIND_AND_MODIFY);
	play_reply(&play, "{'lastErrorObject': {'n': 0, 'updatedExisting': false}, 'value': null, "
			  "'ok': 1.0}");
	play_expect_helper(&play, "{'find': 'marked', 'filter': {'$and': [{'_id': {'$eq': 1}}, "
				  "{'_id': 1}]}, 'projection': {'_id': 1, '_spill': 1}, 'limit': "
				  "1, '$db': 'shop', " NEAREST "}");
	play_reply(&play, FOUND(SPILLED));
	play_expect_helper(&play, "{'find': 'marked_more', 'filter': {'book': {'$in': [1]}, "
				  "'_spill.g': {'$in': [" G1 "]}}, 'sort': {'book': 1, "
				  "'_spill.i': 1}, 'batchSize': 2147483647, '$db': "
				  "'shop', " NEAREST "}");
	play_close(&play);
}

#define QUOTED(of) "error processing query: ns=shop.booksTree: " of " planner returned error"
#define PLANNER_ERROR(of) \
	"{'n': 0, 'writeErrors': [{'index': 0, 'code': 2, 'errmsg': '" QUOTED( \
		of) "'}], 'nModified': 0, 'ok': 1.0}"

/* The planner's errors quote the filter: an explain has the words for the client's. */
Test(edit, an_error_that_quotes_the_filter_quotes_the_clients)
{
	static const struct {
		const char *explained, *answer;
	} cases[] = {
		{"{'ok': 0.0, 'code': 2, 'errmsg': '" QUOTED("the client s") "'}",
		 PLANNER_ERROR("the client s")},
		/* the index is there by now */
		{"{'queryPlanner': {}, 'ok': 1.0}", PLANNER_ERROR("with a guard")},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		start(ONE);
		play_reply(&play, PLANNER_ERROR("with a guard"));
		play_expect_helper(&play, "{'explain': {'update': 'books', 'updates': [{'q': "
					  "{'_id': 1}, 'u': {'$set': {'x': 1}}, 'multi': false}]}, "
					  "'verbosity': 'queryPlanner', '$db': 'shop'}");
		play_reply(&play, cases[i].explained);
		play_expect_answer(&play, cases[i].answer);
		play_close(&play);
	}
}

/* ---- statements that mongod refuses, beside others ---- */

#define PUSHED(id) "{'q': {'_id': " #id "}, 'u': {'$push': {'f': 1}}}"
#define BY_WHERE "{'q': {'f': 1, '$where': '1'}, 'u': {'$set': {'x': 1}}}"
#define BY_NEAR "{'q': {'f': {'$near': [0, 0]}}, 'u': {'$set': {'x': 1}}}"
#define ABOUT(statement, more) \
	"{'explain': {'update': 'books', 'updates': [" statement "]" more \
	"}, 'verbosity': 'queryPlanner', '$db': 'shop'}"
#define SAYS(code) "{'ok': 0.0, 'code': " #code ", 'errmsg': 'no', 'operationTime': 5}"
#define IN_NO_ORDER ", 'ordered': false"
#define NO_AT(index, code) "{'index': " #index ", 'code': " #code ", 'errmsg': 'no'}"

Test(edit, a_statement_that_mongod_refuses_has_its_error_behind_those_before)
{
	start(UPDATE(PUSHED(1) ", " BY_WHERE ", " PUSHED(2) ", " BY_NEAR, ""));
	play_expect_helper(&play, ABOUT(BY_WHERE, ""));
	play_reply(&play, SAYS(139));
	play_expect_sent(&play, 0, UPDATE(PUSHED(1), ""));
	play_reply(&play, "{'n': 1, 'nModified': 1, 'ok': 1.0, 'operationTime': 7}");
	play_expect_answer(
		&play, "{'n': 1, 'writeErrors': [" NO_AT(1, 139) "], 'nModified': 1, 'ok': 1.0, "
								 "'operationTime': 7}");
	play_close(&play);
}

Test(edit, in_no_order_each_is_asked_about_and_the_others_go_out)
{
	start(UPDATE(BY_NEAR ", " PUSHED(1) ", " BY_WHERE ", " PUSHED(2), IN_NO_ORDER));
	play_expect_helper(&play, ABOUT(BY_NEAR, IN_NO_ORDER));
	play_reply(&play, SAYS(2));
	play_expect_helper(&play, ABOUT(BY_WHERE, IN_NO_ORDER));
	play_reply(&play, SAYS(139));
	play_expect_sent(&play, 0, UPDATE(PUSHED(1), IN_NO_ORDER));
	play_reply(&play, "{'n': 1, 'nModified': 1, 'ok': 1.0}");
	play_expect_sent(&play, 0, UPDATE(PUSHED(2), IN_NO_ORDER));
	play_reply(&play, "{'n': 0, 'nModified': 0, 'ok': 1.0, 'operationTime': 8}");
	play_expect_answer(&play, "{'n': 1, 'writeErrors': [" NO_AT(0, 2) ", " NO_AT(
					  2, 139) "], 'nModified': 1, 'ok': 1.0, "
						  "'operationTime': 8}");
	play_close(&play);
}

Test(edit, where_mongod_refuses_all_nothing_goes_out)
{
	start(UPDATE(BY_NEAR ", " BY_WHERE, IN_NO_ORDER));
	play_reply(&play, SAYS(2));
	play_reply(&play, SAYS(139));
	play_expect_answer(&play, "{'n': 0, 'writeErrors': [" NO_AT(0, 2) ", " NO_AT(
					  1, 139) "], 'nModified': 0, 'ok': 1.0, "
						  "'operationTime': 5}");
	play_close(&play);
}

Test(edit, a_statement_that_mongod_would_run_refuses_all)
{
	start(UPDATE(PUSHED(1) ", " BY_NEAR ", " BY_WHERE, IN_NO_ORDER));
	play_reply(&play, SAYS(2));
	play_expect_helper(&play, ABOUT(BY_WHERE, IN_NO_ORDER));
	play_reply(&play, "{'queryPlanner': {}, 'ok': 1.0}");
	play_expect_error(&play, ERROR_COMMAND_NOT_SUPPORTED, "$where");
	play_close(&play);
}

Test(edit, an_error_of_the_command_is_no_statements)
{
	start(UPDATE(PUSHED(1) ", " BY_WHERE, ""));
	play_reply(&play, SAYS(13));
	play_expect_error(&play, ERROR_UNAUTHORIZED, "no");
	play_close(&play);
}

/* A validator, a change of primaries, the time that was given: what a fold's own error says. */
Test(edit, a_fold_that_the_server_does_not_take_changes_nothing)
{
	static const struct {
		const char *code;
		int32_t answered;
		const char *says;
	} cases[] = {
		{"121", 115, "a validator refuses"},
		{"189", 112, "now; try again"},
		{"11602", 112, "now; try again"},
		{"50", 50, "exceeded time limit"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		char reply[120];

		snprintf(reply, sizeof(reply),
			 "{'n': 0, 'writeErrors': [{'index': 0, 'code': %s, 'errmsg': 'x'}], 'ok': "
			 "1.0}",
			 cases[i].code);
		start(ONE);
		play_reply(&play, RESULT(0));
		fold(reply);
		play_expect_error(&play, cases[i].answered, cases[i].says);
		play_close(&play);
	}
}

Test(edit, what_a_validator_refuses_among_other_statements_is_one_of_their_errors)
{
	struct element errors, error, said;
	struct bytes text;

	start(UPDATE(STATEMENT("{'_id': 1}", "") ", " STATEMENT("{'_id': 2}", ""),
		     ", 'ordered': false"));
	play_reply(&play, RESULT(0));
	play_expect_helper(&play, E1);
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
	play_reply(&play, "{'n': 0, 'writeErrors': [{'index': 0, 'code': 121, 'errmsg': 'x'}], "
			  "'ok': 1.0}");
	cr_assert_eq(play.outcome, SEQUENCE_SEND); /* the other one */
	play_reply(&play, RESULT(1));
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	cr_assert(document_find(play_message(&play).body, "writeErrors", &errors) &&
		  document_find(errors.value, "0", &error) &&
		  document_find(error.value, "errmsg", &said) && element_string(&said, &text));
	cr_assert(memmem(text.data, text.length, "rule 'books' on 'shop.books': a validator", 41));
	cr_assert(document_find(play_message(&play).body, "n", &said) &&
		  load_int32(said.value.data) == 1);
	play_close(&play);
}

/* ---- what a statement fails by, beside others ---- */

/* The second of the statements: an edit, whose E0 matches nothing. */
#define THREE UPDATE(PUSHED(2) ", " STATEMENT("{'_id': 1}", "") ", " PUSHED(3), "%s")

static void start_second(const char *more)
{
	start(made_text(THREE, more));
	play_reply(&play, RESULT(1));
	play_reply(&play, RESULT(0));
}

static void expect_statements_error(int64_t code, int64_t n)
{
	int64_t told, index, applied;
	struct element errors;
	struct bytes body;

	cr_assert_eq(play.outcome, SEQUENCE_DONE, "%d", play.outcome);
	body = play_message(&play).body;
	cr_assert(document_find_integer(body, "n", &applied), "%s", made_json(body));
	cr_assert(document_find(body, "writeErrors", &errors), "%s", made_json(body));
	cr_assert(document_find_integer(errors.value, "0.index", &index));
	cr_assert(document_find_integer(errors.value, "0.code", &told));
	cr_assert_eq(applied, n, "%s", made_json(body));
	cr_assert_eq(index, 1, "%s", made_json(body));
	cr_assert_eq(told, code, "%s", made_json(body));
	cr_assert_not(document_find_integer(errors.value, "1.index", &index));
}

static const char *const batches[] = {"", IN_NO_ORDER, ", " RETRYABLE, IN_NO_ORDER ", " RETRYABLE};

Test(edit, a_damaged_document_is_one_statements_error)
{
	for (size_t i = 0; i < ARRAY_LENGTH(batches); i++) {
		start_second(batches[i]);
		play_reply(&play, FOUND(SPILLED));
		play_reply(&play, FOUND(BATCH(1, 0, "3, 4")));
		expect_pause();
		play_reply(&play, FOUND(SPILLED));
		play_reply(&play, FOUND(BATCH(1, 0, "3, 4")));
		if (strstr(batches[i], "ordered"))
			play_reply(&play, RESULT(1)); /* the third */
		expect_statements_error(301, strstr(batches[i], "ordered") ? 2 : 1);
		play_close(&play);
	}
}

Test(edit, a_damaged_document_does_not_keep_others_from_being_written)
{
	start(UPDATE(STATEMENT("{'_id': 1}", "") ", " PUSHED(3), IN_NO_ORDER ", " RETRYABLE));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND("{'_id': 1, '_spill': {'f': {'g': 1}}}"));
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
	play_reply(&play, RESULT(1));
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	cr_assert(bytes_contain(play_message(&play).body, "is damaged"));
	cr_assert(bytes_contain(play_message(&play).body, "nModified"));
	play_close(&play);
}

/* What a driver does not send again must tell what has been applied. */
Test(edit, what_was_applied_is_told_beside_an_error)
{
	static const struct {
		const char *reply; /* to FETCH */
		int32_t code;
	} cases[] = {
		{"{'ok': 0.0, 'code': 13, 'errmsg': 'no'}", 13},
		{"{'ok': 0.0, 'code': 43, 'errmsg': 'cursor id 5 not found'}", 43},
		{"{'cursor': {'firstBatch': 5}, 'ok': 1.0}", 112},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		start_second("");
		play_reply(&play, FOUND(SPILLED));
		play_reply(&play, cases[i].reply);
		expect_statements_error(cases[i].code, 1);
		play_close(&play);
		start_second(", " RETRYABLE);
		play_reply(&play, FOUND(SPILLED));
		play_reply(&play, cases[i].reply);
		if (cases[i].code == 112) {
			play_expect_error(&play, 112, "can't be read");
			cr_assert(labelled("RetryableWriteError"));
		} else {
			expect_statements_error(cases[i].code, 1);
		}
		play_close(&play);
	}
	start_second(", " RETRYABLE);
	play.memory_short = true;
	play_reply(&play, FOUND(SPILLED));
	play.memory_short = false;
	expect_statements_error(365, 1);
	play_close(&play);
}

/* mongod gives up the whole, too. */
Test(edit, an_edit_that_is_ended_is_the_commands_error)
{
	static const char *const ended[] = {
		"{'ok': 0.0, 'code': 50, 'errmsg': 'operation exceeded time limit'}",
		"{'ok': 0.0, 'code': 11601, 'errmsg': 'operation was interrupted'}",
		"{'ok': 0.0, 'code': 189, 'errmsg': 'stepped down'}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(ended); i++) {
		start_second("");
		play_reply(&play, ended[i]); /* to LOOK */
		play_expect_answer(&play, ended[i]);
		cr_assert_eq(play_notes(&play), 2, "the pushes: one is done");
		play_close(&play);
		start(UPDATE(STATEMENT("{'x': 1}", ""), "")); /* a search */
		play_reply(&play, ended[i]);
		play_expect_answer(&play, ended[i]);
		play_close(&play);
	}
}

Test(edit, a_reply_of_another_form_behind_what_was_applied_goes_on)
{
	start_second("");
	play_reply_old(&play);
	play_expect_passed(&play);
	play_close(&play);
}

/* A transaction of Spillway's own is none of the client's. */
Test(edit, the_error_of_an_edit_in_place_has_the_clients_labels)
{
#define ENDED(labels) "{'ok': 0.0, 'code': 189, 'errmsg': 'stepped down'" labels "}"
	static const char *const clients[] = {"", ", " RETRYABLE};
	static const char *const answers[] = {ENDED(""),
					      ENDED(", 'errorLabels': ['RetryableWriteError']")};

	for (size_t i = 0; i < ARRAY_LENGTH(clients); i++) {
		start(made_text(UPDATE(STATEMENT("{'_id': 1}", ""), "%s"), clients[i]));
		play_reply(&play, RESULT(0));
		play_reply(&play, FOUND(SPILLED));
		play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
		play_reply(&play, "{'ok': 0.0, 'code': 10334, 'errmsg': 'x'}");
		play_reply(&play, ENDED(", 'errorLabels': ['TransientTransactionError']"));
		play_reply(&play, "{'ok': 1.0}"); /* to its end */
		play_expect_answer(&play, answers[i]);
		play_close(&play);
	}
}

/* ---- membership: the overflow is asked for a value ---- */

#define PUSH_ONE "{'$push': {'f': 9}}"
#define GUARD "{'_id': 1, 'f': {'$ne': 9}}"
#define GUARDED_PUSH(q) UPDATE("{'q': " q ", 'u': " PUSH_ONE "}", "")
#define PROBE(condition) \
	"{'aggregate': 'books', 'pipeline': [{'$match': {'$and': [{'_id': {'$eq': 1}}]}}, " \
	"{'$lookup': {'from': 'books_more', 'pipeline': [{'$match': {'book': 1, '_spill.g': " G1 \
	", '$or': [" condition "]}}, {'$limit': 1}, {'$project': {'_id': 1}}], 'as': '0'}}, " \
	"{'$lookup': {'from': 'books_more', 'pipeline': [{'$match': {'book': 1, '_spill.g': " G1 \
	"}}, {'$sort': {'_spill.i': -1}}, {'$limit': 4}, {'$project': {'_id': 0, 'p': " \
	"'$_spill.p', 'n': {'$cond': [{'$isArray': '$more'}, {'$size': '$more'}, -1]}}}], 'as': " \
	"'1'}}, {'$project': {'_id': 0, '0': 1, '1': 1}}], 'cursor': {}, '$db': 'shop', " NEAREST \
	"}"
/* Its answer: whether the value is there, and where the last overflow documents stand. */
#define PROBED(hits, ends) FOUND("{'0': [" hits "], '1': [" ends "]}")
#define WHOLE_END "{'p': 2, 'n': 1}"
#define IS_NINE "{'more': {'$eq': 9}}"
#define ON_STATE(q) \
	"{'$and': [" q ", {'_id': {'$eq': 1}}, {'_spill.f.g': " G1 ", '_spill.f.n': 3}]}"

Test(edit, a_guard_asks_the_overflow_for_its_value)
{
	start(GUARDED_PUSH(GUARD));
	play_expect_sent(&play, 0, GUARDED_PUSH(GUARDED(GUARD)));
	play_reply(&play, RESULT(0));
	play_expect_helper(&play, FIND(LOOK(GUARD), ", 'limit': 1", NEAREST));
	play_reply(&play, FOUND(SPILLED));
	play_expect_helper(&play, PROBE(IS_NINE));
	play_reply(&play, PROBED("", WHOLE_END));
	play_expect_sent(&play, 0, GUARDED_PUSH(ON_STATE(GUARD)));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(1));
	expect_note(MOVER_APPENDED);
	play_close(&play);
}

/* Else a document that is known to have room for less would not be looked at. */
Test(edit, a_guarded_push_of_several_is_noted_as_several)
{
	start(UPDATE("{'q': " GUARD ", 'u': {'$push': {'f': {'$each': [7, 8, 'nine']}}}}", ""));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, FOUND(""));
	play_reply(&play, RESULT(1));
	expect_note(MOVER_APPENDED);
	cr_assert_eq(play.notes[0].elements, 3);
	cr_assert_gt(play.notes[0].bytes, 20);
	play_close(&play);
}

Test(edit, a_guard_whose_value_is_found_matches_nothing)
{
	start(GUARDED_PUSH(GUARD));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, PROBED("{'_id': 1}", ""));
	play_expect_sent(&play, 0,
			 GUARDED_PUSH("{'$and': [" GUARD ", " NEVER ", " WITHOUT_STATE "]}"));
	play_reply(&play, RESULT(0));
	play_expect_answer(&play, RESULT(0));
	play_close(&play);
}

/* The state links three elements. */
Test(edit, a_guard_sees_that_the_end_of_the_overflow_is_missing)
{
	static const struct {
		const char *answer;
		bool whole;
	} cases[] = {
		{PROBED("", ""), false},
		{PROBED("", "{'p': 0, 'n': 2}"), false},
		{PROBED("", "{'p': 2, 'n': -1}"), false}, /* that is no array */
		{PROBED("", "{'p': 'x', 'n': 9}, 5"), false},
		{PROBED("", "{'p': 0, 'n': 2}, {'p': 2, 'n': 1}"), true},
		{PROBED("", "{'p': 3, 'n': 2}, {'p': 0, 'n': 3}"), true},
		{PROBED("", "{'p': 2}"), true}, /* one element a document */
		{FOUND(""), true},              /* the document has gone: the write finds none */
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		start(GUARDED_PUSH(GUARD));
		play_reply(&play, RESULT(0));
		play_reply(&play, FOUND(SPILLED));
		play_reply(&play, cases[i].answer);
		if (cases[i].whole) {
			play_expect_sent(&play, 0, GUARDED_PUSH(ON_STATE(GUARD)));
		} else {
			expect_pause();
			play_reply(&play, FOUND(SPILLED));
			play_reply(&play, cases[i].answer);
			play_expect_error(&play, 301, "overflow documents are missing");
		}
		play_close(&play);
	}
}

/* ---- an array that is set as a whole ---- */

#define SET(array) "{'$set': {'f': " array "}}"
#define SETS(q, u) UPDATE("{'q': " q ", 'u': " u "}", "")
#define LENGTHS "'0': {'$cond': [{'$isArray': '$f'}, {'$size': '$f'}, -1]}"
#define LOOK_SET \
	"{'find': 'books', 'filter': " LOOK( \
		"{'_id': 1}") ", 'projection': {'_id': 1, '_spill': 1, " LENGTHS \
			      "}, 'limit': 1, '$db': 'shop', " NEAREST "}"
#define OF_LENGTH(n) "{'_id': 1, '_spill': " STATE ", '0': " #n "}"
#define UNCHANGED(n) \
	"{'$and': [{'_id': 1}, {'_id': {'$eq': 1}}, {'_spill.f.g': " G1 \
	", '_spill.f.n': 3, 'f': {'$size': " #n "}}]}"
#define RESETTING(array) "{'$set': {'f': " array "}, '$unset': {'_spill.f': 1, 'has_extras': 1}}"

Test(edit, another_length_than_the_one_that_stands_is_set_without_folding)
{
	start(SETS("{'_id': 1}", SET("[1, 2]")));
	play_expect_sent(&play, 0, SETS(GUARDED("{'_id': 1}"), SET("[1, 2]")));
	play_reply(&play, RESULT(0));
	play_expect_helper(&play, LOOK_SET);
	play_reply(&play, FOUND(OF_LENGTH(2)));
	play_expect_sent(&play, 0, SETS(UNCHANGED(2), RESETTING("[1, 2]")));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(1));
	expect_note(MOVER_CHANGED);
	play_close(&play);
}

Test(edit, a_replacement_of_another_length_is_sent_as_it_is)
{
	start(SETS("{'_id': 1}", "{'f': [1]}"));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(OF_LENGTH(2)));
	play_expect_sent(&play, 0, SETS(UNCHANGED(2), "{'f': [1]}"));
	play_reply(&play, RESULT(0)); /* a push came between */
	expect_pause();
	play_expect_helper(&play, LOOK_SET);
	play_close(&play);
}

Test(edit, an_array_of_the_same_length_is_folded_so_that_mongod_compares)
{
	start(SETS("{'_id': 1}", SET("[1, 2, 3, 4, 5]")));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(OF_LENGTH(2)));
	play_expect_helper(&play, FETCH(NEAREST));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
	play_expect_helper(&play, I2(""));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, SETS(GUARDED("{'_id': 1}"), SET("[1, 2, 3, 4, 5]")));
	play_reply(&play, "{'n': 1, 'nModified': 0, 'ok': 1.0}");
	play_expect_answer(&play, "{'n': 1, 'nModified': 0, 'ok': 1.0}");
	play_close(&play);
}

Test(edit, what_is_too_large_to_fold_differs_from_whatever_is_set)
{
	start(SETS("{'_id': 1}", SET("[1, 2, 3, 4, 5]")));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(OF_LENGTH(2)));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
	play_reply(&play, "{'n': 0, 'nModified': 0, 'writeErrors': [{'index': 0, 'code': 10334, "
			  "'errmsg': 'too large'}], 'ok': 1.0}");
	play_expect_sent(&play, 0, SETS(UNCHANGED(2), RESETTING("[1, 2, 3, 4, 5]")));
	play_close(&play);
}

/* Nobody can compare the array with what was lost. */
Test(edit, what_has_lost_its_overflow_is_set_anew)
{
	start(SETS("{'_id': 1}", SET("[1, 2, 3, 4, 5]")));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(OF_LENGTH(2)));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4")));
	expect_pause();
	play_reply(&play, FOUND(OF_LENGTH(2)));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4")));
	play_expect_sent(&play, 0, SETS(UNCHANGED(2), RESETTING("[1, 2, 3, 4, 5]")));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(1));
	play_close(&play);
}

/* ---- which document ---- */

#define ANY UPDATE(STATEMENT("{'x': 1}", ""), "")
#define RESOLVED "{'$and': [{'x': 1}, {'_id': {'$eq': 1}}, " WITHOUT_STATE "]}"

Test(edit, another_filter_is_resolved_to_an_id_first)
{
	start(ANY);
	play_expect_helper(&play, FIND("{'x': 1}", ", 'limit': 1", NEAREST));
	play_reply(&play, FOUND("{'_id': 1}"));
	play_expect_sent(&play, 0, UPDATE(STATEMENT(RESOLVED, ""), ""));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(1));
	play_close(&play);

	start(ANY);
	play_reply(&play, FOUND(""));
	play_expect_sent(
		&play, 0,
		UPDATE(STATEMENT("{'$and': [{'x': 1}, " NEVER ", " WITHOUT_STATE "]}", ""), ""));
	play_reply(&play, RESULT(0));
	play_expect_answer(&play, RESULT(0));
	play_close(&play);
}

Test(edit, a_filter_that_is_too_long_twice_is_told)
{
	start("{'update': 'books', 'updates': [{'q': {'f': {'$nin': [1], '$exists': true}}, 'u': "
	      "{'$set': {'x': "
	      "1}}}], '$db': 'shop'}");
	play_reply(&play, "{'ok': 0.0, 'code': 10334, 'codeName': 'BSONObjectTooLarge', 'errmsg': "
			  "'BSONObj size: 17000000 is invalid. First element: aggregate: books'}");
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	cr_assert(memmem(play.sequence->output.data, play.sequence->output.length, "stands twice",
			 strlen("stands twice")));
	play_close(&play);
}

Test(edit, a_resolved_document_that_matches_no_longer_is_resolved_again)
{
	start(ANY);
	play_reply(&play, FOUND("{'_id': 1}"));
	play_reply(&play, RESULT(0));
	play_expect_helper(&play, FIND(LOOK("{'x': 1}"), ", 'limit': 1", NEAREST));
	play_reply(&play, FOUND(""));
	play_expect_helper(&play, FIND("{'x': 1}", ", 'limit': 1", NEAREST));
	play_close(&play);
}

#define UPSERT(q, upsert) UPDATE(STATEMENT(q, ", 'upsert': " upsert), "")
#define INSERTED "{'n': 1, 'upserted': [{'index': 0, '_id': 1}], 'nModified': 0, 'ok': 1.0}"
#define DUPLICATE \
	"{'n': 0, 'writeErrors': [{'index': 0, 'code': 11000, 'errmsg': 'dup'}], 'nModified': 0, " \
	"'ok': 1.0}"

static void start_upsert(void)
{
	start(UPSERT("{'_id': 1}", "true"));
	play_expect_sent(&play, 0, UPSERT(GUARDED("{'_id': 1}"), "false"));
	play_reply(&play, RESULT(0));
	play_expect_helper(&play, E1);
	play_reply(&play, FOUND(""));
	play_expect_sent(&play, 0, UPSERT(GUARDED("{'_id': 1}"), "true"));
}

Test(edit, an_upsert_inserts_only_where_there_is_nothing)
{
	start_upsert();
	play_reply(&play, INSERTED);
	play_expect_answer(&play, INSERTED);
	play_close(&play);

	start_upsert();
	play_reply(&play, DUPLICATE);
	play_expect_helper(&play, E1);
	play_reply(&play, FOUND(""));
	play_expect_answer(&play, DUPLICATE);
	play_close(&play);

	start_upsert();
	play_reply(&play, DUPLICATE);
	play_reply(&play, FOUND("{'_id': 1}"));
	play_expect_sent(&play, 0, UPSERT(GUARDED("{'_id': 1}"), "false"));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(1));
	play_close(&play);
}

#define MULTI UPDATE(STATEMENT("{'x': 1}", ", 'multi': true"), "")
#define HINT ", 'multi': true, 'hint': {'x': 1}"
#define HINTED(statement) UPDATE(statement, "")

/* Others go together (test_edit_together.c). */
Test(edit, many_documents_under_a_hint_are_written_one_by_one)
{
	start(HINTED(STATEMENT("{'x': 1}", HINT)));
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
	play_expect_sent(&play, 0, HINTED(STATEMENT(RESOLVED, HINT)));
	play_reply(&play, RESULT(1));
	play_expect_sent(
		&play, 0,
		HINTED(STATEMENT("{'$and': [{'x': 1}, {'_id': {'$eq': 2}}, " WITHOUT_STATE "]}",
				 HINT)));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(2));
	cr_assert_eq(play_notes(&play), 2);
	play_close(&play);
}

/* What the first list named is not edited twice. */
Test(edit, a_list_that_broke_off_is_made_anew)
{
	start(MULTI);
	play_reply(&play, CURSOR("{'_id': 1}", "88"));
	play_reply(&play,
		   "{'ok': 0.0, 'errmsg': 'Failed to parse objectId spillway: the generation "
		   "ended 3 in $convert', 'code': 241, 'codeName': 'ConversionFailure'}");
	expect_pause();
	play_expect_helper(&play, FIND("{'x': 1}", "", NEAREST));
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
	play_reply(&play, RESULT(2));
	play_expect_answer(&play, RESULT(2));
	play_close(&play);
}

/* A symbol equals a text, and no regular expression finds it. */
Test(edit, an_id_that_can_no_longer_be_named_is_refused)
{
	start(UPDATE(STATEMENT("{'x': 1}", ", 'collation': {'locale': 'en', 'strength': 1}"), ""));
	play_reply(&play, FOUND("{'_id': {'a': 'x'}}"));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND("{'_id': {'a': {'$symbol': 'x'}}, '_spill': " STATE "}"));
	play_expect_error(&play, ERROR_COMMAND_NOT_SUPPORTED, "can't be named exactly");
	play_close(&play);
}

Test(edit, an_error_among_many_is_all_that_the_answer_says)
{
	start(HINTED(STATEMENT("{'x': 1}", HINT)));
	play_reply(&play, FOUND("{'_id': 1}, {'_id': 2}"));
	play_reply(&play, RESULT(1));
	play_reply(&play, "{'n': 0, 'writeErrors': [{'index': 0, 'code': 2, 'errmsg': 'bad'}], "
			  "'nModified': 0, 'ok': 1.0}");
	play_expect_answer(&play, "{'n': 0, 'writeErrors': [{'index': 0, 'code': 2, 'errmsg': "
				  "'bad'}], 'nModified': 0, 'ok': 1.0}");
	play_close(&play);
}

/* ---- several statements ---- */

#define PLAIN(id) "{'q': {'_id': " #id "}, 'u': {'$push': {'f': 0}}}"
#define EDITED(id) STATEMENT("{'_id': " #id "}", "")
#define SESSION ", " LSID ", " NUMBER
#define ERROR_AT(index) "'writeErrors': [{'index': " #index ", 'code': 2, 'errmsg': 'bad'}], "
#define FAILED "{'n': 0, " ERROR_AT(0) "'nModified': 0, 'ok': 1.0}"

/* Two pushes, an edit, a push. */
static void start_mixed(const char *more)
{
	start(made_text("{'update': 'books', 'updates': [" PLAIN(3) ", " PLAIN(4) ", " EDITED(
				1) ", " PLAIN(5) "]%s, '$db': 'shop'}",
			more));
}

Test(edit, runs_of_other_statements_go_out_together)
{
	start_mixed(SESSION);
	play_expect_sent(&play, 0, BEFORE_IDS(PLAIN(3) ", " PLAIN(4), SESSION, "0, 1"));
	play_reply(&play, RESULT(2));
	play_expect_sent(&play, 0, BEFORE_IDS(STATEMENT(GUARDED("{'_id': 1}"), ""), SESSION, "2"));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, BEFORE_IDS(PLAIN(5), SESSION, "3"));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(4));
	play_close(&play);
}

/* ---- edits of several documents at once ---- */

#define UNORDERED ", 'ordered': false" SESSION
#define E0_OF(id) STATEMENT(GUARDED("{'_id': " #id "}"), "")
#define DONE(n, retried) \
	"{'n': " #n ", 'retriedStmtIds': [" retried "], 'nModified': " #n ", 'ok': 1.0}"

Test(edit, in_no_order_edits_of_several_documents_go_out_together)
{
	start(UPDATE(EDITED(1) ", " EDITED(2) ", " EDITED(3), UNORDERED));
	play_expect_sent(&play, 0,
			 BEFORE_IDS(E0_OF(1) ", " E0_OF(2) ", " E0_OF(3), UNORDERED, "0, 1, 2"));
	play_reply(&play, DONE(3, "2"));
	play_expect_answer(&play, DONE(3, "2"));
	cr_assert_eq(play_notes(&play), 3, "%zu", play.note_count);
	play_close(&play);
}

/* History answers for what is done; of that the client hears only what it had sent itself. */
Test(edit, where_one_of_them_misses_they_are_asked_by_halves)
{
	start(UPDATE(EDITED(5) ", " EDITED(6) ", " EDITED(7) ", " EDITED(1), UNORDERED));
	play_reply(&play, DONE(3, "1"));
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(5) ", " E0_OF(6), UNORDERED, "0, 1"));
	play_reply(&play, DONE(2, "0, 1"));
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(7) ", " E0_OF(1), UNORDERED, "2, 3"));
	play_reply(&play, DONE(1, "2"));
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(7), UNORDERED, "2"));
	play_reply(&play, DONE(1, "2"));
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(1), UNORDERED, "3"));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(1), UNORDERED, "3"));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, DONE(4, "1"));
	play_close(&play);
}

/* Together with others one was done, and the client has to hear of that. */
Test(edit, one_that_fails_behind_what_was_done_together_fails_alone)
{
	static const int codes[] = {13, 96};

	for (size_t i = 0; i < ARRAY_LENGTH(codes); i++) {
		struct bytes body;
		struct element n, errors, code;

		start(UPDATE(EDITED(1) ", " EDITED(2), UNORDERED));
		play_reply(&play, RESULT(1));
		play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(1), UNORDERED, "0"));
		play_reply(&play, RESULT(0));
		play_reply(&play, FOUND(SPILLED));
		play_reply(&play, made_text("{'ok': 0.0, 'code': %d, 'errmsg': 'no'}", codes[i]));
		play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(2), UNORDERED, "1"));
		play_reply(&play, DONE(1, "1"));
		cr_assert_eq(play.outcome, SEQUENCE_DONE);
		body = play_message(&play).body;
		cr_assert(document_find(body, "n", &n) && load_int32(n.value.data) == 1);
		cr_assert(document_find(body, "writeErrors", &errors));
		cr_assert(document_find_path(errors.value, "0.code", &code));
		cr_assert_eq(load_int32(code.value.data), codes[i]);
		play_close(&play);
	}
}

Test(edit, the_command_s_error_behind_what_was_done_together_does_not_say_otherwise)
{
	start(UPDATE(EDITED(1) ", " EDITED(2), UNORDERED));
	play_reply(&play, RESULT(1));
	play_reply(&play, "{'ok': 0.0, 'code': 189, 'errmsg': 'no', 'errorLabels': "
			  "['RetryableWriteError', 'NoWritesPerformed']}");
	play_expect_answer(&play, "{'ok': 0.0, 'code': 189, 'errmsg': 'no', 'errorLabels': "
				  "['RetryableWriteError']}");
	play_close(&play);
}

Test(edit, an_error_among_them_is_met_by_the_edit_itself)
{
	start(UPDATE(EDITED(1) ", " EDITED(2), UNORDERED));
	play_reply(&play, "{'n': 1, " ERROR_AT(1) "'nModified': 1, 'ok': 1.0}");
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(1), UNORDERED, "0"));
	play_reply(&play, DONE(1, "0"));
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(2), UNORDERED, "1"));
	play_reply(&play, FAILED);
	play_expect_answer(&play, "{'n': 1, " ERROR_AT(1) "'nModified': 1, 'ok': 1.0}");
	play_close(&play);
}

Test(edit, what_has_an_order_or_no_history_goes_one_by_one)
{
	static const char *const commands[] = {
		UPDATE(EDITED(1) ", " EDITED(2), SESSION),
		UPDATE(EDITED(1) ", " EDITED(2), ", 'ordered': false"),
		UPDATE(EDITED(1) ", " EDITED(1), UNORDERED),
		UPDATE(EDITED(1) ", " EDITED(2.0), UNORDERED),
		UPDATE(EDITED('a') ", " EDITED('A'), UNORDERED), /* one and the same, perhaps */
		UPDATE(EDITED({'$numberDecimal' : '1.0'}) ", " EDITED({'$numberDecimal' : '1.00'}),
		       UNORDERED),
		UPDATE(EDITED(1) ", " STATEMENT("{'x': 2}", ""), UNORDERED),
		UPDATE(EDITED(1) ", " STATEMENT("{'_id': 2}", ", 'upsert': true"), UNORDERED),
		UPDATE(EDITED(1) ", " EDITED(2),
		       ", 'ordered': false, 'startTransaction': true, " TRANSACTION),
	};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		struct bytes updates;
		struct element list, second;

		start(commands[i]);
		cr_assert_eq(play.outcome, SEQUENCE_SEND);
		updates = play_message(&play).body;
		cr_assert(document_find(updates, "updates", &list));
		cr_assert_not(document_find(list.value, "1", &second), "%s", commands[i]);
		play_close(&play);
	}
}

Test(edit, an_ordered_command_stops_at_an_error_and_another_goes_on)
{
	start_mixed("");
	play_reply(&play, RESULT(2));
	play_reply(&play, FAILED);
	play_expect_answer(&play, "{'n': 2, " ERROR_AT(2) "'nModified': 2, 'ok': 1.0}");
	play_close(&play);

	start_mixed(", 'ordered': false");
	play_reply(&play, RESULT(2));
	play_reply(&play, FAILED);
	play_expect_sent(&play, 0, UPDATE(PLAIN(5), ", 'ordered': false"));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, "{'n': 3, " ERROR_AT(2) "'nModified': 3, 'ok': 1.0}");
	play_close(&play);
}

/* ---- what is too long behind what was applied ---- */

#define TOO_LONG \
	"{'ok': 0.0, 'code': 10334, 'codeName': 'BSONObjectTooLarge', 'errmsg': 'BSONObj size'}"
#define TOO_LONG_HERE "'code': 10334, 'errmsg': '" SEQUENCE_OUTGROWN "'"
#define TOO_LONG_AT(index) "'writeErrors': [{'index': " #index ", " TOO_LONG_HERE "}], "

Test(edit, a_run_that_is_too_long_goes_by_halves)
{
	start(UPDATE(EDITED(1) ", " PLAIN(3) ", " PLAIN(4) ", " PLAIN(5), ", 'ordered': false"));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0,
			 UPDATE(PLAIN(3) ", " PLAIN(4) ", " PLAIN(5), ", 'ordered': false"));
	play_reply(&play, TOO_LONG);
	play_expect_sent(&play, 0, UPDATE(PLAIN(3), ", 'ordered': false"));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, UPDATE(PLAIN(4) ", " PLAIN(5), ", 'ordered': false"));
	play_reply(&play, TOO_LONG);
	play_expect_sent(&play, 0, UPDATE(PLAIN(4), ", 'ordered': false"));
	play_reply(&play, TOO_LONG);
	play_expect_sent(&play, 0, UPDATE(PLAIN(5), ", 'ordered': false"));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, "{'n': 3, " TOO_LONG_AT(2) "'nModified': 3, 'ok': 1.0}");
	play_close(&play);
}

Test(edit, an_edit_that_is_too_long_fails_alone)
{
	start(UPDATE(PLAIN(3) ", " EDITED(1) ", " PLAIN(5), ", 'ordered': false"));
	play_reply(&play, RESULT(1));
	play_reply(&play, TOO_LONG);
	play_expect_sent(&play, 0, UPDATE(PLAIN(5), ", 'ordered': false"));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, "{'n': 2, " TOO_LONG_AT(1) "'nModified': 2, 'ok': 1.0}");
	play_close(&play);

	start(UPDATE(PLAIN(3) ", " EDITED(1) ", " PLAIN(5), ""));
	play_reply(&play, RESULT(1));
	play_reply(&play, TOO_LONG);
	play_expect_answer(&play, "{'n': 1, " TOO_LONG_AT(1) "'nModified': 1, 'ok': 1.0}");
	play_close(&play);
}

Test(edit, edits_that_are_too_long_together_go_by_halves)
{
	start(UPDATE(PLAIN(3) ", " EDITED(1) ", " EDITED(2), UNORDERED));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(1) ", " E0_OF(2), UNORDERED, "1, 2"));
	play_reply(&play, TOO_LONG);
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(1), UNORDERED, "1"));
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0, BEFORE_IDS(E0_OF(2), UNORDERED, "2"));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, RESULT(3));
	play_close(&play);
}

Test(edit, what_passes_a_message_fails_as_what_mongod_does_not_take)
{
	start(UPDATE(PLAIN(3) ", " EDITED(1) ", " PLAIN(5), ", 'ordered': false"));
	play_reply(&play, RESULT(1));
	play_outgrow(&play);
	play_expect_sent(&play, 0, UPDATE(PLAIN(5), ", 'ordered': false"));
	play_reply(&play, RESULT(1));
	play_expect_answer(&play, "{'n': 2, " TOO_LONG_AT(1) "'nModified': 2, 'ok': 1.0}");
	play_close(&play);

	start(UPDATE(EDITED(1), ""));
	play_outgrow(&play);
	play_expect_error(&play, 10334, "passes the 48,000,000 bytes");
	play_close(&play);
}

/* ---- findAndModify ---- */

#define MODIFY(query, more) \
	"{'findAndModify': 'books', 'query': " query ", 'update': " EDIT more ", '$db': 'shop'}"
#define IMAGE(n, value) "{'lastErrorObject': {'n': " n "}, 'value': " value ", 'ok': 1.0}"

Test(edit, find_and_modify_folds_back_and_answers_with_its_image)
{
	play_command(&play, MODIFY("{'_id': 1}", ""), VERDICT_FIND_AND_MODIFY);
	play_expect_sent(&play, 0, MODIFY(GUARDED("{'_id': 1}"), ""));
	play_reply(&play, IMAGE("0", "null"));
	fold(RESULT(1));
	play_expect_sent(&play, 0, MODIFY(GUARDED("{'_id': 1}"), ""));
	play_reply(&play, IMAGE("1", "{'_id': 1, 'f': [1, 2, 3, 4, 5]}"));
	play_expect_answer(&play, IMAGE("1", "{'_id': 1, 'f': [1, 2, 3, 4, 5]}"));
	expect_note(MOVER_EDITED);
	play_close(&play);
}

Test(edit, a_query_of_null_is_none)
{
	play_command(&play, MODIFY("null", ", 'sort': null, 'collation': null, 'fields': null"),
		     VERDICT_FIND_AND_MODIFY);
	play_expect_helper(&play, FIND("{}", ", 'limit': 1", NEAREST));
	play_close(&play);
}

/* A check-and-set would leave out the condition that says where the image is cut. */
Test(edit, an_image_cut_at_the_matched_place_needs_the_array_whole)
{
	play_command(&play,
		     "{'findAndModify': 'books', 'query': {'_id': 1, 'f': 4}, 'remove': true, "
		     "'fields': {'notes.$': 1}, '$db': 'shop'}",
		     VERDICT_FIND_AND_MODIFY);
	play_reply(&play, IMAGE("0", "null"));
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, FOUND("{'_id': 1, '_spill': " STATE ", '0': 5}")); /* it matches */
	play_expect_helper(&play, FETCH(NEAREST));
	play_close(&play);
}

Test(edit, find_and_modify_finds_the_first_of_its_sort)
{
	play_command(&play, MODIFY("{'x': 1}", ", 'sort': {'x': -1}"), VERDICT_FIND_AND_MODIFY);
	play_expect_helper(&play, FIND("{'x': 1}", ", 'sort': {'x': -1}, 'limit': 1", NEAREST));
	play_reply(&play, FOUND("{'_id': 1}"));
	play_expect_sent(&play, 0, MODIFY(RESOLVED, ", 'sort': {'x': -1}"));
	play_close(&play);
}

/* ---- what goes along ---- */

Test(edit, a_transaction_starts_with_the_first_command_only)
{
	start(UPDATE(STATEMENT("{'x': 1}", ""),
		     ", " TRANSACTION ", 'startTransaction': true, 'readConcern': {'level': "
		     "'snapshot'}"));
	/* What fails ends a transaction: mongod says first what is wrong with the write itself. */
	play_expect_sent(
		&play, 0,
		BEFORE_IDS(STATEMENT("{'$and': [{'x': 1}, " NEVER ", " WITHOUT_STATE "]}", ""),
			   ", " TRANSACTION ", 'startTransaction': true, 'readConcern': "
			   "{'level': 'snapshot'}",
			   "0"));
	play_reply(&play, RESULT(0));
	play_expect_helper(&play, FIND("{'x': 1}", ", 'limit': 1", TRANSACTION));
	play_reply(&play, FOUND("{'_id': 1}"));
	play_expect_sent(&play, 0, BEFORE_IDS(STATEMENT(RESOLVED, ""), ", " TRANSACTION, "0"));
	play_close(&play);
}

/* Elsewhere it is not for the search to judge, and the write keeps it. */
Test(edit, what_mongod_refuses_of_a_write_reaches_it)
{
	static const char *const fields[] = {
		", 'readConcern': {'level': 'majority'}",
		", 'startTransaction': 'x'",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
		const char *refused = "{'ok': 0.0, 'code': 72, 'errmsg': 'not of a write'}";

		start(made_text(UPDATE(STATEMENT("{'x': 1}", ""), "%s"), fields[i]));
		play_expect_helper(&play, FIND("{'x': 1}", ", 'limit': 1", NEAREST));
		play_reply(&play, FOUND("{'_id': 1}"));
		play_expect_sent(&play, 0,
				 made_text(UPDATE(STATEMENT(RESOLVED, ""), "%s"), fields[i]));
		play_reply(&play, refused);
		play_expect_answer(&play, refused);
		play_close(&play);
		play_command(&play,
			     made_text(MODIFY("{'x': 1}", ", 'sort': {'x': -1}%s"), fields[i]),
			     VERDICT_FIND_AND_MODIFY);
		play_expect_helper(&play,
				   FIND("{'x': 1}", ", 'sort': {'x': -1}, 'limit': 1", NEAREST));
		play_reply(&play, FOUND("{'_id': 1}"));
		play_expect_sent(&play, 0,
				 made_text(MODIFY(RESOLVED, ", 'sort': {'x': -1}%s"), fields[i]));
		play_close(&play);
	}
}

/* Numbers of statements that mongod does not take, it refuses before any of them. */
Test(edit, numbers_of_statements_that_are_none_are_mongods_to_refuse)
{
	static const char *const fields[] = {
		", 'stmtIds': [1, 2]", ", 'stmtIds': ['x']", ", 'stmtIds': []",
		", 'stmtIds': 5",      ", 'stmtId': 'x'",    ", 'stmtId': 1, 'stmtIds': [1]",
	};
	static const char *const sound[] = {", 'stmtIds': [4]", ", 'stmtId': 4",
					    ", 'stmtId': null"};

	for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
		start(made_text(UPDATE(STATEMENT("{'_id': 1}", ""), "%s"), fields[i]));
		play_expect_sent(&play, 0,
				 made_text(UPDATE(STATEMENT(NEVER, ""), "%s"), fields[i]));
		play_reply(&play, "{'ok': 0.0, 'code': 16, 'errmsg': 'no such numbers'}");
		play_expect_error(&play, 16, "no such numbers");
		play_close(&play);
	}
	for (size_t i = 0; i < ARRAY_LENGTH(sound); i++) {
		start(made_text(UPDATE(STATEMENT("{'_id': 1}", ""), "%s"), sound[i]));
		play_expect_sent(&play, 0, E0);
		play_close(&play);
	}
}

/* What ends with the time is mongod's to end. */
Test(edit, a_command_behind_the_end_of_the_time_has_a_millisecond)
{
	start(UPDATE(STATEMENT("{'_id': 1}", ""), ", 'maxTimeMS': 100"));
	play_reply(&play, RESULT(0));
	play_reply(&play, FOUND(SPILLED));
	play_reply(&play, FOUND(BATCH(1, 0, "3, 4, 5")));
	play.now += 100000;
	play_reply(&play, RESULT(1));
	play_expect_sent(&play, 0,
			 "{'update': 'books', 'updates': [" STATEMENT(
				 GUARDED("{'_id': 1}"),
				 "") "], '$db': 'shop', 'maxTimeMS': {'$numberLong': '1'}}");
	play_close(&play);
}

Test(edit, a_find_and_modify_cut_in_its_fold_tells_the_mover)
{
	play_command(&play, MODIFY("{'_id': 1}", ""), VERDICT_FIND_AND_MODIFY);
	play_reply(&play, IMAGE("0", "null"));
	begin_fold();
	cr_assert_eq(play_cut(&play), 1, "%zu", play.note_count);
	cr_assert_eq(play.notes[0].reason, MOVER_EDITED);
	cr_assert(play.notes[0].unsettled);
	play_close(&play);
}

Test(edit, unacknowledged_edits_answer_nothing)
{
	play_request(&play,
		     (struct made){.body = UPDATE(STATEMENT("{'_id': 1}", ""),
						  ", 'writeConcern': {'w': 0}"),
				   .flags = MESSAGE_MORE_TO_COME},
		     VERDICT_WRITE);
	play_expect_sent(
		&play, 0,
		"{'update': 'books', 'updates': [{'q': {'$and': [{'_id': 1}, {'_spill': "
		"{'$exists': false}}]}, 'u': {'$set': {'f.0': 9}}}], 'writeConcern': {'w': 1}, "
		"'$db': 'shop'}");
	play_reply(&play, RESULT(1));
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	cr_assert_eq(play.sequence->output.length, 0);
	expect_note(MOVER_EDITED);
	play_close(&play);
}

/* ---- helpers that fail ---- */

#define NOT_PRIMARY "{'ok': 0.0, 'code': 10107, 'errmsg': 'not primary'}"

/* Through `steps` replies of a fold, then the one to be tried. */
static void reach(size_t steps)
{
	static const char *const replies[] = {RESULT(0), FOUND(SPILLED),
					      FOUND(BATCH(1, 0, "3, 4, 5")), RESULT(1)};

	start(UPDATE(STATEMENT("{'_id': 1}", ""), ", " LSID ", " NUMBER));
	for (size_t i = 0; i < steps; i++)
		play_reply(&play, replies[i]);
}

/* A helper of ours may run in a transaction of ours. */
Test(edit, a_write_without_a_transaction_has_no_label_of_one)
{
	static const char failed[] = "{'errorLabels': ['TransientTransactionError'], 'ok': 0.0, "
				     "'code': 10107, 'errmsg': 'not primary'}";

	reach(1);
	play_reply(&play, failed);
	play_expect_answer(&play, "{'errorLabels': ['RetryableWriteError'], 'ok': 0.0, 'code': "
				  "10107, 'errmsg': 'not primary'}");
	play_close(&play);
	start(ONE);
	play_reply(&play, RESULT(0));
	play_reply(&play, failed);
	play_expect_answer(&play, "{'ok': 0.0, 'code': 10107, 'errmsg': 'not primary'}");
	play_close(&play);
}

Test(edit, a_change_of_primaries_is_retryable_wherever_it_meets_the_edit)
{
	for (size_t steps = 1; steps <= 3; steps++) {
		reach(steps);
		play_reply(&play, NOT_PRIMARY);
		play_expect_error(&play, 10107, "not primary");
		cr_assert(labelled("RetryableWriteError"), "step %zu", steps);
		play_close(&play);
	}
}

Test(edit, garbage_is_never_taken_for_an_answer)
{
	for (size_t steps = 0; steps <= 4; steps++) {
		reach(steps);
		play_reply_broken(&play);
		if (play.outcome == SEQUENCE_SEND) /* asked for nothing, to be answered */
			play_reply(&play, RESULT(0));
		cr_assert_eq(play.outcome, SEQUENCE_DONE, "step %zu: %d", steps, play.outcome);
		play_close(&play);
		reach(steps);
		play_reply_old(&play);
		cr_assert_eq(play.outcome, SEQUENCE_DONE, "step %zu: %d", steps, play.outcome);
		play_close(&play);
	}
}
