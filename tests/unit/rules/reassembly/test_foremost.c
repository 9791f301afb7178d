/* Tests rules/reassembly/foremost.c and its part of rules/read/sequence_aggregate.c: what comes
 * first in an array's order. What mongod makes of the stages is tests/e2e/test_foremost.py's and
 * the oracle's to test. */
#include "tests/unit/play.h"

#define FIND(fields) "{'find': 'books', " fields ", '$db': 'shop'}"
#define CURSOR(documents, number) \
	"{'cursor': {'firstBatch': [" documents "], 'id': {'$numberLong': '" #number \
	"'}, 'ns': 'shop.books'}, 'ok': 1.0}"
#define SHORT \
	"{'ok': 0.0, 'errmsg': 'Failed to parse objectId spillway: an outlier is not named " \
	"missing " \
	"in $convert', 'code': 241, 'codeName': 'ConversionFailure'}"
#define LOOK(filter, limit) \
	"{'find': 'books_more', 'filter': {" filter \
	"}, 'sort': {'more': 1}, 'limit': {'$numberLong': '" #limit \
	"'}, 'batchSize': {'$numberLong': '" #limit \
	"'}, 'projection': {'_id': 0, 'book': 1}, 'singleBatch': true, '$db': 'shop', " NEAREST \
	"}"
#define WHOLE "$graphLookup $replaceWith $unset"
#define ASKED "$match $sort $limit $unionWith $sort $limit $match " WHOLE
#define ASKED_NAMED "$match $sort $limit $unionWith $unionWith $sort $limit $match " WHOLE
#define ASKED_ALL WHOLE " $sort $limit"

static struct play play;

static void start(const char *command, const char *indexes)
{
	play.indexes = made_bson(indexes);
	play_command(&play, command, VERDICT_AGGREGATE);
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
}

static void ask(const char *command)
{
	start(command, "{'0': {'key': {'more': 1}}}");
}

static void expect_stage(const char *number, const char *json)
{
	struct element pipeline;

	cr_assert(document_find(play_message(&play).body, "pipeline", &pipeline));
	cr_assert(document_find(pipeline.value, number, &pipeline));
	made_expect(pipeline.value, json);
}

Test(foremost, one_command_suffices_if_no_outlier_comes_first)
{
	ask(FIND("'sort': {'f': -1}, 'limit': 3, 'skip': 2, 'projection': {'x': 1}"));
	cr_assert_str_eq(play_stages(&play),
			 "$match $sort $limit $unionWith $sort $limit $match $skip " WHOLE
			 " $project");
	expect_stage("0", "{'$match': {'$nor': [{'f': {'$size': 0}, '_spill.f.n': {'$gt': 0}}]}}");
	expect_stage("1", "{'$sort': {'f': -1}}");
	expect_stage("2", "{'$limit': {'$numberLong': '5'}}");
	expect_stage(
		"3",
		"{'$unionWith': {'coll': 'books_more', 'pipeline': [{'$match': {}}, {'$sort': "
		"{'more': "
		"-1}}, {'$limit': 1}, {'$replaceWith': {'f': '$more', '_spill': {'hit': 1}}}]}}");
	expect_stage("4", "{'$sort': {'f': -1, '_spill.hit': 1}}");
	expect_stage("5", "{'$limit': {'$numberLong': '5'}}");
	play_reply(&play, CURSOR("{'_id': 1, 'x': 1}", 0));
	play_expect_passed(&play);
	play_close(&play);
}

Test(foremost, outliers_are_named_and_put_together)
{
	ask(FIND("'sort': {'f': 1}, 'limit': 2"));
	cr_assert_str_eq(play_stages(&play), ASKED);
	play_reply(&play, SHORT);
	play_expect_helper(&play, LOOK("", 8));
	play_reply(&play, CURSOR("{'book': 7}, {'book': 'a'}, {'book': 7}", 0));
	cr_assert_str_eq(play_stages(&play), ASKED_NAMED);
	expect_stage("0", "{'$match': {'$nor': [{'f': {'$size': 0}, '_spill.f.n': {'$gt': 0}}], "
			  "'_id': {'$nin': [7, "
			  "'a']}}}");
	expect_stage(
		"4",
		"{'$unionWith': {'coll': 'books_more', 'pipeline': [{'$match': {'$expr': {'$not': "
		"[{'$in': "
		"['$book', {'$literal': [7, 'a']}]}]}}}, {'$sort': {'more': 1}}, {'$limit': 1}, "
		"{'$replaceWith': {'f': '$more', '_spill': {'hit': 1}}}]}}");
	/* another one has come before them meanwhile */
	play_reply(&play, SHORT);
	play_expect_helper(
		&play, LOOK("'$expr': {'$not': [{'$in': ['$book', {'$literal': [7, 'a']}]}]}", 32));
	play_reply(&play, CURSOR("{'book': 8}", 0));
	expect_stage("0", "{'$match': {'$nor': [{'f': {'$size': 0}, '_spill.f.n': {'$gt': 0}}], "
			  "'_id': {'$nin': [7, "
			  "'a', 8]}}}");
	play_reply(&play, CURSOR("{'_id': 8}, {'_id': 7}", 0));
	play_expect_passed(&play);
	play_close(&play);
}

/* What is as good as the last document may come before it by its _id. */
Test(foremost, a_tie_is_decided_by_the_id_if_the_client_says_so)
{
	ask(FIND("'sort': {'f': 1, '_id': -1}, 'limit': 2"));
	expect_stage("1", "{'$sort': {'f': 1, '_id': -1}}");
	expect_stage("4", "{'$sort': {'f': 1, '_spill.hit': -1, '_id': -1}}");
	play_close(&play);
}

Test(foremost, other_finds_and_other_indexes_have_all_outliers_put_together)
{
	static const char *const others[] = {
		FIND("'sort': {'f': 1}, 'limit': 2, 'filter': {'x': 1}"),
		FIND("'sort': {'f': 1}, 'limit': 2, 'collation': {'locale': 'de'}"),
		FIND("'sort': {'f': 1}, 'limit': 2, 'hint': {'_id': 1}"),
		FIND("'sort': {'f': 1}, 'limit': 2, '$readPreference': {'mode': 'secondary'}"),
		FIND("'sort': {'f': 1}, 'limit': 2, 'batchSize': 1"),
		FIND("'sort': {'f': 1}, 'limit': 251, 'batchSize': 500"),
		FIND("'sort': {'f': 1}, 'limit': 2, 'skip': 249"),
		FIND("'sort': {'f': 1}"),
		FIND("'sort': {'f.x': 1}, 'limit': 2"),
		FIND("'sort': {'x': 1, 'f': 1}, 'limit': 2"),
		FIND("'sort': {'f': 1, 'x': 1}, 'limit': 2"),
		FIND("'sort': {'f': 1, '_id': 1, 'x': 1}, 'limit': 2"),
		FIND("'sort': {'f': 1}, 'limit': 2, " TRANSACTION),
	};
	static const char *const indexes[] = {
		"{'0': {'key': {'book': 1, 'more': 1}}}",
		"{'0': {'key': {'more.x': 1}}}",
		"{'0': {'key': {'more': 1}, 'sparse': true}}",
		"{'0': {'key': {'more': 1}, 'partialFilterExpression': {'x': 1}}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
		ask(others[i]);
		cr_assert_not(strstr(play_stages(&play), "$unionWith"), "%s", others[i]);
		play_close(&play);
	}
	for (size_t i = 0; i < ARRAY_LENGTH(indexes); i++) {
		start(FIND("'sort': {'f': 1}, 'limit': 2"), indexes[i]);
		cr_assert_str_eq(play_stages(&play), ASKED_ALL, "%s", indexes[i]);
		play_close(&play);
	}
}

Test(foremost, looks_that_name_nobody_new_are_the_last)
{
	static const char *const looks[] = {
		CURSOR("", 0),
		CURSOR("{'book': {'a': 1}}, {}",
		       0), /* equal for a query, perhaps not for an expression */
		"{'ok': 0.0, 'errmsg': 'no', 'code': 50, 'codeName': 'MaxTimeMSExpired'}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(looks); i++) {
		ask(FIND("'sort': {'f': 1}, 'limit': 2"));
		play_reply(&play, SHORT);
		play_reply(&play, looks[i]);
		cr_assert_str_eq(play_stages(&play), ASKED_ALL, "%s", looks[i]);
		play_reply(&play, CURSOR("{'_id': 1}", 0));
		play_expect_passed(&play);
		play_close(&play);
	}
}

Test(foremost, three_looks_are_enough)
{
	static const char *const looks[] = {CURSOR("{'book': 1}", 0), CURSOR("{'book': 2}", 0),
					    CURSOR("{'book': 3}", 0)};

	ask(FIND("'sort': {'f': 1}, 'limit': 2"));
	for (size_t i = 0; i < ARRAY_LENGTH(looks); i++) {
		play_reply(&play, SHORT);
		play_reply(&play, looks[i]);
		cr_assert_str_eq(play_stages(&play), ASKED_NAMED);
	}
	play_reply(&play, SHORT);
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
}

Test(foremost, an_answer_that_proves_nothing_is_thrown_away)
{
	/* not all in one reply */
	ask(FIND("'sort': {'f': 1}, 'limit': 2"));
	play_reply(&play, CURSOR("{'_id': 1}", 9));
	play_expect_helper(
		&play,
		"{'killCursors': 'books', 'cursors': [{'$numberLong': '9'}], '$db': 'shop'}");
	play_reply(&play, "{'ok': 1.0}");
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
	/* garbage may have gone */
	ask(FIND("'sort': {'f': 1}, 'limit': 2"));
	play.now += UINT64_C(3600) * 1000000;
	play_reply(&play, CURSOR("{'_id': 1}", 0));
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
	/* mongod refuses what the client did not ask for */
	ask(FIND("'sort': {'f': 1}, 'limit': 2"));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'no', 'code': 9, 'codeName': 'FailedToParse'}");
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
}
