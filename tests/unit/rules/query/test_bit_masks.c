/* Tests rules/query/bit_masks.c and match_stands.c: bit tests that mean the same in a stage as in a
 * query. */
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "rules/query/bit_masks.h"
#include "rules/stages/match_stands.h"

/* The bytes 80; 7f 7f; seven times 00 and 80; 01 81. */
#define HIGH "{'$binary': {'base64': 'gA==', 'subType': '00'}}"
#define LOW "{'$binary': {'base64': 'f38=', 'subType': '00'}}"
#define LATE "{'$binary': {'base64': 'AAAAAAAAAIA=', 'subType': '00'}}"
#define MANY "{'$binary': {'base64': 'AYE=', 'subType': '05'}}"

static void expect_written(const char *from, const char *to)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	struct bytes wanted;

	cr_assert_eq(bit_masks_of(made_bson(from)), BIT_MASKS_WIDENED, "%s", from);
	bit_masks_write(&out, "filter", made_bson(from));
	writer_close(&out, start);
	wanted = made_bson(to);
	cr_assert_eq(out.length, wanted.length, "%s", from);
	cr_assert_arr_eq(out.data, wanted.data, wanted.length, "%s", from);
	made_free();
}

Test(bit_masks, a_mask_becomes_a_list_of_positions)
{
	expect_written("{'f': {'$bitsAllSet': " HIGH "}}",
		       "{'filter': {'f': {'$bitsAllSet': [7]}}}");
	expect_written("{'f': {'$bitsAnyClear': " MANY ", '$gt': 1}, 'g': 2}",
		       "{'filter': {'f': {'$bitsAnyClear': [0, 8, 15], '$gt': 1}, 'g': 2}}");
}

Test(bit_masks, tests_are_found_wherever_conditions_nest)
{
	expect_written("{'$or': [{'f': {'$not': {'$bitsAllClear': " HIGH "}}}, {'a': 1}]}",
		       "{'filter': {'$or': [{'f': {'$not': {'$bitsAllClear': [7]}}}, {'a': 1}]}}");
	expect_written(
		"{'f': {'$elemMatch': {'$and': [{'x': {'$bitsAnySet': " HIGH "}}]}}}",
		"{'filter': {'f': {'$elemMatch': {'$and': [{'x': {'$bitsAnySet': [7]}}]}}}}");
	expect_written("{'f': {'$all': [{'$elemMatch': {'$bitsAnySet': " HIGH "}}]}}",
		       "{'filter': {'f': {'$all': [{'$elemMatch': {'$bitsAnySet': [7]}}]}}}");
}

Test(bit_masks, other_filters_stay_as_they_are)
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
	};

	for (size_t i = 0; i < ARRAY_LENGTH(plain); i++)
		cr_assert_eq(bit_masks_of(made_bson(plain[i])), BIT_MASKS_PLAIN, "%s", plain[i]);
	made_free();
}

Test(bit_masks, what_only_mongod_nests_is_unserved)
{
	cr_assert_eq(bit_masks_of(made_bson("{'f': {'$_internalSchemaObjectMatch': {'x': {"
					    "'$bitsAllSet': " HIGH "}}}}")),
		     BIT_MASKS_UNSERVED);
	cr_assert_eq(bit_masks_of(made_bson("{'f': {'$_internalSchemaObjectMatch': {'x': {"
					    "'$bitsAllSet': " LOW "}}}}")),
		     BIT_MASKS_PLAIN);
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

Test(bit_masks, a_list_has_a_limit)
{
	auto_buffer struct buffer most = {0}, more = {0};

	cr_assert_eq(bit_masks_of(made_filter(&most, 8192)), BIT_MASKS_WIDENED);
	cr_assert_eq(bit_masks_of(made_filter(&more, 8193)), BIT_MASKS_UNSERVED);
}

Test(bit_masks, all_filters_of_a_pipeline_have_one_limit)
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
	cr_assert_eq(bit_masks_of(match), BIT_MASKS_WIDENED);
	cr_assert(document_find(buffer_view(&out), "pipeline", &pipeline));
	cr_assert(bit_masks_exceed(pipeline.value));
	cr_assert_not(
		bit_masks_exceed(made_bson("{'0': {'$match': {'f': {'$bitsAllSet': " HIGH "}}}}")));
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
