/* What no client and no server sends that means well, through the sequences: nothing of it may end
 * the process. */
#include "tests/unit/play.h"

#define FOUND(documents) \
	"{'cursor': {'firstBatch': [" documents "], 'id': {'$numberLong': '0'}, 'ns': " \
	"'shop.books'}, 'ok': 1.0}"
#define STATE(more) "'_spill': {'f': {'g': " G1 ", 'h': 2, 'n': 3" more "}}"

static struct play play;

/* mongod refuses a broken command as a whole. */
Test(sequence_hostile, a_broken_statement_behind_a_refused_one_refuses_the_command)
{
	struct made made = {.body = "{'update': 'books', '$db': 'shop'}",
			    .sequence = "updates",
			    .documents = "[{'q': {'_id': 1}, 'u': {'$set': {'_spill': 1}}}, {}]",
			    .id = PLAY_ID};
	struct buffer frame = made_frame(&made);

	frame.data[frame.length - 1] = 1; /* which ends the last statement */
	play_request_frame(&play, frame, VERDICT_REFUSE);
	play_expect_error(&play, 115, "that name is Spillway's own");
	play_close(&play);
}

/* An empty first batch of what a pattern matches asks an aggregate, which cannot say this. */
Test(sequence_hostile, a_projection_that_mongod_refuses_goes_to_mongod)
{
	struct element find;

	play_command(&play,
		     "{'find': 'posts', 'filter': {}, 'batchSize': 0, 'projection': {'_id': 0, "
		     "'likes': 1, 'z.$': 0}, '$db': 'tenant_1'}",
		     VERDICT_READ);
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
	cr_assert(document_find(play_message(&play).body, "find", &find));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'positional', 'code': 31395}");
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'in its words', 'code': 31395}"); /* explained */
	play_expect_error(&play, 31395, "in its words");
	play_close(&play);
}

/* Somebody has written it by hand: it is neither form of a state. */
Test(sequence_hostile, a_state_of_both_forms_is_not_compared)
{
	play_command(&play,
		     "{'update': 'books', 'updates': [{'q': {'_id': 1, 'f': {'$size': 7}}, 'u': "
		     "{'$inc': {'x': 1}}}], '$db': 'shop'}",
		     VERDICT_WRITE);
	play_reply(&play, "{'n': 0, 'nModified': 0, 'ok': 1.0}");
	play_reply(&play, FOUND("{'_id': 1, " STATE("") "}"));                  /* LOOK */
	play_reply(&play, FOUND("{'_id': 1, " STATE(", 'e': {}") ", '0': 7}")); /* SETTLE */
	cr_assert_eq(play.outcome, SEQUENCE_SEND); /* to be folded back */
	cr_assert(bytes_equal(play_find(play_message(&play).body, "find"),
			      play_find(made_bson("{'find': 'books_more'}"), "find")));
	play_close(&play);
}

static void begin_in_place(void)
{
	play_command(&play,
		     "{'update': 'books', 'updates': [{'q': {'_id': 1}, 'u': {'$set': {'f.0': "
		     "9}}}], '$db': 'shop'}",
		     VERDICT_WRITE);
	play_reply(&play, "{'n': 0, 'nModified': 0, 'ok': 1.0}");
	play_reply(&play, FOUND("{'_id': 1, " STATE("") "}"));
	play_reply(&play, FOUND("{'book': 1, '_spill': {'g': " G1 ", 'p': 0, 'i': 0}, 'more': "
				"[3, 4, 5]}"));
	play_reply(&play, "{'ok': 0.0, 'code': 10334, 'errmsg': 'too large'}");
	cr_assert(play.sequence->end.holds);
}

/* To HOLD, the first command of an edit in place. */
Test(sequence_hostile, an_image_without_the_parts_that_were_asked_is_not_edited)
{
	begin_in_place();
	play_reply(&play, "{'value': {'bytes': 17000000}, 'ok': 1.0}");
	play_reply(&play, "{'ok': 1.0}"); /* to the transaction's end */
	play_expect_error(&play, 112, "can't be read");
	play_close(&play);
}

#define SECOND(last) \
	"{'cursor': {'firstBatch': [{'_id': 7, 'f': [4, 5], 'x': 'what else it has', 'y': " last \
	"}], 'ns': 'shop.books'}, 'ok': 1.0}"

/* The second reply has no cursor's id: where the first one had its id, there is something else. */
Test(sequence_hostile, an_id_is_written_into_the_reply_that_had_it)
{
	play_command(&play, "{'find': 'books', 'projection': {'f': {'$slice': -2}}, '$db': 'shop'}",
		     VERDICT_READ);
	play_reply(&play, "{'cursor': {'id': {'$numberLong': '9'}, 'ns': 'shop.books', "
			  "'firstBatch': [{'_id': 7, 'f': [1, 5], " STATE("") "}]}, 'ok': 1.0}");
	play_reply(&play, "{'ok': 1.0}"); /* to killCursors */
	play_reply(&play, "{'cursor': {'id': {'$numberLong': '0'}, 'ns': 'shop.books', "
			  "'firstBatch': [{'_id': 7, 'f': [1, 2, 5], '_spill': {'/window': {'f': "
			  "[0, -2, false]}, 'f': {'g': " G1 ", 'h': 2, 'n': 2}}}]}, 'ok': 1.0}");
	play_reply(&play, FOUND(""));           /* no overflow */
	play_reply(&play, FOUND("{'_id': 7}")); /* rewritten */
	play_reply(&play, SECOND("{}, '_spill': {}"));
	play_expect_answer(&play, SECOND("{}"));
	play_close(&play);
}
