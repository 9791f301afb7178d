/* Tests rules/query/filter_words.c and match_stands.c: filters that mean the same in a stage as in
 * a query. */
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "rules/query/filter_words.h"
#include "rules/stages/match_stands.h"

/* The bytes 80; 7f 7f; seven times 00 and 80; 01 81. */
#define HIGH "{'$binary': {'base64': 'gA==', 'subType': '00'}}"
#define LOW "{'$binary': {'base64': 'f38=', 'subType': '00'}}"
#define LATE "{'$binary': {'base64': 'AAAAAAAAAIA=', 'subType': '00'}}"
#define REGEX "{'$regularExpression': {'pattern': 'a', 'options': 'i'}}"
#define MANY "{'$binary': {'base64': 'AYE=', 'subType': '05'}}"

static void expect_words(enum filter_words words, const char *from, const char *to)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	struct bytes wanted;

	cr_assert_eq(filter_words_of(made_bson(from)), words, "%s", from);
	filter_words_write(&out, "filter", made_bson(from));
	writer_close(&out, start);
	wanted = made_bson(to);
	cr_assert_eq(out.length, wanted.length, "%s", from);
	cr_assert_arr_eq(out.data, wanted.data, wanted.length, "%s", from);
	made_free();
}

static void expect_written(const char *from, const char *to)
{
	expect_words(FILTER_WORDS_WIDENED, from, to);
}

static void expect_spread(const char *from, const char *to)
{
	expect_words(FILTER_WORDS_SPREAD, from, to);
}

Test(filter_words, a_mask_becomes_a_list_of_positions)
{
	expect_written("{'f': {'$bitsAllSet': " HIGH "}}",
		       "{'filter': {'f': {'$bitsAllSet': [7]}}}");
	expect_written("{'f': {'$bitsAnyClear': " MANY ", '$gt': 1}, 'g': 2}",
		       "{'filter': {'f': {'$bitsAnyClear': [0, 8, 15], '$gt': 1}, 'g': 2}}");
}

Test(filter_words, tests_are_found_wherever_conditions_nest)
{
	expect_written("{'$or': [{'f': {'$not': {'$bitsAllClear': " HIGH "}}}, {'a': 1}]}",
		       "{'filter': {'$or': [{'f': {'$not': {'$bitsAllClear': [7]}}}, {'a': 1}]}}");
	expect_written(
		"{'f': {'$elemMatch': {'$and': [{'x': {'$bitsAnySet': " HIGH "}}]}}}",
		"{'filter': {'f': {'$elemMatch': {'$and': [{'x': {'$bitsAnySet': [7]}}]}}}}");
	expect_written("{'f': {'$all': [{'$elemMatch': {'$bitsAnySet': " HIGH "}}]}}",
		       "{'filter': {'f': {'$all': [{'$elemMatch': {'$bitsAnySet': [7]}}]}}}");
}

Test(filter_words, an_all_of_an_element_becomes_its_parts)
{
	expect_spread("{'f': {'$elemMatch': {'$all': [1, null, [2], {'x': 1}, {'$ref': 'c'}]}}}",
		      "{'filter': {'f': {'$elemMatch': {'$eq': 1, '$eq': null, '$eq': [2], "
		      "'$eq': {'x': 1}, '$eq': {'$ref': 'c'}}}}}");
	expect_spread("{'f': {'$elemMatch': {'$gt': 0, '$all': [" REGEX ", 'a'], '$lt': 9}}}",
		      "{'filter': {'f': {'$elemMatch': {'$gt': 0, '$in': [" REGEX
		      "], '$eq': 'a', '$lt': 9}}}}");
	expect_spread("{'f': {'$elemMatch': {'$all': []}}}",
		      "{'filter': {'f': {'$elemMatch': {'$in': []}}}}");
	expect_spread("{'f': {'$elemMatch': {'$all': [{'$elemMatch': {'x': 1}}, {'$elemMatch': "
		      "{'$all': [1]}, '$none': 1}]}}}",
		      "{'filter': {'f': {'$elemMatch': {'$elemMatch': {'x': 1}, '$elemMatch': "
		      "{'$eq': 1}}}}}");
}

Test(filter_words, an_all_is_found_wherever_elements_are_asked_for)
{
	expect_spread("{'f': {'$elemMatch': {'$elemMatch': {'$not': {'$all': [1], '$gt': 0}}}}}",
		      "{'filter': {'f': {'$elemMatch': {'$elemMatch': {'$not': {'$eq': 1, '$gt': "
		      "0}}}}}}");
	expect_spread("{'$nor': [{'a.b': {'$not': {'$elemMatch': {'$all': [1]}}}}, {'a': 2}]}",
		      "{'filter': {'$nor': [{'a.b': {'$not': {'$elemMatch': {'$eq': 1}}}}, {'a': "
		      "2}]}}");
	expect_spread("{'f': {'$all': [{'$elemMatch': {'$all': [1, 2]}}]}, 'g': {'$all': [3]}}",
		      "{'filter': {'f': {'$all': [{'$elemMatch': {'$eq': 1, '$eq': 2}}]}, 'g': "
		      "{'$all': [3]}}}");
	expect_spread("{'f': {'$elemMatch': {'$or': [{'x': {'$elemMatch': {'$all': [1]}}}]}}}",
		      "{'filter': {'f': {'$elemMatch': {'$or': [{'x': {'$elemMatch': {'$eq': "
		      "1}}}]}}}}");
}

/* With a mask beside it, the filter still means something else in a stage. */
Test(filter_words, an_all_and_a_mask_are_written_together)
{
	expect_written("{'f': {'$elemMatch': {'$all': [1], '$bitsAllSet': " HIGH "}}}",
		       "{'filter': {'f': {'$elemMatch': {'$eq': 1, '$bitsAllSet': [7]}}}}");
	expect_written("{'f': {'$elemMatch': {'$all': [{'$elemMatch': {'$bitsAllSet': " HIGH
		       "}}]}}}",
		       "{'filter': {'f': {'$elemMatch': {'$elemMatch': {'$bitsAllSet': [7]}}}}}");
}

Test(filter_words, other_filters_stay_as_they_are)
{
	static const char *const plain[] = {
		"{}",
		"{'f': 1}",
		"{'f': {'$bitsAllSet': 128}}",
		"{'f': {'$bitsAllSet': [7]}}",
		"{'f': {'$bitsAllSet': " LOW "}}",
		"{'f': {'$bitsAllSet': " LATE "}}",
		/* values, not tests */
		"{'f': {'$eq': {'$bitsAllSet': " HIGH "}}}",
		"{'f': {'x': {'$bitsAllSet': " HIGH "}}}",
		"{'f': {'$in': [{'$bitsAllSet': " HIGH "}]}}",
		"{'f': {'$all': [{'$bitsAllSet': " HIGH "}]}}",
		"{'f': {'$bitsAllSet': " HIGH ", '$ref': 'c', '$id': 1}}",
		"{'$expr': {'$eq': ['$f', {'$literal': {'$bitsAllSet': " HIGH "}}]}}",
		/* of an array, not of an element */
		"{'f': {'$all': [1, 2]}}",
		"{'f': {'$all': [{'$elemMatch': {'$gt': 1}}]}}",
		"{'f': {'$elemMatch': {'x': {'$all': [1, 2]}, 'y': {'$not': {'$all': [1]}}}}}",
		"{'f': {'$elemMatch': {'$gt': 1}}, 'x': {'$all': [1]}}",
		"{'f': {'$elemMatch': {'$in': [{'$all': [1]}]}}}",
		"{'f': {'$elemMatch': {'$all': [1], '$ref': 'c'}}}",
		/* mongod refuses these, or they may be what mongod refuses */
		"{'f': {'$elemMatch': {'$all': 1}}}",
		"{'f': {'$elemMatch': {'$all': [1, {'$gt': 1}]}}}",
		"{'f': {'$elemMatch': {'$all': [{'$gt': 1, '$ref': 'c'}]}}}",
		"{'f': {'$elemMatch': {'$all': [{'$elemMatch': {'$gt': 1}}, 1]}}}",
		"{'f': {'$elemMatch': {'$all': [{'$none': 1}]}}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(plain); i++)
		cr_assert_eq(filter_words_of(made_bson(plain[i])), FILTER_WORDS_PLAIN, "%s",
			     plain[i]);
	made_free();
}

Test(filter_words, what_only_mongod_nests_is_unserved)
{
	cr_assert_eq(filter_words_of(made_bson("{'f': {'$_internalSchemaObjectMatch': {'x': {"
					       "'$bitsAllSet': " HIGH "}}}}")),
		     FILTER_WORDS_UNSERVED);
	cr_assert_eq(filter_words_of(made_bson("{'f': {'$_internalSchemaObjectMatch': {'x': {"
					       "'$bitsAllSet': " LOW "}}}}")),
		     FILTER_WORDS_PLAIN);
	made_free();
}

static struct bytes made_filter(struct buffer *out, size_t mask)
{
	uint8_t *bits = must_calloc(mask, 1);
	size_t start = writer_open(out), test;

	memset(bits, 0xff, mask);
	test = writer_open_document(out, "f");
	writer_binary(out, "$bitsAllSet", (struct bytes){bits, mask});
	writer_close(out, test);
	writer_close(out, start);
	free(bits);
	return buffer_view(out);
}

Test(filter_words, a_list_has_a_limit)
{
	auto_buffer struct buffer most = {0}, more = {0};

	cr_assert_eq(filter_words_of(made_filter(&most, 8192)), FILTER_WORDS_WIDENED);
	cr_assert_eq(filter_words_of(made_filter(&more, 8193)), FILTER_WORDS_UNSERVED);
}

Test(filter_words, all_filters_of_a_pipeline_have_one_limit)
{
	auto_buffer struct buffer out = {0}, filter = {0};
	size_t start = writer_open(&out), list = writer_open_array(&out, "pipeline"), stage;
	struct element pipeline;
	struct bytes match = made_filter(&filter, 4000);

	for (int i = 0; i < 3; i++) {
		stage = writer_open_document(&out, "0");
		writer_document(&out, "$match", match);
		writer_close(&out, stage);
	}
	writer_close(&out, list);
	writer_close(&out, start);
	cr_assert_eq(filter_words_of(match), FILTER_WORDS_WIDENED);
	cr_assert(document_find(buffer_view(&out), "pipeline", &pipeline));
	cr_assert(filter_words_exceed(pipeline.value));
	cr_assert_not(filter_words_exceed(
		made_bson("{'0': {'$match': {'f': {'$bitsAllSet': " HIGH "}}}}")));
	made_free();
}

static void expect_stands(const char *json, size_t first, bool unclear)
{
	struct bytes document = made_bson(json);
	struct element pipeline;

	cr_assert(document_find(document, "p", &pipeline));
	cr_assert_eq(match_unclear_from(pipeline.value, first) != NULL, unclear, "%s", json);
	made_free();
}

#define TESTS "{'$match': {'f': {'$bitsAllSet': " HIGH "}}}"

Test(match_stands, mongod_moves_a_match_past_others_and_a_sort)
{
	expect_stands("{'p': [" TESTS "]}", 0, false);
	expect_stands("{'p': [{'$match': {'a': 1}}, {'$sort': {'f': 1}}, " TESTS "]}", 0, false);
}

/* It moves the $match past Spillway's own stages, and may read the mask anew then. */
Test(match_stands, behind_a_limit_it_is_unclear)
{
	expect_stands("{'p': [{'$limit': 1}, " TESTS "]}", 0, true);
	expect_stands("{'p': [{'$skip': 1}, {'$set': {'a': 1}}, " TESTS "]}", 0, true);
}

Test(match_stands, behind_other_stages_it_is_unclear)
{
	expect_stands("{'p': [{'$set': {'a': 1}}, " TESTS "]}", 0, true);
	expect_stands("{'p': [{'$limit': 1}, {'$unionWith': 'c'}, " TESTS "]}", 0, true);
	expect_stands("{'p': [{'$set': {'a': 1}}, {'$match': {'f': {'$bitsAllSet': [7]}}}]}", 0,
		      false);
	expect_stands("{'p': [{'$set': {'a': 1}}, " TESTS ", {'$limit': 1}]}", 2, false);
}

Test(match_stands, a_path_with_an_empty_part_is_unclear_where_mongod_may_refuse_it)
{
	expect_stands(
		"{'p': [{'$match': {'f.': 1}}, {'$sort': {'f': 1}}, {'$match': {'f..x': 1}}]}", 0,
		false);
	expect_stands("{'p': [{'$limit': 1}, {'$match': {'f.': 1}}]}", 0, true);
	expect_stands("{'p': [{'$set': {'a': 1}}, {'$match': {'$or': [{'.f': 1}]}}]}", 0, true);
	expect_stands("{'p': [{'$facet': {'a': [{'$match': {'f..x': 1}}]}}]}", 0, true);
	expect_stands("{'p': [{'$limit': 1}, {'$match': {'f.x': 1, '': 2}}]}", 0, false);
}

static void expect_differs(enum match_stands stands, const char *filter, bool differs)
{
	cr_assert_eq(match_differs(stands, made_bson(filter)), differs, "%s", filter);
	made_free();
}

Test(match_stands, an_all_of_an_element_is_written_anew_wherever_it_stands)
{
	static const char all[] = "{'f': {'$elemMatch': {'$all': [1]}}}";
	static const char mask[] = "{'f': {'$bitsAllSet': " HIGH "}}";

	expect_stands("{'p': [{'$set': {'a': 1}}, {'$match': {'f': {'$elemMatch': {'$all': "
		      "[1]}}}}]}",
		      0, false);
	expect_differs(MATCH_STANDS_QUERY, all, true);
	expect_differs(MATCH_STANDS_UNCLEAR, all, true);
	expect_differs(MATCH_STANDS_QUERY, mask, true);
	expect_differs(MATCH_STANDS_APART, mask, false);
	expect_differs(MATCH_STANDS_QUERY, "{'f': 1}", false);
}
