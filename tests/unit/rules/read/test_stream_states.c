/* Tests rules/read/stream_states.c: what is asked for the states of the documents of events. */
#include "tests/unit/play.h"

#define CURSOR(batch, documents, id, more) \
	"{'cursor': {'" batch "': [" documents "], 'id': {'$numberLong': '" id \
	"'}, 'ns': 'shop.books'" more "}, 'ok': 1.0}"
#define EVENTS(documents) \
	CURSOR("nextBatch", documents, "9", ", 'postBatchResumeToken': {'_data': '8201'}")
#define EVENT \
	"{'_id': {'_data': '8200'}, 'operationType': 'update', 'clusterTime': {'$timestamp': " \
	"{'t': 5, 'i': 1}}, 'ns': {'db': 'shop', 'coll': 'books'}, 'documentKey': {'_id': 1}, " \
	"'updateDescription': {'updatedFields': {'f.1': 1}, 'removedFields': [], " \
	"'truncatedArrays': []}}"

static struct play play;

static void start(void)
{
	const struct rule *rule;

	play_command(&play,
		     "{'getMore': {'$numberLong': '9'}, 'collection': 'books', '$db': 'shop'}",
		     VERDICT_READ);
	rule = rule_set_at(play.shop.config->rules, 0);
	((struct rule *)(uintptr_t)rule)->streams = RULE_STREAMS_EXACT;
	play_reply(&play, EVENTS(EVENT));
	cr_assert_gt(play_find(play_message(&play).body, "filter._id.$in").length, 0);
}

/* Where their states are many. */
Test(stream_states, a_list_that_the_server_cuts_is_gone_on_with)
{
	start();
	play_reply(&play, CURSOR("firstBatch", "", "7", ""));
	play_expect_helper(&play, "{'getMore': {'$numberLong': '7'}, 'collection': 'books', "
				  "'$db': 'shop'}");
	play_reply(&play, CURSOR("nextBatch", "{'_id': 1}", "0", ""));
	play_expect_answer(&play, EVENTS(EVENT));
	play_close(&play);
}

Test(stream_states, a_document_that_is_in_no_batch_is_missed)
{
	start();
	play_reply(&play, CURSOR("firstBatch", "", "7", ""));
	play_reply(&play, CURSOR("nextBatch", "", "0", ""));
	cr_assert(bytes_contain(play.sequence->output, "killCursors"));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_error(&play, 286, "a change of the document");
	play_close(&play);
}

/* As mongod labels an error of the stream itself. */
Test(stream_states, drivers_go_on_behind_a_change_of_primaries)
{
	start();
	play_reply(&play, "{'ok': 0.0, 'code': 11602, 'errmsg': 'state change'}");
	cr_assert(bytes_contain(play.sequence->output, "killCursors"));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_answer(&play, "{'ok': 0.0, 'code': 11602, 'errmsg': 'state change', "
				  "'errorLabels': ['ResumableChangeStreamError']}");
	play_close(&play);

	start();
	play_reply(&play, "{'ok': 0.0, 'code': 13, 'errmsg': 'no'}");
	play_reply(&play, "{'ok': 1.0}");
	play_expect_answer(&play, "{'ok': 0.0, 'code': 13, 'errmsg': 'no'}");
	play_close(&play);
}
