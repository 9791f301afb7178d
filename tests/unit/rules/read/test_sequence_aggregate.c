/* Tests rules/read/sequence_aggregate.c, rules/stages/aggregate.c, stage_window.c: reads for which
 * mongod puts documents together. What the stages compute is the oracle's to test. */
#include "tests/unit/play.h"

#include "protocol/writer.h"

#define WHOLE "$graphLookup $replaceWith $unset"
#define LOOKED "$graphLookup $graphLookup $replaceWith $unset"
#define CURSOR(documents, more) \
	"{'cursor': {'firstBatch': [" documents \
	"], 'id': {'$numberLong': '0'}, 'ns': 'shop.books'}, " \
	"'ok': 1.0" more "}"
#define ERROR(code, text) "{'ok': 0.0, 'errmsg': '" text "', 'code': " #code ", 'codeName': 'Some'}"
#define DIED \
	ERROR(241, \
	      "PlanExecutor error during aggregation :: caused by :: Failed to parse objectId " \
	      "spillway: the generation ended 3 in $convert")
#define FIND(fields) "{'find': 'books', " fields ", '$db': 'shop'}"
#define BY_ARRAY "'filter': {'f': {'$gt': 5}}" /* not asked of the overflow: it has no index */

static struct play play;

static void start(const char *command)
{
	play_command(&play, command, VERDICT_AGGREGATE);
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
}

/* The stages that went out, by name, and the rest of the command. */
static void expect_sent(const char *stages, const char *rest)
{
	auto_buffer struct buffer others = {0};
	size_t start = writer_open(&others);
	struct element field;
	struct cursor fields;

	cr_assert_str_eq(play_stages(&play), stages);
	cr_assert(cursor_open(&fields, play_message(&play).body));
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, "pipeline"))
			writer_element(&others, &field);
	writer_close(&others, start);
	if (rest)
		made_expect(buffer_view(&others), rest);
}

static void expect_stages(const char *command, const char *stages)
{
	start(command);
	expect_sent(stages, NULL);
	play_close(&play);
}

Test(sequence_aggregate, a_find_becomes_stages_and_gets_its_reply)
{
	start(FIND(BY_ARRAY ", 'sort': {'x': 1}, 'skip': 2, 'limit': 3, 'projection': {'x': 1}, "
			    "'comment': 'c', 'lsid': {'id': 1}"));
	expect_sent("$match $sort " WHOLE " $match $skip $limit $project",
		    "{'aggregate': 'books', 'cursor': {'batchSize': {'$numberLong': '4'}}, "
		    "'comment': 'c', 'lsid': {'id': 1}, '$db': 'shop'}");
	play_reply(&play, CURSOR("{'_id': 1, 'x': 2}", ""));
	play_expect_passed(&play);
	cr_assert_eq(play_message(&play).header.response_to, PLAY_ID);
	play_close(&play);
}

Test(sequence_aggregate, a_pipeline_that_takes_the_array_away_needs_no_overflow)
{
	expect_stages("{'aggregate': 'books', 'pipeline': [{'$match': {'x': 1}}, {'$project': "
		      "{'f': 0, 'x': 0}}, {'$sort': {'y': 1}}, {'$unwind': '$f'}], 'cursor': {}, "
		      "'$db': 'shop'}",
		      "$match $unset $project $sort $unwind");
	expect_stages("{'aggregate': 'books', 'pipeline': [{'$unset': ['x', 'f']}, {'$match': "
		      "{'f': 1}}], 'cursor': {}, '$db': 'shop'}",
		      "$unset $unset $match");
	/* other values in its place */
	expect_stages("{'aggregate': 'books', 'pipeline': [{'$set': {'f': '$$REMOVE'}}], "
		      "'cursor': {}, '$db': 'shop'}",
		      "$unset $set");
	expect_stages("{'aggregate': 'books', 'pipeline': [{'$addFields': {'f': {'$add': ['$x', "
		      "1]}, 'y': '$x'}}], 'cursor': {}, '$db': 'shop'}",
		      "$unset $addFields");
	/* behind stages that carry it along */
	expect_stages("{'aggregate': 'books', 'pipeline': [{'$unwind': '$x'}, {'$sort': {'x': 1}}, "
		      "{'$project': {'f': 0}}], 'cursor': {}, '$db': 'shop'}",
		      "$unwind $sort $unset $project");
	/* into its elements */
	expect_stages("{'aggregate': 'books', 'pipeline': [{'$set': {'f': {'x': 1}}}], 'cursor': "
		      "{}, '$db': 'shop'}",
		      WHOLE " $set");
	/* by itself */
	expect_stages("{'aggregate': 'books', 'pipeline': [{'$set': {'f': {'$size': '$f'}}}], "
		      "'cursor': {}, '$db': 'shop'}",
		      WHOLE " $set");
	/* a part of it */
	expect_stages("{'aggregate': 'books', 'pipeline': [{'$unset': 'f.x'}], 'cursor': {}, "
		      "'$db': 'shop'}",
		      WHOLE " $unset");
	expect_stages(
		"{'aggregate': 'books', 'pipeline': [{'$project': {'f.x': 0}}], 'cursor': {}, "
		"'$db': 'shop'}",
		WHOLE " $project");
}

Test(sequence_aggregate, a_single_batch_is_a_first_batch_whatever_the_limit)
{
	start(FIND(BY_ARRAY ", 'sort': {'x': 1}, 'singleBatch': true, 'limit': 150"));
	cr_assert(memmem(play.sequence->output.data, play.sequence->output.length,
			 "$limit\0\x65\0\0\0", 11)); /* 101 */
	play_close(&play);
}

Test(sequence_aggregate, only_what_is_returned_is_put_together)
{
	expect_stages(
		FIND("'filter': {'x': 5}, 'sort': {'x': 1}, 'skip': 1, 'limit': 3, 'projection': "
		     "{'n': {'$size': '$f'}}"),
		"$match $sort $skip $limit " WHOLE " $project");
	expect_stages(FIND("'projection': {'f': {'$elemMatch': {'x': 1}}}"),
		      WHOLE " $lookup $project");
	expect_stages(FIND(BY_ARRAY ", 'sort': {'x': 1}"), "$match " WHOLE " $match $sort");
	expect_stages(FIND("'filter': {'$expr': '$f'}, 'sort': {'x': 1}, 'limit': 3"),
		      "$match " WHOLE " $match $sort $limit");
	expect_stages(FIND("'sort': {'f': 1}, 'limit': 3"), WHOLE " $sort $limit");
}

Test(sequence_aggregate, what_is_left_out_makes_no_stage)
{
	start(FIND(BY_ARRAY ", 'projection': {}, 'sort': {}, 'batchSize': 7"));
	expect_sent("$match " WHOLE " $match",
		    "{'aggregate': 'books', 'cursor': {'batchSize': {'$numberLong': '7'}}, '$db': "
		    "'shop'}");
	play_close(&play);
	expect_stages(FIND("'filter': {'x': 5}, 'sort': {'f': 1}"), "$match " WHOLE " $sort");
}

#define LARGEST "{'$numberLong': '9223372036854775807'}"

/* One more than that would be less than nothing, which mongod refuses. */
Test(sequence_aggregate, the_largest_batch_stays_the_largest)
{
	start(FIND(BY_ARRAY ", 'limit': " LARGEST ", 'batchSize': " LARGEST));
	expect_sent("$match " WHOLE " $match $limit",
		    "{'aggregate': 'books', 'cursor': {'batchSize': " LARGEST "}, '$db': 'shop'}");
	play_close(&play);
}

#define AGGREGATE(stages) \
	"{'aggregate': 'books', 'pipeline': [" stages \
	"], 'cursor': {'batchSize': 2}, '$db': 'shop'}"

Test(sequence_aggregate, what_a_pipeline_calls_by_a_hidden_name_is_marked_and_comes)
{
	start(AGGREGATE("{'$group': {'_id': '$x', 'has_extras': {'$sum': 1}}}"));
	expect_sent("$group $set",
		    "{'aggregate': 'books', 'cursor': {'batchSize': 2}, '$db': 'shop'}");
	play_reply(
		&play,
		"{'cursor': {'firstBatch': [{'_id': 1, 'has_extras': 5, '_spill/computed': true}, "
		"{'_id': 2, '_spill/computed': true}], 'id': {'$numberLong': '7'}, 'ns': "
		"'shop.books'}, 'ok': 1.0}");
	cr_assert_eq(play.outcome, SEQUENCE_DONE);
	made_expect(play_message(&play).body,
		    "{'cursor': {'firstBatch': [{'_id': 1, 'has_extras': 5}, {'_id': 2}], "
		    "'id': {'$numberLong': '7'}, 'ns': 'shop.books'}, 'ok': 1.0}");
	play_close(&play);
	expect_stages(AGGREGATE("{'$set': {'has_extras': {'$size': '$f'}}}"),
		      "$graphLookup $replaceWith $replaceWith $unset $set $set");
	expect_stages(AGGREGATE("{'$set': {'has_extras': {'$size': '$f'}}}, {'$merge': 'other'}"),
		      "$graphLookup $graphLookup $replaceWith $replaceWith $unset $set $merge");
}

Test(sequence_aggregate, candidates_are_what_matches_or_has_a_state)
{
	struct element first;

	start(FIND("'filter': {'x': 1, 'f': 5}"));
	cr_assert(document_find_path(play_message(&play).body, "pipeline", &first));
	cr_assert(document_find(first.value, "0", &first));
	made_expect(first.value,
		    "{'$match': {'$and': [{'x': 1}, {'$or': [{'x': 1, 'f': 5}, {'_spill': "
		    "{'$exists': true}}]}]}}");
	play_close(&play);
	/* what can fail is judged behind, one document after the other */
	start(FIND("'filter': {'x': 1, '$expr': {'$gt': [{'$size': '$f'}, 2]}}"));
	cr_assert(document_find_path(play_message(&play).body, "pipeline", &first));
	cr_assert(document_find(first.value, "0", &first));
	made_expect(first.value, "{'$match': {'$and': [{'x': 1}, {}]}}");
	play_close(&play);
}

Test(sequence_aggregate, a_window_alone_needs_only_the_batches_that_overlap)
{
	expect_stages(FIND("'filter': {'x': 1}, 'projection': {'f': {'$slice': -2}}, "
			   "'singleBatch': true"),
		      "$match $limit $replaceWith $set $lookup $graphLookup $set $set $unset");
	expect_stages(
		FIND("'projection': {'f': {'$slice': [1, 2]}, 'x': 1}, 'sort': {'x': 1}, "
		     "'singleBatch': true"),
		"$sort $limit $replaceWith $set $lookup $graphLookup $set $set $unset $project");
	/* beside what reads the array, of the whole */
	expect_stages(FIND(BY_ARRAY ", 'projection': {'f': {'$slice': 2}}"),
		      "$match " WHOLE " $match $set");
	/* what is computed beside it sees all of the array */
	expect_stages(FIND("'projection': {'f': {'$slice': 2}, 'n': {'$size': '$f'}}"),
		      WHOLE " $project $set");
}

Test(sequence_aggregate, what_only_finds_projection_has_becomes_stages)
{
	struct element lookup;

	start(FIND(BY_ARRAY ", 'projection': {'f': {'$elemMatch': {'x': 1}}, 'y': 1}"));
	expect_sent("$match " WHOLE " $match $lookup $project", NULL);
	cr_assert(document_find(play_message(&play).body, "pipeline", &lookup));
	cr_assert(document_find_path(lookup.value, "5", &lookup));
	made_expect(
		lookup.value,
		"{'$lookup': {'let': {'f': {'$cond': [{'$isArray': '$f'}, '$f', []]}}, 'pipeline': "
		"[{'$documents': {'$map': {'input': '$$f', 'in': {'f': ['$$this']}}}}, {'$match': "
		"{'f': {'$elemMatch': {'x': 1}}}}, {'$limit': {'$numberLong': '1'}}], 'as': "
		"'_spill./m0'}}");
	play_close(&play);
	expect_stages(FIND("'projection': {'f': {'$elemMatch': {'x': 1}}, 'y': 0}"),
		      WHOLE " $lookup $project $set $unset");
	expect_stages(FIND(BY_ARRAY ", 'projection': {'f.$': 1, 'g': {'$slice': 1}}"),
		      "$match " WHOLE " $match $lookup $set $project $set $set $unset");
	expect_stages(FIND(BY_ARRAY ", 'projection': {'a': {'g': {'$slice': 1}}}"),
		      "$match " WHOLE " $match $set");
}

Test(sequence_aggregate, an_element_that_a_document_does_not_tell)
{
	start(FIND("'filter': {'f': 5, 'x': 1}, 'projection': {'f.$': 1}"));
	play_reply(&play, ERROR(241, "Failed to parse objectId spillway: a positional projection "
				     "int in $convert"));
	play_expect_error(&play, 115, "which element the positional projection means");
	play_close(&play);
}

Test(sequence_aggregate, a_positional_projection_that_no_condition_is_about)
{
	static const char *const filters[] = {
		"", "'filter': {'x': 1}, ", "'filter': {'f': {'$ne': 1, '$size': 2}}, ",
		"'filter': {'$nor': [{'f': 1}]}, ", "'filter': {'f.x': {'$not': {'$gt': 1}}}, "};
	char command[200];

	for (size_t i = 0; i < ARRAY_LENGTH(filters); i++) {
		snprintf(command, sizeof(command), FIND("%s'projection': {'f.$': 1}"), filters[i]);
		start(command);
		play_reply(&play, ERROR(241, "Failed to parse objectId spillway: no matching "
					     "element int in $convert"));
		play_expect_error(&play, 51246,
				  "Executor error during find command :: caused by :: positional "
				  "operator '.$' couldn't find a matching element in the array");
		play_close(&play);
	}
}

Test(sequence_aggregate, one_beside_a_sort_without_a_limit_is_refused)
{
	play_command(&play, FIND("'sort': {'x': 1}, 'projection': {'f.$': 1}"), VERDICT_REFUSE);
	play_close(&play);
	start(FIND("'sort': {'x': 1}, 'limit': 1, 'projection': {'f.$': 1}"));
	play_close(&play);
	start(FIND("'filter': {'f': 5}, 'sort': {'x': 1}, 'projection': {'f.$': 1}"));
	play_close(&play);
}

Test(sequence_aggregate, bounds_of_an_index_are_tried_and_then_a_condition)
{
	struct element first;

	start(FIND(BY_ARRAY ", 'min': {'x': 5}, 'hint': {'x': -1}, 'batchSize': 0"));
	play_expect_helper(&play, "{'find': 'books', 'min': {'x': 5}, 'hint': {'x': -1}, '$db': "
				  "'shop', 'filter': {'_id': {'$in': []}}}");
	play_reply(&play, CURSOR("", ""));
	expect_sent("$match $match " WHOLE " $match", NULL);
	cr_assert(document_find_path(play_message(&play).body, "pipeline", &first));
	cr_assert(document_find(first.value, "0", &first));
	cr_assert(document_find_path(first.value, "$match.$expr.$cond", &first));
	cr_assert(document_find(first.value, "2", &first));
	cr_assert(document_find(first.value, "$and", &first));
	made_expect(
		first.value,
		"{'0': {'$cond': [{'$eq': [{'$cond': [{'$eq': [{'$type': '$x'}, 'missing']}, "
		"null, '$x']}, {'$literal': 5}]}, true, {'$lt': [{'$cond': [{'$eq': [{'$type': "
		"'$x'}, 'missing']}, null, '$x']}, {'$literal': 5}]}]}, '1': {'$cond': [{'$eq': "
		"[{'$cond': [{'$eq': [{'$type': '$x'}, 'missing']}, null, '$x']}, {'$literal': "
		"{'$minKey': 1}}]}, false, {'$gt': [{'$cond': [{'$eq': [{'$type': '$x'}, "
		"'missing']}, null, '$x']}, {'$literal': {'$minKey': 1}}]}]}}");
	play_close(&play);
	start(FIND(BY_ARRAY ", 'max': {'x': 5}, 'hint': {'x': 1}"));
	play_reply(&play, ERROR(51175, "the wrong way round"));
	play_expect_answer(&play, ERROR(51175, "the wrong way round"));
	play_close(&play);
}

#define QUOTES(text) ERROR(2, "error processing query: ns=shop.booksTree: " text)

Test(sequence_aggregate, an_error_that_quotes_the_query_is_told_of_the_clients_own)
{
	start(FIND(BY_ARRAY ", 'hint': 'x', 'lsid': {'id': 1}, 'maxTimeMS': 500"));
	play_reply(&play, QUOTES("_spill exists"));
	play_expect_helper(
		&play, "{'explain': {'find': 'books', 'filter': {'f': {'$gt': 5}}, 'hint': 'x'}, "
		       "'verbosity': 'queryPlanner', '$db': 'shop'}");
	play_reply(&play, QUOTES("f $gt 5"));
	play_expect_answer(&play, QUOTES("f $gt 5"));
	play_close(&play);
	/* an index has come meanwhile */
	start("{'count': 'books', 'query': {'f': {'$gt': 5}}, '$db': 'shop'}");
	play_reply(&play, QUOTES("_spill exists"));
	play_reply(&play, "{'ok': 1.0}");
	play_expect_answer(&play, QUOTES("_spill exists"));
	play_close(&play);
}

/* As for mongod, which then knows no transaction. */
Test(sequence_aggregate, an_autocommit_of_null_is_none)
{
	start("{'count': 'books', 'query': {'f': {'$gt': 5}}, 'autocommit': null, '$db': 'shop'}");
	play_close(&play);
}

Test(sequence_aggregate, a_count_is_a_number)
{
	start("{'count': 'books', 'query': {'f': {'$gt': 5}}, 'limit': 3, '$db': 'shop'}");
	expect_sent("$match " WHOLE " $match $limit $count",
		    "{'aggregate': 'books', 'cursor': {}, '$db': 'shop'}");
	play_reply(&play, CURSOR("{'n': 7}", ", 'operationTime': 1"));
	play_expect_answer(&play, "{'n': 7, 'ok': 1.0, 'operationTime': 1}");
	play_close(&play);
	start("{'count': 'books', 'query': {'f': {'$gt': 5}}, '$db': 'shop'}");
	play_reply(&play, CURSOR("", ""));
	play_expect_answer(&play, "{'n': 0, 'ok': 1.0}");
	play_close(&play);
}

Test(sequence_aggregate, a_distinct_has_values)
{
	start("{'distinct': 'books', 'key': 'f.x', 'query': {'y': 1}, '$db': 'shop'}");
	expect_sent("$match " WHOLE
		    " $match $replaceWith $unwind $match $replaceWith $unwind $match $group $sort "
		    "$group",
		    NULL);
	play_reply(&play, CURSOR("{'_id': null, 'values': [1, 'a']}", ""));
	play_expect_answer(&play, "{'values': [1, 'a'], 'ok': 1.0}");
	play_close(&play);
	start("{'distinct': 'books', 'key': 'f', '$db': 'shop'}");
	play_reply(&play, CURSOR("", ""));
	play_expect_answer(&play, "{'values': [], 'ok': 1.0}");
	play_close(&play);
}

Test(sequence_aggregate, who_may_not_read_the_overflow_is_not_shown_the_stages)
{
	start("{'distinct': 'books', 'key': 'f', '$db': 'shop'}");
	play_reply(&play, ERROR(13, "not authorized on shop to execute command { aggregate: 1 }"));
	play_expect_error(&play, 13,
			  "Spillway rule 'books' on 'shop.books': the user may not read what");
	play_close(&play);
}

Test(sequence_aggregate, a_distinct_of_too_many_values_is_mongod_s_error)
{
	static const char *const errors[] = {
		ERROR(10334, "BSONObj size: 31457563 is invalid. First element: _id: null"),
		ERROR(13548, "BufBuilder attempted to grow() to 67109453 bytes, past the 64MB "
			     "limit."),
		ERROR(146, "$push used too much memory and cannot spill to disk."),
	};

	for (size_t i = 0; i < ARRAY_LENGTH(errors); i++) {
		start("{'distinct': 'books', 'key': 'f', '$db': 'shop'}");
		play_reply(&play, errors[i]);
		play_expect_error(&play, 17217,
				  "Executor error during distinct command :: caused by :: distinct "
				  "too big, 16mb cap");
		play_close(&play);
	}
	start("{'distinct': 'books', 'key': 'f', '$db': 'shop'}");
	play_reply(&play, ERROR(10334, "BSONObj size: 31457563 is invalid. First element: _id: 1"));
	play_expect_error(&play, 10334, "a document passes 16 MB on the way");
	play_close(&play);
}

Test(sequence_aggregate, a_filter_that_is_too_long_twice_is_told)
{
	start("{'find': 'books', 'filter': {'f': {'$size': 3}}, '$db': 'shop'}");
	play_reply(&play, ERROR(10334, "BSONObj size: 17000000 (0x1036640) is invalid. First "
				       "element: aggregate: \\\"books\\\""));
	play_expect_error(&play, 10334, "stands twice in what mongod is asked");
	play_close(&play);
}

Test(sequence_aggregate, a_hint_of_a_distinct_is_tried_on_no_documents)
{
	const char *command =
		"{'distinct': 'books', 'key': 'f.x', 'query': {'y': 1}, 'hint': {'y': "
		"1}, '$db': 'shop'}";

	start(command);
	play_expect_helper(&play, "{'distinct': 'books', 'key': 'f.x', 'hint': {'y': 1}, '$db': "
				  "'shop', 'query': {'_id': {'$in': []}}}");
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'unknown field', 'code': 40415}");
	play_expect_answer(&play, "{'ok': 0.0, 'errmsg': 'unknown field', 'code': 40415}");
	play_close(&play);
	start(command);
	play_reply(&play, "{'values': [], 'ok': 1.0}");
	expect_sent("$match " WHOLE
		    " $match $replaceWith $unwind $match $replaceWith $unwind $match $group $sort "
		    "$group",
		    NULL);
	play_close(&play);
}

/* The plan is asked for outside the client's session. */
Test(sequence_aggregate, a_distinct_starts_its_transaction_behind_the_question_of_its_plan)
{
	struct element field;

	play.own_indexes = made_bson("{'0': {'key': {'f.x': 1}, 'name': 'x'}}");
	start("{'distinct': 'books', 'key': 'f.x', 'query': {'y': 1}, 'readConcern': {'level': "
	      "'snapshot'}, 'startTransaction': true, '$db': 'shop', " TRANSACTION "}");
	play_expect_helper(&play, "{'explain': {'distinct': 'books', 'key': 'f.x', 'query': {'y': "
				  "1}}, 'verbosity': 'queryPlanner', '$db': 'shop'}");
	play_reply(&play, "{'queryPlanner': {'winningPlan': {'stage': 'COLLSCAN'}}, 'ok': 1.0}");
	cr_assert_eq(play.outcome, SEQUENCE_SEND);
	cr_assert(document_find(play_message(&play).body, "startTransaction", &field));
	cr_assert(document_find(play_message(&play).body, "readConcern", &field));
	play_close(&play);
}

Test(sequence_aggregate, what_only_an_aggregate_has_is_tried_on_no_documents)
{
	static const char *const unusual[][2] = {
		{"{'count': 'books', 'query': {'f': 5}, 'allowDiskUse': true, '$db': 'shop'}",
		 "{'count': 'books', 'allowDiskUse': true, '$db': 'shop', "
		 "'query': {'_id': {'$in': []}}}"},
		{"{'distinct': 'books', 'key': 'f.x', 'let': {}, '$db': 'shop'}",
		 "{'distinct': 'books', 'key': 'f.x', 'let': {}, '$db': 'shop', "
		 "'query': {'_id': {'$in': []}}}"},
		{"{'find': 'books', 'filter': {'f': 5}, 'pipeline': [], '$db': 'shop'}",
		 "{'find': 'books', 'pipeline': [], '$db': 'shop', "
		 "'filter': {'_id': {'$in': []}}}"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(unusual); i++) {
		start(unusual[i][0]);
		play_expect_helper(&play, unusual[i][1]);
		play_reply(&play, "{'ok': 0.0, 'errmsg': 'unknown field', 'code': 40415}");
		play_expect_answer(&play, "{'ok': 0.0, 'errmsg': 'unknown field', 'code': 40415}");
		play_close(&play);
	}
}

Test(sequence_aggregate, a_distinct_by_position)
{
	struct element stage;

	start("{'distinct': 'books', 'key': 'f.2.x', '$db': 'shop'}");
	expect_sent(WHOLE
		    " $match $replaceWith $match $replaceWith $unwind $match $replaceWith $unwind "
		    "$match $group $sort $group",
		    NULL);
	cr_assert(document_find(play_message(&play).body, "pipeline", &stage));
	cr_assert(document_find(stage.value, "6", &stage));
	made_expect(stage.value, "{'$replaceWith': {'v': {'$cond': [{'$isArray': '$v'}, "
				 "{'$arrayElemAt': ['$v', 2]}, '$v.2']}}}");
	play_close(&play);
}

Test(sequence_aggregate, a_natural_sort_is_a_hint)
{
	start(FIND(BY_ARRAY ", 'sort': {'$natural': -1}"));
	expect_sent("$match " WHOLE " $match",
		    "{'aggregate': 'books', 'cursor': {}, 'hint': {'$natural': -1}, '$db': "
		    "'shop'}");
	play_close(&play);
	start(FIND(BY_ARRAY ", 'sort': {'$natural': 'x'}"));
	expect_sent("$match " WHOLE " $match",
		    "{'aggregate': 'books', 'cursor': {}, 'hint': {'$natural': 'x'}, '$db': "
		    "'shop'}");
	play_close(&play);
}

Test(sequence_aggregate, what_stands_beside_a_natural_sort_is_for_mongod_to_judge)
{
	start(FIND(BY_ARRAY ", 'sort': {'$natural': 1}, 'hint': {'$natural': 5}"));
	play_expect_helper(&play, "{'find': 'books', 'sort': {'$natural': 1}, 'hint': {'$natural': "
				  "5}, '$db': 'shop', 'filter': {'_id': {'$in': []}}}");
	play_reply(&play, CURSOR("", ""));
	expect_sent("$match " WHOLE " $match",
		    "{'aggregate': 'books', 'cursor': {}, 'hint': {'$natural': 1}, '$db': "
		    "'shop'}");
	play_close(&play);
	start(FIND(BY_ARRAY ", 'sort': {'x': 1, '$natural': 1}"));
	play_reply(&play, ERROR(2, "Cannot include it in compound sort"));
	play_expect_error(&play, 2, "compound sort");
	play_close(&play);
}

Test(sequence_aggregate, a_pipeline_is_whole_from_the_stage_on_that_needs_it)
{
	start("{'aggregate': 'books', 'pipeline': [{'$match': {'x': 1}}, {'$limit': 2}, "
	      "{'$unwind': "
	      "'$f'}], 'cursor': {'batchSize': 5}, 'hint': 'x_1', '$db': 'shop'}");
	expect_sent("$match $limit " WHOLE " $unwind",
		    "{'aggregate': 'books', 'cursor': {'batchSize': 5}, 'hint': 'x_1', '$db': "
		    "'shop'}");
	play_close(&play);
	expect_stages(
		"{'aggregate': 'books', 'pipeline': [{'$match': {'f': null}}, {'$count': 'n'}], "
		"'cursor': "
		"{}, '$db': 'shop'}",
		"$match " WHOLE " $match $count");
}

/* The names of the stages under `path` of the first stage. */
static void expect_inside(const char *path, const char *stages)
{
	struct element pipeline, first;
	struct cursor cursor;

	cr_assert(document_find(play_message(&play).body, "pipeline", &pipeline));
	cr_assert(cursor_open(&cursor, pipeline.value));
	cr_assert(cursor_next(&cursor, &first) == CURSOR_ELEMENT);
	cr_assert(document_find_path(first.value, path, &pipeline));
	cr_assert_str_eq(play_names(pipeline.value), stages);
}

#define FROM(stage) "{'aggregate': 'others', 'pipeline': [" stage "], 'cursor': {}, '$db': 'shop'}"

Test(sequence_aggregate, foreign_documents_are_put_together_in_the_stages_own_pipeline)
{
	start(FROM("{'$lookup': {'from': 'books', 'localField': 'x', 'foreignField': 'y', 'as': "
		   "'a'}}"));
	expect_sent("$lookup", "{'aggregate': 'others', 'cursor': {}, '$db': 'shop'}");
	expect_inside("$lookup.pipeline", WHOLE " $match");
	play_close(&play);
	start(FROM("{'$unionWith': 'books'}"));
	expect_inside("$unionWith.pipeline", WHOLE);
	play_close(&play);
	start(FROM("{'$unionWith': {'coll': 'books', 'pipeline': [{'$match': {'x': 1}}, {'$match': "
		   "{'f': 1}}, {'$limit': 1}]}}"));
	expect_inside("$unionWith.pipeline", "$match $match " WHOLE " $match $limit");
	play_close(&play);
	start(FROM("{'$facet': {'b': [{'$limit': 1}, {'$unionWith': 'books'}]}}"));
	expect_inside("$facet.b", "$limit $unionWith");
	play_close(&play);
}

Test(sequence_aggregate, foreign_documents_whose_arrays_nobody_wants_stay_apart)
{
	static const char *const bare[] = {
		"{'$project': {'x': 1}}",
		("{'$match': {'x': 1}}, {'$sort': {'y': 1}}, {'$limit': 1}, {'$group': {'_id': "
		 "'$x'}}"),
		"{'$match': {'$expr': {'$eq': ['$x', '$$a']}}}, {'$count': 'n'}",
	};
	static const char *const whole[] = {
		"{'$limit': 1}",
		"{'$project': {'f': 0}}", /* what is hidden would come out */
		"{'$project': {'x': 1, 'has_extras': 1}}",
		"{'$match': {'$expr': {'$eq': ['$$a', '$$ROOT']}}}, {'$count': 'n'}",
		"{'$group': {'_id': {'$size': '$f'}}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(bare) + ARRAY_LENGTH(whole); i++) {
		bool joins = i >= ARRAY_LENGTH(bare);
		const char *stages = joins ? whole[i - ARRAY_LENGTH(bare)] : bare[i];

		start(made_text(
			FROM("{'$lookup': {'from': 'books', 'let': {'a': '$a'}, 'pipeline': "
			     "[%s], 'as': 'a'}}"),
			stages));
		cr_assert_eq(memmem(play.sequence->output.data, play.sequence->output.length,
				    "$graphLookup", 12) != NULL,
			     joins, "%s", stages);
		play_close(&play);
	}
	/* by the array, its documents are whole before they are joined */
	start(FROM(
		"{'$lookup': {'from': 'books', 'localField': 'x', 'foreignField': 'f', 'pipeline': "
		"[{'$project': {'x': 1}}], 'as': 'a'}}"));
	expect_inside("$lookup.pipeline",
		      WHOLE " $replaceWith $lookup $match $replaceWith $project");
	play_close(&play);
}

Test(sequence_aggregate, what_a_graph_search_has_found_is_put_together)
{
	struct element stage;

	start(FROM("{'$graphLookup': {'from': 'books', 'startWith': '$x', 'connectFromField': 'x', "
		   "'connectToField': 'y', 'as': 'a'}}, {'$limit': 1}"));
	expect_sent("$graphLookup $lookup $limit", NULL);
	cr_assert(document_find(play_message(&play).body, "pipeline", &stage));
	cr_assert(document_find_path(stage.value, "1", &stage));
	cr_assert(document_find_path(stage.value, "$lookup.let", &stage));
	made_expect(stage.value, "{'spillwayFound': '$a'}");
	play_close(&play);
	/* what is read of them comes behind it; the local documents are whole before */
	expect_stages(
		"{'aggregate': 'books', 'pipeline': [{'$graphLookup': {'from': 'books', "
		"'startWith': "
		"'$f', 'connectFromField': 'x', 'connectToField': 'y', 'as': 'a'}}, {'$unwind': "
		"'$a.f'}], 'cursor': {}, '$db': 'shop'}",
		WHOLE " $graphLookup $lookup $unwind");
}

Test(sequence_aggregate, a_join_on_the_array_is_asked_of_whole_documents)
{
	struct bytes body;
	struct element pipeline;

	start(FROM("{'$lookup': {'from': 'books', 'localField': 'x', 'foreignField': 'f.y', 'let': "
		   "{'z': '$z'}, 'pipeline': [{'$count': 'n'}], 'as': 'a'}}"));
	expect_inside("$lookup.pipeline", WHOLE " $replaceWith $lookup $match $replaceWith $count");
	body = play_message(&play).body;
	cr_assert(document_find(body, "pipeline", &pipeline));
	cr_assert(document_find(pipeline.value, "0", &pipeline));
	cr_assert(document_find_path(pipeline.value, "$lookup.let", &pipeline));
	made_expect(pipeline.value, "{'z': '$z', 'spillwayOuter': '$$ROOT'}");
	play_close(&play);
}

Test(sequence_aggregate, a_merge_into_a_ruled_namespace_is_guarded_and_not_repeated)
{
	start(FROM(
		"{'$match': {'x': 1}}, {'$merge': {'into': 'books', 'whenMatched': 'replace'}}"));
	expect_sent("$match $set $merge", NULL);
	play_reply(&play, ERROR(241, "Failed to parse objectId spillway: a merged document int"));
	play_expect_error(&play, 115, "whenMatched: replace");
	play_close(&play);
	start("{'aggregate': 'others', 'pipeline': [{'$merge': 'pairs'}], 'cursor': {}, '$db': "
	      "'shop'}");
	play_reply(&play, "{'cursor': {'firstBatch': [], 'id': {'$numberLong': '0'}, "
			  "'ns': 'shop.others'}, 'ok': 1.0}");
	cr_assert_eq(play_notes(&play), 2, "one of each rule: what was written is not known");
	cr_assert_eq(play.notes[1].reason, MOVER_SOMEWHERE);
	cr_assert(bytes_are(play.notes[1].collection, "pairs"));
	play_close(&play);
	start("{'aggregate': 'books', 'pipeline': [{'$merge': 'others'}], 'cursor': {}, '$db': "
	      "'shop'}");
	expect_sent(LOOKED " $merge", NULL);
	cr_assert_eq(play_notes(&play), 0);
	play_reply(&play, DIED);
	play_expect_error(&play, 134, "rewritten while it was being read");
	play_close(&play);
}

Test(sequence_aggregate, all_commands_of_a_read_have_its_time_together)
{
	start(FIND(BY_ARRAY ", 'maxTimeMS': 500"));
	expect_sent("$match " WHOLE " $match",
		    "{'aggregate': 'books', 'cursor': {}, 'maxTimeMS': 500, '$db': 'shop'}");
	play.now += 200000;
	play_reply(&play, DIED);
	expect_sent("$match " LOOKED " $match",
		    "{'aggregate': 'books', 'cursor': {}, '$db': 'shop', 'maxTimeMS': "
		    "{'$numberLong': '300'}}");
	play_close(&play);
}

Test(sequence_aggregate, a_generation_that_ended_is_asked_for_again_and_not_for_ever)
{
	start(FIND(BY_ARRAY));
	for (int i = 0; i < 4; i++) {
		play_reply(&play, DIED);
		cr_assert_eq(play.outcome, SEQUENCE_SEND);
		expect_sent("$match " LOOKED " $match", NULL);
	}
	play_reply(&play, DIED);
	play_expect_error(&play, 134, "an array was rewritten while it was being read");
	play_close(&play);
	/* the state still stands: overflow is missing */
	start(FIND(BY_ARRAY));
	play_reply(&play, DIED);
	expect_sent("$match " LOOKED " $match", NULL);
	play_reply(&play, ERROR(241, "Failed to parse objectId spillway: missing overflow int"));
	play_expect_error(&play, 301, "a document: overflow documents are missing");
	play_close(&play);
	/* in a transaction the error has ended it */
	start(FIND(BY_ARRAY ", " TRANSACTION));
	play_reply(&play, DIED);
	play_end_transaction(&play);
	play_expect_error(&play, 134, "try again");
	play_close(&play);
}

Test(sequence_aggregate, errors_have_the_words_of_the_clients_command)
{
	static const struct {
		const char *command, *says, *told;
	} cases[] = {
		{FIND(BY_ARRAY), "PlanExecutor error during aggregation :: caused by :: no",
		 "Executor error during find command :: caused by :: no"},
		{"{'count': 'books', 'query': {'f': {'$gt': 1}}, '$db': 'shop'}",
		 "PlanExecutor error during aggregation :: caused by :: no", "no"},
		{"{'distinct': 'books', 'key': 'f', '$db': 'shop'}",
		 "PlanExecutor error during aggregation :: caused by :: no",
		 "Executor error during distinct command :: caused by :: no"},
		{FIND(BY_ARRAY), "Invalid $project :: caused by :: no", "no"},
		{FIND(BY_ARRAY), "unknown operator: $x", "unknown operator: $x"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		start(cases[i].command);
		play_reply(&play,
			   made_text("{'ok': 0.0, 'errmsg': '%s', 'code': 2}", cases[i].says));
		if (play.outcome == SEQUENCE_SEND) /* mongod has nothing against the find itself */
			play_reply(&play, "{'ok': 1.0, 'queryPlanner': {}}");
		play_expect_answer(
			&play, made_text("{'ok': 0.0, 'errmsg': '%s', 'code': 2}", cases[i].told));
		play_close(&play);
	}
}

Test(sequence_aggregate, what_mongod_refuses_of_the_clients_command_is_told)
{
	start(FIND(BY_ARRAY ", 'maxTimeMS': -1"));
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'of an aggregate', 'code': 51024, 'codeName': "
			  "'Location51024', 'operationTime': 1}");
	play_expect_helper(&play,
			   "{'explain': {'find': 'books', " BY_ARRAY
			   "}, 'verbosity': 'queryPlanner', 'maxTimeMS': -1, '$db': 'shop'}");
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'of a find', 'code': 2, 'codeName': 'BadValue'}");
	play_expect_answer(&play, "{'ok': 0.0, 'errmsg': 'of a find', 'code': 2, 'codeName': "
				  "'BadValue', 'operationTime': 1}");
	play_close(&play);
}

Test(sequence_aggregate, a_match_by_schema_inside_a_projection_is_tried_first)
{
	start(FIND(BY_ARRAY ", 'projection': {'n': {'$elemMatch': {'$jsonSchema': {}}}}"));
	play_expect_helper(&play, "{'find': 'books', 'projection': {'n': {'$elemMatch': "
				  "{'$jsonSchema': {}}}}, '$db': 'shop', 'filter': {'_id': "
				  "{'$in': []}}}");
	play_reply(&play, "{'ok': 0.0, 'errmsg': 'no', 'code': 224}");
	play_expect_answer(&play, "{'ok': 0.0, 'errmsg': 'no', 'code': 224}");
	play_close(&play);
}

Test(sequence_aggregate, what_mongod_cant_hold_whole_is_named_with_a_way_out)
{
	start(FIND(BY_ARRAY));
	play_reply(&play, ERROR(10334, "PlanExecutor error: BSONObj size: 19000467 is invalid"));
	play_expect_error(&play, 10334, "by conditions on other fields, and read it by its _id");
	play_close(&play);
	start(FROM("{'$lookup': {'from': 'books', 'localField': 'x', 'foreignField': 'y', 'as': "
		   "'a'}}"));
	play_reply(&play, ERROR(241, "Failed to parse objectId spillway: a joined undefined int"));
	play_expect_error(&play, 115, "give it a pipeline");
	play_close(&play);
}

Test(sequence_aggregate, explain_tells_of_the_aggregate)
{
	struct element inner;

	start("{'explain': {'find': 'books', 'filter': {'f': 1}}, 'verbosity': 'queryPlanner', "
	      "'$db': "
	      "'shop'}");
	cr_assert(document_find(play_message(&play).body, "explain", &inner));
	cr_assert(document_find(inner.value, "pipeline", &inner));
	play_reply(&play, "{'stages': [], 'ok': 1.0}");
	play_expect_passed(&play);
	play_close(&play);
}

Test(sequence_aggregate, explain_has_the_plan_where_mongod_has_it)
{
	start("{'explain': {'count': 'books', 'query': {'f': 1}}, '$db': 'shop'}");
	play_reply(&play,
		   "{'explainVersion': '1', 'stages': [{'$cursor': {'queryPlanner': {'x': 1}, "
		   "'executionStats': {'y': 2}}}, {'$group': {}}], 'ok': 1.0}");
	play_expect_answer(&play,
			   "{'explainVersion': '1', 'queryPlanner': {'x': 1}, "
			   "'executionStats': {'y': 2}, 'stages': [{'$cursor': {'queryPlanner': "
			   "{'x': 1}, 'executionStats': {'y': 2}}}, {'$group': {}}], 'ok': 1.0}");
	play_close(&play);
}
