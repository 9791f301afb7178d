/* What no client and no server sends that means well, through the sequences: nothing of it may end
 * the process. */
#include "tests/unit/play.h"

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
