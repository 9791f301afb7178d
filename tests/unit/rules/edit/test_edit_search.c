/* Tests rules/edit/edit_search.c: an edit by a condition on the array asks the overflow which
 * outliers it may mean. */
#include "tests/unit/play.h"

#define UPDATE(q, u, more) \
	"{'update': 'books', 'updates': [{'q': " q ", 'u': " u more "}], '$db': 'shop'}"
#define CHANGE "{'$inc': {'x': 1}}"
#define ONE UPDATE("{'f': 5}", CHANGE, "")
#define MANY UPDATE("{'f': 5}", CHANGE, ", 'multi': true")
#define CURSOR(documents, id) \
	"{'cursor': {'firstBatch': [" documents "], 'id': {'$numberLong': '" #id \
	"'}, 'ns': 'shop.books'}, 'ok': 1.0}"
#define HIT(id, g) "{'_spill': {'id': " #id ", 'g': " g "}}"
#define HITS \
	"{'$unionWith': {'coll': 'books_more', 'pipeline': [{'$match': {'more': 5}}, {'$limit': " \
	"251}, {'$project': {'_id': 0, '_spill': {'id': '$book', 'g': '$_spill.g'}}}]}}"
#define NAMES "{'$limit': 2}, {'$project': {'_id': 1}}, "
#define ASKED(stages) \
	"{'aggregate': 'books', 'pipeline': [" stages HITS \
	"], 'cursor': {'batchSize': 254}, '$db': 'shop', " NEAREST "}"
#define MATCH(branches) "{'$match': {'$and': [{'$or': [" branches "]}]}}, "
#define WRITTEN(id) \
	UPDATE("{'$and': [{'f': 5}, {'_id': {'$eq': " #id "}}, {'_spill': {'$exists': false}}]}", \
	       CHANGE, "")
#define NOTHING \
	UPDATE("{'$and': [{'f': 5}, {'_id': {'$in': []}}, {'_spill': {'$exists': false}}]}", \
	       CHANGE, "")
#define DELETE "{'delete': 'books', 'deletes': [{'q': {'f': 5}, 'limit': 0}], '$db': 'shop'}"
#define DELETED(id) \
	"{'delete': 'books', 'deletes': [{'q': {'$and': [{'f': 5}, {'_id': {'$eq': " #id \
	"}}, {'_spill': {'$exists': false}}]}, 'limit': 0}], '$db': 'shop'}"
#define MODIFY(sort) \
	"{'findAndModify': 'books', 'query': {'f': 5}, 'update': " CHANGE ", 'sort': " sort \
	", '$db': 'shop'}"
#define RESULT(n) "{'n': " #n ", 'nModified': " #n ", 'ok': 1.0}"

#define ALL "$match $graphLookup $replaceWith $unset $match"
#define LOOKED "$match $graphLookup $graphLookup $replaceWith $unset $match"

static struct play play;

static void start(const char *command)
{
	play_command(&play, command, VERDICT_WRITE);
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
}

Test(edit_search, what_nothing_matches_takes_one_question)
{
	start(ONE);
	play_expect_helper(&play, ASKED(MATCH("{'f': 5}") NAMES));
	play_reply(&play, CURSOR("", 0));
	play_expect_sent(&play, 0, NOTHING);
	play_reply(&play, RESULT(0));
	play_expect_answer(&play, RESULT(0));
	play_close(&play);
}

Test(edit_search, hits_are_named_until_all_have_been)
{
	start(ONE);
	play_reply(&play, CURSOR("{'_id': 9}, " HIT(7, G1), 0));
	play_expect_named(&play, "{'$in': [7]}", "{'$in': ['$_spill.f.g', [" G1 "]]}");
	/* another generation has it by now */
	play_reply(&play, CURSOR("{'_id': 9}, " HIT(7, G2), 0));
	play_expect_named(&play, "{'$in': [7]}", "{'$in': ['$_spill.f.g', [" G2 "]]}");
	play_reply(&play, CURSOR("{'_id': 7}, " HIT(7, G2), 0));
	play_expect_sent(&play, 0, WRITTEN(7));
	play_close(&play);
}

Test(edit_search, which_of_several_is_told_by_the_order_in_which_mongod_meets_them)
{
	start(ONE);
	play_reply(&play, CURSOR("{'_id': 9}, {'_id': 7}", 0));
	cr_assert_str_eq(play_stages(&play), ALL " $limit $project");
	play_reply(&play, CURSOR("{'_id': 7}", 0));
	play_expect_sent(&play, 0, WRITTEN(7));
	play_close(&play);
	/* where all are written, conditions on other fields tell which is the first */
	start("{'update': 'posts', 'updates': [{'q': {'likes': 5, 'y': 1}, 'u': " CHANGE
	      ", 'multi': true}], '$db': 'tenant_1'}");
	play_reply(&play, CURSOR("{'_id': 9}, {'_id': 7}", 0));
	cr_assert_str_eq(play_stages(&play), ALL " $project");
	play_close(&play);
	/* without them it is the first one that is stored */
	start(MANY);
	cr_assert_str_eq(play_stages(&play), "$match $limit $project $sort $unionWith");
	play_reply(&play, CURSOR("{'_id': 9}, {'_id': 7}", 0));
	cr_assert(document_find(play_message(&play).body, "update", &(struct element){0}));
	play_close(&play);
	/* where they all go it is all one */
	start(DELETE);
	cr_assert_str_eq(play_stages(&play), "$match $limit $project $unionWith");
	play_reply(&play, CURSOR("{'_id': 9}, {'_id': 7}", 0));
	cr_assert(document_find(play_message(&play).body, "delete", &(struct element){0}));
	play_close(&play);
}

Test(edit_search, arrays_are_put_together_where_more_is_asked_of_them)
{
	start(UPDATE("{'f': 5, 'f.1': {'$exists': true}}", CHANGE, ""));
	cr_assert_str_eq(play_stages(&play), ALL " $limit $project $unionWith");
	play_close(&play);
}

Test(edit_search, an_array_that_was_rewritten_meanwhile_is_asked_for_again)
{
	start(UPDATE("{'f': 5, 'f.1': {'$exists': true}}", CHANGE, ""));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'spillway: the generation ended', 'code': 241}");
	cr_assert_eq(play.outcome, SEQUENCE_PAUSE);
	play_resume(&play, NULL, false);
	cr_assert_str_eq(play_stages(&play), LOOKED " $limit $project $unionWith");
	play_close(&play);
}

/* Where the overflow does not answer, or not in one reply. */
Test(edit_search, all_outliers_are_put_together_else)
{
	char many[8200] = "", reply[8400];
	size_t length = 0;

	start(ONE);
	for (int i = 1; i <= 4; i++) {
		cr_assert_str_eq(play_stages(&play), "$match $limit $project $unionWith");
		snprintf(reply, sizeof(reply),
			 "{'cursor': {'firstBatch': [{'_spill': {'id': %d, 'g': 1}}], 'id': "
			 "{'$numberLong': '0'}, 'ns': 'shop.books'}, 'ok': 1.0}",
			 i);
		play_reply(&play, reply);
	}
	cr_assert_str_eq(play_stages(&play), ALL " $limit $project");
	play_reply(&play, CURSOR("{'_id': 7}", 0));
	play_expect_sent(&play, 0, WRITTEN(7));
	play_close(&play);

	start(ONE);
	play_reply(&play, "{'ok': 0.0, 'code': 13, 'codeName': 'Unauthorized', 'errmsg': 'no'}");
	cr_assert_str_eq(play_stages(&play), ALL " $limit $project");
	play_close(&play);

	start(ONE);
	play.now += 60000000; /* garbage may have gone */
	play_reply(&play, CURSOR("", 0));
	cr_assert_str_eq(play_stages(&play), ALL " $limit $project");
	play_close(&play);

	start(ONE);
	for (int i = 0; i < 251; i++)
		length += (size_t)snprintf(many + length, sizeof(many) - length,
					   "%s{'_spill': {'id': 7, 'g': 1}}", i ? "," : "");
	snprintf(reply, sizeof(reply),
		 "{'cursor': {'firstBatch': [%s], 'id': {'$numberLong': '0'}, 'ns': "
		 "'shop.books'}, 'ok': 1.0}",
		 many);
	play_reply(&play, reply);
	cr_assert_str_eq(play_stages(&play), ALL " $limit $project");
	play_close(&play);

	start(MANY); /* where all are meant, and none is put together, so many are named */
	play_reply(&play, reply);
	cr_assert_str_eq(play_stages(&play), "$match $limit $project $sort $unionWith");
	play_close(&play);
}

Test(edit_search, more_documents_than_a_reply_has_room_for_are_searched)
{
	char documents[13000] = "", reply[13200];
	size_t length = 0;

	for (int i = 0; i < 1001; i++)
		length += (size_t)snprintf(documents + length, sizeof(documents) - length,
					   "%s{'_id': 1}", i ? "," : "");
	snprintf(reply, sizeof(reply),
		 "{'cursor': {'firstBatch': [%s], 'id': {'$numberLong': '0'}, 'ns': "
		 "'shop.books'}, 'ok': 1.0}",
		 documents);
	start(DELETE);
	play_reply(&play, reply);
	cr_assert_str_eq(play_stages(&play), ALL " $project");
	play_close(&play);
}

Test(edit_search, a_cursor_that_stays_open_is_killed)
{
	start(ONE);
	play_reply(&play, CURSOR("{'_id': 7}", 9));
	play_expect_helper(&play, "{'killCursors': 'books', 'cursors': [{'$numberLong': '9'}], "
				  "'$db': 'shop'}");
	play_reply(&play, "{'ok': 1.0}");
	cr_assert_str_eq(play_stages(&play), ALL " $limit $project");
	play_close(&play);
}

Test(edit_search, the_overflow_is_not_asked)
{
	/* nobody else judges in mongod's order, a hint says where to look */
	start(UPDATE("{'f': 5, '$expr': {'$gt': ['$x', 1]}}", CHANGE, ""));
	cr_assert_str_eq(play_stages(&play), ALL " $limit $project");
	play_close(&play);
	start(UPDATE("{'f': 5}", CHANGE, ", 'hint': {'x': 1}"));
	cr_assert_str_eq(play_stages(&play), ALL " $limit $project");
	play_close(&play);
	play_command(&play, MODIFY("{'x': 1}"), VERDICT_FIND_AND_MODIFY);
	cr_assert_str_eq(play_stages(&play), ALL " $sort $limit $project");
	play_close(&play);
	/* no transaction takes a $unionWith */
	start("{'update': 'books', 'updates': [{'q': {'f': 5}, 'u': " CHANGE
	      "}], '$db': 'shop', " TRANSACTION "}");
	play_reply(&play, RESULT(0));
	cr_assert_str_eq(play_stages(&play), LOOKED " $limit $project");
	play_close(&play);
}

Test(edit_search, a_search_that_is_ended_does_not_begin_anew)
{
	static const char ended[] =
		"{'ok': 0.0, 'code': 11601, 'errmsg': 'operation was interrupted'}";

	start(ONE);
	play_reply(&play, ended);
	play_expect_answer(&play, ended);
	play_close(&play);
}

#define AGAIN LSID ", " NUMBER
#define ONE_AGAIN \
	"{'update': 'books', 'updates': [{'q': {'f': 5}, 'u': " CHANGE "}], " AGAIN \
	", '$db': 'shop'}"
#define HISTORY \
	"{'update': 'books', 'updates': [{'q': {'$and': [{'f': 5}, {'_id': {'$in': []}}, " \
	"{'_spill': {'$exists': false}}]}, 'u': " CHANGE "}], " AGAIN \
	", '$db': 'shop', 'stmtIds': [0]}"
#define DONE_BEFORE "{'n': 1, 'retriedStmtIds': [0], 'nModified': 1, 'ok': 1.0}"

/* What the search looks for is gone by an attempt whose reply was lost. */
Test(edit_search, a_write_that_is_sent_again_has_its_answer_though_the_search_fails)
{
	static const char late[] = "{'ok': 0.0, 'code': 50, 'errmsg': 'operation exceeded time'}";
	static const char denied[] = "{'ok': 0.0, 'code': 13, 'errmsg': 'not authorized'}";
	static const char *const failures[] = {late, denied};

	for (size_t i = 0; i < ARRAY_LENGTH(failures); i++) {
		start(ONE_AGAIN);
		play_reply(&play, failures[i]);
		if (i == 1) /* to the overflow's part: the whole collection is asked, too */
			play_reply(&play, failures[i]);
		play_expect_sent(&play, 0, HISTORY);
		play_reply(&play, DONE_BEFORE);
		play_expect_answer(&play, DONE_BEFORE);
		play_close(&play);
	}
	play_command(&play,
		     "{'findAndModify': 'books', 'query': {'f': 5}, 'update': " CHANGE ", " AGAIN
		     ", '$db': 'shop'}",
		     VERDICT_FIND_AND_MODIFY);
	play_reply(&play, late);
	play_reply(&play, "{'lastErrorObject': {'n': 1, 'updatedExisting': true}, 'value': {'_id': "
			  "7}, 'retriedStmtId': 0, 'ok': 1.0}");
	play_expect_answer(&play, "{'lastErrorObject': {'n': 1, 'updatedExisting': true}, "
				  "'value': {'_id': 7}, 'retriedStmtId': 0, 'ok': 1.0}");
	play_close(&play);
}

Test(edit_search, a_search_that_fails_behind_no_attempt_is_the_answer)
{
	static const char late[] = "{'ok': 0.0, 'code': 50, 'errmsg': 'operation exceeded time'}";
	static const char denied[] = "{'ok': 0.0, 'code': 13, 'errmsg': 'not authorized'}";

	start(ONE_AGAIN);
	play_reply(&play, late);
	play_expect_sent(&play, 0, HISTORY);
	play_reply(&play, RESULT(0));
	play_expect_answer(&play, late);
	play_close(&play);
	start(ONE_AGAIN);
	play_reply(&play, denied);
	play_reply(&play, denied);
	play_reply(&play, RESULT(0));
	play_expect_error(&play, 13, "may not read what this write needs");
	play_close(&play);
	/* history was asked by the write of the document that was found */
	start(ONE_AGAIN);
	play_reply(&play, CURSOR("{'_id': 9}", 0));
	play_reply(&play, RESULT(0));
	play_reply(&play, denied);
	play_expect_error(&play, 13, "may not read what this write needs");
	play_close(&play);
}
