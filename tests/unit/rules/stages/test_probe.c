/* Tests rules/stages/probe.c and its part of rules/read/sequence_aggregate.c: the overflow tells
 * which outliers can match. What mongod makes of the stages is the oracle's to test. */
#include "tests/unit/play.h"

#include "protocol/writer.h"

#define HIT(id, g) "{'_spill': {'id': " #id ", 'g': " g "}}"
#define CURSOR(documents, number) \
	"{'cursor': {'firstBatch': [" documents "], 'id': {'$numberLong': '" #number \
	"'}, 'ns': 'shop.books'}, 'ok': 1.0}"
#define FIND(fields) "{'find': 'books', " fields ", '$db': 'shop'}"
#define COUNT(query) "{'count': 'books', 'query': " query ", '$db': 'shop'}"
#define COUNTS_THERE \
	", '_spill.f.h': {'$gte': 0}, '_spill.f.n': {'$gte': 0}, '_spill.0': {'$exists': false}"
#define DIED \
	"{'ok': 0.0, 'errmsg': 'Failed to parse objectId spillway: the generation ended 3 in " \
	"$convert', 'code': 241, 'codeName': 'ConversionFailure'}"
#define ASKED_LIGHTLY "$match $replaceWith $unset $limit $unionWith"
#define ASKED_WHOLE "$match $graphLookup $replaceWith $unset $match $limit $unionWith"
#define LOOKED_WHOLE "$match $graphLookup $graphLookup $replaceWith $unset $match $limit $unionWith"
#define LOOKED_ALL "$match $graphLookup $graphLookup $replaceWith $unset $match"
#define ASKED_ALL "$match $graphLookup $replaceWith $unset $match"

static struct play play;

static void start(const char *command)
{
	play_command(&play, command, VERDICT_AGGREGATE);
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
}

static void expect_stage(const char *number, const char *json)
{
	struct element pipeline;

	cr_assert(document_find(play_message(&play).body, "pipeline", &pipeline));
	cr_assert(document_find(pipeline.value, number, &pipeline));
	made_expect(pipeline.value, json);
}

Test(probe, main_is_asked_first_and_the_overflow_behind_it)
{
	start(FIND("'filter': {'f': 5}"));
	cr_assert_str_eq(play_stages(&play), ASKED_LIGHTLY);
	expect_stage("0", "{'$match': {'$and': [{'$or': [{'f': 5}]}]}}");
	expect_stage("3", "{'$limit': {'$numberLong': '101'}}");
	expect_stage("4", "{'$unionWith': {'coll': 'books_more', 'pipeline': [{'$match': {'more': "
			  "5}}, {'$limit': 251}, {'$project': {'_id': 0, '_spill': {'id': '$book', "
			  "'g': '$_spill.g'}}}]}}");
	play_reply(&play, CURSOR("{'_id': 1, 'f': [5]}", 0));
	play_expect_answer(&play, CURSOR("{'_id': 1, 'f': [5]}", 0));
	play_close(&play);
}

Test(probe, hits_are_named_until_all_have_been)
{
	start(FIND("'filter': {'f': 5}, 'projection': {'x': 1}"));
	cr_assert_str_eq(play_stages(&play), "$match $limit $project $unionWith");
	play_reply(&play, CURSOR(HIT(7, G1) "," HIT(8, G2), 0));
	play_expect_named(&play, "{'$in': [7, 8]}", "{'$in': ['$_spill.f.g', [" G1 ", " G2 "]]}");
	/* meanwhile another generation has it */
	play_reply(&play, CURSOR("{'_id': 8}, " HIT(7, G2) "," HIT(8, G2), 0));
	play_expect_named(&play, "{'$in': [7, 8]}", "{'$in': ['$_spill.f.g', [" G2 ", " G2 "]]}");
	play_reply(&play, CURSOR("{'_id': 7, 'x': 1}, {'_id': 8}, " HIT(7, G2), 0));
	play_expect_answer(&play, CURSOR("{'_id': 7, 'x': 1}, {'_id': 8}", 0));
	play_close(&play);
}

Test(probe, one_hit_and_no_document_of_main_is_asked_for_alone)
{
	start(FIND("'filter': {'f': 5}, 'projection': {'x': 1}"));
	play_reply(&play, CURSOR(HIT(7, G1) "," HIT(7, G2), 0));
	made_expect(play_message(&play).body,
		    FIND("'filter': {'$and': [{'_id': {'$in': [7, 7]}, '_spill.f.g': {'$in': [" G1
			 ", " G2 "]}" COUNTS_THERE "}]}, 'projection': {'x': 1}"));
	play_reply(&play, CURSOR("{'_id': 7, 'x': 1}", 0));
	play_expect_answer(&play, CURSOR("{'_id': 7, 'x': 1}", 0));
	play_close(&play);
	/* it is of another generation now, or doesn't meet the other conditions */
	start(FIND("'filter': {'f': 5}, 'projection': {'x': 1}"));
	play_reply(&play, CURSOR(HIT(7, G1), 0));
	play_reply(&play, CURSOR("", 0));
	cr_assert_str_eq(play_stages(&play), "$match $limit $project $unionWith");
	play_expect_named(&play, "{'$in': [7]}", "{'$in': ['$_spill.f.g', [" G1 "]]}");
	play_reply(&play, CURSOR(HIT(7, G1), 0));
	play_expect_answer(&play, CURSOR("", 0));
	play_close(&play);
	/* not alone: main had one, or documents are skipped */
	start(FIND("'filter': {'f': 5}, 'projection': {'x': 1}"));
	play_reply(&play, CURSOR("{'_id': 1}, " HIT(7, G1), 0));
	cr_assert_str_eq(play_stages(&play), "$match $limit $project $unionWith");
	play_close(&play);
	start(FIND("'filter': {'f': 5}, 'projection': {'x': 1}, 'skip': 1"));
	play_reply(&play, CURSOR(HIT(7, G1), 0));
	cr_assert_str_eq(play_stages(&play), "$match $skip $limit $project $unionWith");
	play_close(&play);
	/* put together where it is returned whole */
	start(FIND("'filter': {'f': 5}"));
	play_reply(&play, CURSOR(HIT(7, G1), 0));
	cr_assert_str_eq(play_stages(&play), "$match $graphLookup $replaceWith $unset $limit");
	play_reply(&play, CURSOR("{'_id': 7, 'f': [5]}", 0));
	play_expect_answer(&play, CURSOR("{'_id': 7, 'f': [5]}", 0));
	play_close(&play);
}

static bool has_hint(void)
{
	struct element hint;

	return document_find(play_message(&play).body, "hint", &hint);
}

/* By which no document is found that is named by its _id; mongod has judged it before. */
Test(probe, a_hint_of_the_arrays_index_goes_when_documents_are_named)
{
	static const struct {
		const char *hint;
		bool stays;
	} cases[] = {{"{'f': 1}", false}, {"'by_f'", false}, {"{'x': 1}", true}, {"'by_x'", true}};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		char command[200];

		snprintf(command, sizeof(command),
			 FIND("'filter': {'f': 5}, 'projection': {'x': 1}, 'hint': %s"),
			 cases[i].hint);
		start(command);
		known_indexes_take(rule_set_indexes(play.shop.config->rules, bytes_of("shop"),
						    bytes_of("books")),
				   made_bson("{'0': {'name': 'by_f', 'key': {'f': 1}}, "
					     "'1': {'name': 'by_x', 'key': {'x': 1}}}"));
		cr_assert(has_hint());
		play_reply(&play, CURSOR(HIT(7, G1), 0));
		cr_assert_eq(has_hint(), cases[i].stays);
		play_reply(&play, CURSOR("", 0));
		cr_assert_str_eq(play_stages(&play), "$match $limit $project $unionWith");
		cr_assert_eq(has_hint(), cases[i].stays);
		play_close(&play);
	}
}

Test(probe, the_one_hit_is_found_by_the_clients_own_find_where_it_names_fields)
{
	static const char *const others[] = {
		FIND("'filter': {'f': 5}, 'projection': {'x': {'$add': ['$y', 1]}}"),
		FIND("'filter': {'f': 5}, 'projection': {'y': {'$elemMatch': {'z': 1}}}"),
		FIND("'filter': {'f': 5}, 'projection': {'x': 1}, 'sort': {'y': 1}"),
	};

	start(FIND("'filter': {'f': 5}, 'projection': {'x': true, '_id': 0}, 'limit': 2, "
		   "'readConcern': {'level': 'local'}, 'collation': {'locale': 'de'}"));
	play_reply(&play, CURSOR(HIT(7, G1), 0));
	made_expect(play_message(&play).body,
		    FIND("'filter': {'$and': [{'_id': {'$in': [7]}, '_spill.f.g': "
			 "{'$in': [" G1 "]}" COUNTS_THERE
			 "}]}, 'projection': {'x': true, '_id': 0}, 'limit': 2, "
			 "'readConcern': {'level': 'local'}, 'collation': {'locale': 'de'}"));
	play_reply(&play, CURSOR("{'x': 1}", 0));
	play_expect_answer(&play, CURSOR("{'x': 1}", 0));
	play_close(&play);
	for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
		start(others[i]);
		cr_assert(strstr(play_stages(&play), "$unset"), "%s", others[i]);
		play_reply(&play, CURSOR(HIT(7, G1), 0));
		cr_assert(strstr(play_stages(&play), "$unset"), "%s", others[i]);
		play_close(&play);
	}
}

Test(probe, hits_that_never_end_are_left_to_the_dear_way)
{
	start(COUNT("{'f': 5}"));
	cr_assert_str_eq(play_stages(&play), "$match $unset $count $unionWith");
	play_reply(&play, CURSOR("{'n': 3}," HIT(1, G1), 0));
	play_reply(&play, CURSOR("{'n': 3}," HIT(2, G1), 0));
	play_reply(&play, CURSOR("{'n': 3}," HIT(3, G1), 0));
	cr_assert_str_eq(play_stages(&play), "$match $unset $count $unionWith");
	play_reply(&play, CURSOR("{'n': 3}," HIT(4, G1), 0));
	cr_assert_str_eq(play_stages(&play), ASKED_ALL " $count");
	play_reply(&play, CURSOR("{'n': 5}", 0));
	play_expect_answer(&play, "{'n': 5, 'ok': 1.0}");
	play_close(&play);
}

Test(probe, a_count_without_documents_is_no_hit)
{
	start(COUNT("{'f': 5}"));
	play_reply(&play, CURSOR(HIT(1, G1), 0));
	play_reply(&play, CURSOR(HIT(1, G1), 0));
	play_expect_answer(&play, "{'n': 0, 'ok': 1.0}");
	play_close(&play);
	start("{'distinct': 'books', 'key': 'x', 'query': {'f': 5}, '$db': 'shop'}");
	play_reply(&play, CURSOR("{'_id': null, 'values': [1]}", 0));
	play_expect_answer(&play, "{'values': [1], 'ok': 1.0}");
	play_close(&play);
}

Test(probe, an_outlier_among_the_documents_is_put_together)
{
	start(FIND("'filter': {'f': 5}"));
	play_reply(&play, CURSOR("{'_id': 1, 'f': [5]}, " HIT(7, G1), 0));
	cr_assert_str_eq(play_stages(&play), ASKED_LIGHTLY);
	play_reply(&play, DIED);
	cr_assert_str_eq(play_stages(&play), ASKED_WHOLE);
	expect_stage("0", "{'$match': {'$and': [{'$or': [{'f': 5}, {'_id': {'$in': [7]}}]}]}}");
	play_reply(&play, DIED);
	cr_assert_str_eq(play_stages(&play), LOOKED_WHOLE);
	play_reply(&play, CURSOR("{'_id': 1, 'f': [5]}, {'_id': 7, 'f': [5]}, " HIT(7, G1), 0));
	play_expect_answer(&play, CURSOR("{'_id': 1, 'f': [5]}, {'_id': 7, 'f': [5]}", 0));
	play_close(&play);
}

Test(probe, what_does_not_end_in_one_reply_goes_the_dear_way)
{
	/* as many documents as the client wants at a time: it may not be all */
	start(FIND("'filter': {'f': 5}, 'batchSize': 2"));
	expect_stage("3", "{'$limit': {'$numberLong': '2'}}");
	play_reply(&play, CURSOR("{'_id': 1}, {'_id': 2}", 0));
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
	/* it is, where it wants no more */
	start(FIND("'filter': {'f': 5}, 'batchSize': 2, 'limit': 2"));
	play_reply(&play, CURSOR("{'_id': 1}, {'_id': 2}", 0));
	play_expect_answer(&play, CURSOR("{'_id': 1}, {'_id': 2}", 0));
	play_close(&play);
	/* too many bytes */
	start(FIND("'filter': {'f': 5}, 'lsid': {'id': 1}"));
	play_reply(&play, CURSOR("{'_id': 1}", 9));
	play_expect_helper(&play, "{'killCursors': 'books', 'cursors': [{'$numberLong': '9'}], "
				  "'$db': 'shop', 'lsid': {'id': 1}}");
	play_reply(&play, "{'ok': 1.0}");
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
	start(FIND("'filter': {'f': 5}, 'batchSize': 1"));
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
}

Test(probe, too_many_hits_or_none_that_can_be_told_go_the_dear_way)
{
	auto_buffer struct buffer many = {0};

	for (int i = 0; i < 251; i++)
		buffer_append(&many, i ? "," HIT(1, G1) : HIT(1, G1),
			      strlen(i ? "," HIT(1, G1) : HIT(1, G1)));
	buffer_append(&many, "", 1);
	start(FIND("'filter': {'f': 5}"));
	play_reply(&play, made_text("{'cursor': {'firstBatch': [%s], 'id': 0}, 'ok': 1.0}",
				    (const char *)many.data));
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
	start(FIND("'filter': {'f': 5}"));
	play_reply(&play, CURSOR("{'_spill': {'g': 1}}", 0));
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
	start(FIND("'filter': {'f': 5}"));
	play_reply(&play, "{'cursor': {}, 'ok': 1.0}");
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
}

Test(probe, garbage_may_have_gone_meanwhile)
{
	start(FIND("'filter': {'f': 5}"));
	play.now += 60000000;
	play_reply(&play, CURSOR("{'_id': 1}", 0));
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_close(&play);
	start(FIND("'filter': {'f': 5}"));
	play.now += 59000000;
	play_reply(&play, CURSOR("{'_id': 1}", 0));
	play_expect_answer(&play, CURSOR("{'_id': 1}", 0));
	play_close(&play);
	start(FIND("'filter': {'f': 5}, 'maxTimeMS': 1000"));
	play.now += 61000000;
	play_reply(&play, CURSOR("{'_id': 1}", 0));
	play_expect_error(&play, 50, "time limit");
	play_close(&play);
}

Test(probe, an_error_is_told_as_the_dear_way_has_it)
{
	start(FIND("'filter': {'f': 5}"));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'no', 'code': 2}");
	cr_assert_str_eq(play_stages(&play), ASKED_ALL);
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'PlanExecutor error: no', 'code': 2}");
	play_expect_answer(&play, "{'ok': 0.0, 'errmsg': 'PlanExecutor error: no', 'code': 2}");
	play_close(&play);
	/* no transaction takes a $unionWith */
	start(FIND("'filter': {'f': 5}, " TRANSACTION));
	cr_assert_str_eq(play_stages(&play), LOOKED_ALL);
	play_close(&play);
}

Test(probe, a_read_that_is_ended_does_not_begin_anew)
{
	static const char *const ended[] = {
		"{'ok': 0.0, 'errmsg': 'operation was interrupted', 'code': 11601}",
		"{'ok': 0.0, 'errmsg': 'operation exceeded time limit', 'code': 50}",
		"{'ok': 0.0, 'errmsg': 'not primary', 'code': 10107}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(ended); i++) {
		start(FIND("'filter': {'f': 5}"));
		play_reply(&play, ended[i]);
		play_expect_answer(&play, ended[i]);
		play_close(&play);
	}
}

Test(probe, arrays_are_put_together_where_more_is_asked_of_them)
{
	static const char *const commands[] = {
		FIND("'filter': {'f': {'$in': [1, 2], '$ne': 3}}"),
		FIND("'filter': {'f.x': 5, 'f.y': 6}"),
		FIND("'filter': {'$and': [{'f': 5}, {'$or': [{'f': 6}, {'f': 7}]}]}"),
		FIND("'filter': {'f': {'$size': 3, '$eq': 5}}"),
		FIND("'filter': {'f': {'$all': [[1], 2, 3]}}"),
		FIND("'filter': {'f': {'$all': [{'$elemMatch': {'x': 1}}]}}"),
	};

	for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
		start(commands[i]);
		cr_assert_str_eq(play_stages(&play), ASKED_WHOLE, "%s", commands[i]);
		play_close(&play);
	}
	start(FIND("'filter': {'f': 5}, 'sort': {'f': 1}"));
	cr_assert_str_eq(play_stages(&play),
			 "$match $graphLookup $replaceWith $unset $match $sort $limit "
			 "$unionWith");
	play_close(&play);
}

/* What the movers told of the indexes on the overflow of shop.books; empty: nothing yet. */
static struct bytes known_indexes;

static bool asks_overflow(const char *command)
{
	bool asks;

	play.indexes = known_indexes;
	start(command);
	asks = strstr(play_stages(&play), "$unionWith") != NULL;
	play_close(&play);
	return asks;
}

Test(probe, what_one_element_satisfies)
{
	static const char *const filters[] = {
		"{'f': 'a'}",
		"{'f': {'$eq': true}}",
		"{'f': {'x': 1, 'y': [2]}}",
		"{'f': {'$in': [1, 'a']}}",
		"{'f.x': {'$date': '2020-01-01T00:00:00Z'}}",
		"{'f': {'$elemMatch': {'x': {'$ne': 1}}}}",
		"{'f': {'$regularExpression': {'pattern': 'a', 'options': 'i'}}}",
		"{'$and': [{'$and': [{'f.x.y': 1}]}]}",
		"{'f': {'$in': [1], '$exists': true}}",
		"{'f': 5, '$comment': 'c'}",
		"{'f': {'$all': [null, 2]}}",
		"{'$or': [{'f': 1}, {'f': 2}]}",
		"{'$or': [{'f': 1, 'y': 2}, {'x': 1}, {'$and': [{'f.x': {'$in': [2, 3]}}]}]}",
		"{'f': {'$all': [{'$elemMatch': {'x': 1}}, {'$elemMatch': {'x': 2}}]}}",
		"{'f': {'$regex': '^a'}}",
		"{'f.x': {'$regex': 'a', '$options': 'i'}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(filters); i++)
		cr_assert(asks_overflow(made_text(COUNT("%s"), filters[i])), "%s", filters[i]);
}

/* Each of them goes the dear way: the array decides as a whole, or it may cost more. */
Test(probe, what_one_element_does_not_satisfy)
{
	static const char *const filters[] = {
		"{'f': [1]}",
		"{'f': {'$eq': [1]}}",
		"{'f': {'$eq': null}}",
		"{'f': null}",
		"{'f.x': null}",
		"{'f': {}}",
		"{'f': {'$in': [1, [2]]}}",
		"{'f': {'$in': [1, null]}}",
		"{'f': {'$ne': 1}}",
		"{'f': {'$nin': [1]}}",
		"{'f': {'$not': {'$eq': 1}}}",
		"{'f': {'$all': []}}",
		"{'f': {'$all': [[1], null, {'x': 1}]}}",
		"{'f': {'$all': 5}}",
		"{'f': {'$all': [{'x': 1, '$elemMatch': {'y': 1}}]}}", /* a document's own field */
		"{'f': {'$size': 3}}",
		"{'f.x': {'$exists': false}}",
		"{'f': {'$exists': true}}",
		"{'f.0': 5}",
		"{'f.x.0': 5}",
		"{'f': {'$gt': 5}}", /* no index */
		"{'f': {'$gte': [5]}}",
		"{'f': {'$lt': {'$maxKey': 1}}}",
		"{'$or': [{'f': 1}, {'f': null}]}",
		"{'$or': [{'f': 1}, {'f': {'$gt': 2}}]}", /* no index */
		"{'$or': [{'f': 1}, {'$or': [{'f': 2}]}]}",
		"{'$or': [{'f': 1}, {'has_extras': true}]}",
		"{'$or': [{'f': 1}, 5]}",
		"{'$or': [{'f': 1}, {'x': 1}], 'y': 1}", /* no index */
		"{'$nor': [{'f': 1}]}",
		"{'$expr': {'$in': [5, '$f']}}",
		"{'f': 5, '$expr': {'$gt': [{'$size': '$f'}, 2]}}",
		"{'f': 5, 'x': 1}", /* no index */
		"{'f': 5, '_id': 1}",
		"{'f': 5, '$and': []}", /* mongod refuses it */
		"{'$or': [{'f': 5, '$and': []}]}",
		"{'f': {'$mod': [2, 0]}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(filters); i++)
		cr_assert_not(asks_overflow(made_text(COUNT("%s"), filters[i])), "%s", filters[i]);
}

#define POSTS(fields) "{'find': 'posts', " fields ", '$db': 'tenant_1'}"

Test(probe, an_index_makes_more_worth_asking)
{
	cr_assert(asks_overflow(POSTS("'filter': {'likes': 5, 'x': 1}")));
	cr_assert(asks_overflow(POSTS("'filter': {'likes': {'$gt': 5, '$lt': 7}}")));
	cr_assert_not(asks_overflow(POSTS("'filter': {'likes.x': 5, 'x': 1}")));
	cr_assert_not(asks_overflow(POSTS("'filter': {'likes': 5, '_id': {'$in': [1]}}")));
	cr_assert_not(
		asks_overflow(POSTS("'filter': {'likes': 5, '_id': {'$gt': 1, '$in': [2]}}")));
	cr_assert(asks_overflow(POSTS("'filter': {'likes': 5, '_id': {'$gt': 1, '$lte': 9}}")));
	cr_assert(asks_overflow(POSTS("'filter': {'likes': 5, '$expr': {'$gt': ['$x', 1]}}")));
	cr_assert_not(
		asks_overflow(POSTS("'filter': {'likes': 5, '$or': [{'x': 1}, {'$expr': 1}]}")));
	cr_assert_not(asks_overflow(POSTS("'filter': {'likes': 5, '$expr': {'$size': '$likes'}}")));
}

/* The condition of which it is: the first stage's, in the overflow's own name. */
static void expect_asked(const char *command, const char *filter)
{
	struct element pipeline, last = {0}, join, stages, first;
	struct cursor cursor;

	start(command);
	require(document_find(play_message(&play).body, "pipeline", &pipeline));
	require(cursor_open(&cursor, pipeline.value));
	while (cursor_next(&cursor, &first) == CURSOR_ELEMENT)
		last = first;
	require(document_find(last.value, "$unionWith", &join) &&
		document_find(join.value, "pipeline", &stages) &&
		document_find_path(stages.value, "0.$match", &first));
	made_expect(first.value, filter);
	play_close(&play);
}

/* A document is drawn by lot once: where it is matched again, only then. */
Test(probe, what_may_be_another_the_next_time_is_looked_at_once)
{
#define DRAWN "'$expr': {'$lt': [{'$rand': {}}, 0.5]}"
	start(POSTS("'filter': {'likes': {'$gt': 3}, 'likes.x': 5, " DRAWN "}"));
	expect_stage("0", "{'$match': {'$and': [{'$or': [{'likes': {'$gt': 3}}]}]}}");
	play_close(&play);
	start(POSTS("'filter': {'likes': 3, " DRAWN "}"));
	expect_stage("0", "{'$match': {'$and': [{" DRAWN "}, {'$or': [{'likes': 3}]}]}}");
	cr_assert_str_eq(play_stages(&play), "$match $replaceWith $unset $limit $unionWith");
	play_close(&play);
	cr_assert_not(asks_overflow(POSTS("'filter': {'likes': 3, '$sampleRate': 0.5}")));
#undef DRAWN
}

Test(probe, a_condition_that_has_an_index_is_asked_first)
{
	expect_asked(POSTS("'filter': {'likes.x': 5, 'likes': {'$gt': 7}}"),
		     "{'likes': {'$gt': 7}}");
	expect_asked(POSTS("'filter': {'likes': 3, 'likes.x': 5}"), "{'likes': 3}");
	expect_asked(POSTS("'filter': {'likes.x': 5, '$or': [{'likes': 3}, {'likes': 4}]}"),
		     "{'$or': [{'likes': 3}, {'likes': 4}]}");
}

#define POST_STAGES(stages) \
	"{'aggregate': 'posts', 'pipeline': [" stages "], 'cursor': {}, '$db': 'tenant_1'}"

Test(probe, match_stages_at_the_front_are_one_query)
{
	static const char *const stages[] = {
		"{'$match': {}}, {'$match': {'likes': 5}}",
		"{'$match': {'x': 1}}, {'$match': {'likes': 5}}, {'$count': 'n'}",
		"{'$match': {'x': 1}}, {'$match': {'likes': 5}}, {'$unwind': '$likes'}",
		"{'$match': {'likes': 5}}, {'$match': {'$expr': {'$gt': ['$x', 1]}}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(stages); i++)
		cr_assert(asks_overflow(made_text(POST_STAGES("%s"), stages[i])), "%s", stages[i]);
	cr_assert_not(
		asks_overflow(POST_STAGES("{'$match': {'_id': 1}}, {'$match': {'likes': 5}}")));
	start(POST_STAGES("{'$match': {'x': 1}}, {'$match': {'likes': 5}}, {'$count': 'n'}"));
	cr_assert_str_eq(play_stages(&play), "$match $unset $count $limit $unionWith");
	play_close(&play);
}

Test(probe, indexes_that_have_been_met_count_as_well)
{
	static const struct {
		const char *indexes, *filter;
		bool asks;
	} cases[] = {
		{"{}", "{'f.x': 5, 'y': 1}", false},
		{"{'0': {'key': {'more.x': 1}}}", "{'f.x': 5, 'y': 1}", true},
		{"{'0': {'key': {'book': 1}}, '1': {'key': {'more.x': -1, 'more.y': 1}}}",
		 "{'f.x': {'$gt': 5}}", true},
		{"{'0': {'key': {'more': 1}}}", "{'f': {'$gt': 5}}", true},
		{"{'0': {'key': {'more.$**': 1}}}", "{'f.x.y': {'$gt': 5}}", true},
		{"{'0': {'key': {'more.$**': 1}}}", "{'f': {'$gt': 5}}", false},
		{"{'0': {'key': {'more.x': 1}}}", "{'f.xy': {'$gt': 5}}", false},
		{"{'0': {'key': {'more.y': 1, 'more.x': 1}}}", "{'f.x': {'$gt': 5}}", false},
		{"{'0': {'key': {'more.x': 1}, 'hidden': true}}", "{'f.x': {'$gt': 5}}", false},
		{"{'0': {'key': {'more.x': 1}, 'partialFilterExpression': {'more.y': 1}}}",
		 "{'f.x': {'$gt': 5}}", false},
		{"{'0': {'key': {'more.x': 1}}}", "{'f.x': 5, '_id': 1}", false},
		{"{'0': {'key': {}}, '1': {'key': 5}, '2': 5}", "{'f.x': {'$gt': 5}}", false},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		known_indexes = made_bson(cases[i].indexes);
		cr_assert_eq(asks_overflow(made_text(COUNT("%s"), cases[i].filter)), cases[i].asks,
			     "%s, %s", cases[i].indexes, cases[i].filter);
	}
	known_indexes = (struct bytes){0};
}

Test(probe, a_secondary_is_not_asked)
{
	static const char *const others[] = {"secondary", "secondaryPreferred", "nearest"};

	for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
		cr_assert_not(asks_overflow(made_text(
			FIND("'filter': {'f': 5}, '$readPreference': {'mode': '%s'}"), others[i])));
	cr_assert(asks_overflow(
		FIND("'filter': {'f': 5}, '$readPreference': {'mode': 'primaryPreferred'}")));
}

Test(probe, a_branch_of_an_or_that_reads_no_array_is_asked_as_it_is)
{
	start(COUNT("{'$or': [{'x': 1, 'y': 2}, {'f': 5}, {'f.x': {'$in': [6]}}]}"));
	cr_assert_str_eq(play_stages(&play), "$match $unset $count $unionWith");
	expect_stage("0", "{'$match': {'$and': [{'$or': [{'$or': [{'x': 1, 'y': 2}, {'f': 5}, "
			  "{'f.x': {'$in': [6]}}]}]}]}}");
	expect_stage("3",
		     "{'$unionWith': {'coll': 'books_more', 'pipeline': [{'$match': {'$or': "
		     "[{'more': 5}, {'more.x': {'$in': [6]}}]}}, {'$limit': 251}, {'$project': "
		     "{'_id': 0, '_spill': {'id': '$book', 'g': '$_spill.g'}}}]}}");
	play_close(&play);
	/* a branch that says more has to be looked at in whole documents */
	start(COUNT("{'$or': [{'x': 1}, {'f': 5, 'y': 1}]}"));
	cr_assert_str_eq(play_stages(&play),
			 "$match $graphLookup $replaceWith $unset $match $count $unionWith");
	expect_stage("0", "{'$match': {'$and': [{'$or': [{'$or': [{'x': 1}, {'f': 5}]}]}]}}");
	play_close(&play);
	/* of two arrays at once the overflow of one would tell nothing */
	for (int array = 'f'; array <= 'g'; array++)
		cr_assert_eq(
			asks_overflow(made_text("{'count': 'shown', 'query': {'$or': [{'f': 1}, "
						"{'%c': 2}]}, '$db': 'shop'}",
						array)),
			array == 'f');
}

/* ---- aggregates ---- */

#define STAGES(stages) \
	"{'aggregate': 'books', 'pipeline': [" stages "], 'cursor': {}, '$db': 'shop'}"
#define COUNTED STAGES("{'$match': {'f': 5}}, {'$group': {'_id': 1, 'n': {'$sum': 1}}}")

Test(probe, what_drivers_count_is_asked_of_the_overflow_too)
{
	struct element cursor;

	start(COUNTED);
	cr_assert_str_eq(play_stages(&play), "$match $unset $group $limit $unionWith");
	expect_stage("3", "{'$limit': {'$numberLong': '101'}}");
	cr_assert(document_find(play_message(&play).body, "cursor", &cursor));
	made_expect(cursor.value, "{'batchSize': {'$numberLong': '353'}}");
	play_reply(&play, CURSOR("{'_id': 1, 'n': 3}, " HIT(7, G1), 0));
	play_expect_named(&play, "{'$in': [7]}", "{'$in': ['$_spill.f.g', [" G1 "]]}");
	play_reply(&play, CURSOR("{'_id': 1, 'n': 4}, " HIT(7, G1), 0));
	play_expect_answer(&play, CURSOR("{'_id': 1, 'n': 4}", 0));
	play_close(&play);
}

Test(probe, a_pipeline_that_needs_arrays_has_those_of_few_documents_put_together)
{
	start(STAGES("{'$match': {'f': 5}}, {'$unwind': '$f'}"));
	cr_assert_str_eq(play_stages(&play),
			 "$match $replaceWith $unset $unwind $limit $unionWith");
	play_reply(&play, CURSOR("{'_id': 1, 'f': 5}, " HIT(7, G1), 0));
	play_reply(&play, DIED);
	cr_assert_str_eq(
		play_stages(&play),
		"$match $graphLookup $replaceWith $unset $match $unwind $limit $unionWith");
	play_reply(&play, CURSOR("{'_id': 1, 'f': 5}, {'_id': 7, 'f': 5}, " HIT(7, G1), 0));
	play_expect_answer(&play, CURSOR("{'_id': 1, 'f': 5}, {'_id': 7, 'f': 5}", 0));
	play_close(&play);
}

Test(probe, stages_that_need_no_arrays)
{
	static const char *const none[] = {
		"{'$count': 'n'}",
		"{'$sort': {'x': 1}}, {'$skip': 1}, {'$limit': 2}, {'$project': {'x': 1}}",
		"{'$match': {}}, {'$sort': {'x': 1}}, {'$match': {'x': 1}}, {'$sortByCount': '$x'}",
	};
	static const char *const some[] = {
		"{'$limit': 5}",
		"{'$group': {'_id': '$f'}}",
		"{'$sort': {'f': 1}}, {'$count': 'n'}",
		"{'$skip': 1}, {'$match': {'f': 6}}, {'$count': 'n'}",
		"{'$project': {'f': 1}}",
		"{'$set': {'x': {'$size': '$f'}}}, {'$count': 'n'}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(none); i++) {
		start(made_text(STAGES("{'$match': {'f': 5}}, %s"), none[i]));
		cr_assert_not(strstr(play_stages(&play), "$match $replaceWith $unset"), "%s",
			      none[i]);
		play_close(&play);
	}
	for (size_t i = 0; i < ARRAY_LENGTH(some); i++) {
		start(made_text(STAGES("{'$match': {'f': 5}}, %s"), some[i]));
		cr_assert(strstr(play_stages(&play), "$match $replaceWith $unset"), "%s", some[i]);
		play_close(&play);
	}
}

Test(probe, a_pipeline_behind_which_no_hits_can_stand)
{
	static const char *const stages[] = {
		"{'$match': {'f': 5}}, {'$replaceWith': '$x'}", /* which may begin with _spill */
		"{'$match': {'f': 5}}, {'$project': {'_id': 0, 'x': '_spill'}}",
		"{'$match': {'f': 5}}, {'$sample': {'size': 1}}",
		"{'$match': {'f': 5}}, {'$out': 'others'}",
		"{'$match': {'f': 5}}, {'$set': {'has_extras': 1}}",
		"{'$sort': {'x': 1}}, {'$match': {'f': 5}}",
		"{'$unwind': '$f'}, {'$match': {'f': 5}}",
		"{'$match': {'x': 5}}, {'$match': {'f': 5}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(stages); i++)
		cr_assert_not(asks_overflow(made_text(STAGES("%s"), stages[i])), "%s", stages[i]);
}

Test(probe, a_cursor_that_may_go_on_or_that_mongod_refuses)
{
	static const char *const cursors[] = {
		"'cursor': {'batchSize': 0},",   "'cursor': {'batchSize': 1},", "",
		"'cursor': {'batchSize': 'x'},", "'cursor': {'x': 1},",         "'cursor': 5,",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cursors); i++)
		cr_assert_not(asks_overflow(made_text("{'aggregate': 'books', 'pipeline': "
						      "[{'$match': {'f': 5}}, {'$count': 'n'}], "
						      "%s '$db': 'shop'}",
						      cursors[i])),
			      "%s", cursors[i]);
}
