/* Tests proxy/analyze/analyze_portions.c, and the stage that takes a portion. */
#include "tests/unit/wire_make.h"

#include "protocol/template.h"
#include "proxy/analyze/analyze_pipeline.h"

static void draw(struct portions *portions, int64_t id, int64_t record)
{
	auto_buffer struct buffer out = {0};

	template_write_document(&out, "{_id: @id, $recordId: @record}", fill("id", id),
				fill("record", record));
	portions_add(portions, buffer_view(&out));
}

static int64_t integer(const struct element *element)
{
	int64_t value = -1;

	cr_assert(element->type == 0 || element_integer(element, &value));
	return value;
}

Test(portions, small_collections_have_none)
{
	cr_assert_eq(portions_wanted(0), 0);
	cr_assert_eq(portions_wanted(100000), 0);
	cr_assert_eq(portions_wanted(1000000), 200);
	cr_assert_eq(portions_wanted(INT64_MAX), portions_wanted(1000000000));
}

Test(portions, each_begins_where_the_one_before_ends)
{
	struct portions portions = {0};
	struct portion portion;
	int64_t from = -1;
	size_t count = 0;

	for (int64_t i = 0; i < 30; i++)
		draw(&portions, 2 * i, 100 + i);
	cr_assert(portions_fit(&portions));
	while (portions_next(&portions, &portion)) {
		cr_assert_eq(integer(&portion.from), from);
		from = integer(&portion.to);
		count++;
	}
	cr_assert_eq(from, -1, "the last one has an open end");
	cr_assert_eq(count, 4);
	cr_assert_not(portions_next(&portions, &portion));
	portions_fini(&portions);
}

Test(portions, only_where_documents_are_stored_in_the_order_of_their_id)
{
	static const struct {
		int64_t factor, modulus;
		bool fit;
	} cases[] = {{1, 1009, true}, {1008, 1009, true}, {383, 1009, false}, {126, 1009, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct portions portions = {0};

		for (int64_t id = 1; id < 1000; id++)
			draw(&portions, id, id * cases[i].factor % cases[i].modulus);
		cr_assert_eq(portions_fit(&portions), cases[i].fit, "case %zu", i);
		portions_fini(&portions);
	}
}

Test(portions, none_without_numbers_of_records)
{
	struct portions none = {0}, portions = {0};

	cr_assert_not(portions_fit(&none));
	for (int64_t id = 0; id < 100; id++)
		draw(&portions, id, id);
	portions_add(&portions, made_bson("{'_id': 100, '$recordId': {'a': 1}}"));
	cr_assert_not(portions_fit(&portions));
	portions_fini(&portions);
}

static void expect_stage(const char *from, const char *to, const char *json)
{
	auto_buffer struct buffer out = {0};
	struct portion portion = {0};
	size_t start = writer_open(&out), index = 0;

	if (from)
		cr_assert(document_find(made_bson(from), "_id", &portion.from));
	if (to)
		cr_assert(document_find(made_bson(to), "_id", &portion.to));
	pipeline_within(&out, &index, &portion);
	writer_close(&out, start);
	cr_assert_eq(index, 1);
	made_expect(buffer_view(&out), json);
}

/* A filter finds nothing between values of two types, nor above a NaN. */
Test(portions, the_stage_compares_as_the_index_does)
{
	expect_stage("{'_id': 5}", "{'_id': 9}",
		     "{'0': {'$match': {'_id': {'$gte': 5, '$lt': 9}}}}");
	expect_stage("{'_id': 5}", "{'_id': '$a'}",
		     "{'0': {'$match': {'$expr': {'$and': [{'$gte': ['$_id', {'$literal': 5}]}, "
		     "{'$lt': ['$_id', {'$literal': '$a'}]}]}}}}");
	expect_stage("{'_id': {'$numberDouble': 'NaN'}}", "{'_id': 1.5}",
		     "{'0': {'$match': {'$expr': {'$and': [{'$gte': ['$_id', {'$literal': "
		     "{'$numberDouble': 'NaN'}}]}, {'$lt': ['$_id', {'$literal': 1.5}]}]}}}}");
	expect_stage(NULL, "{'_id': 5}",
		     "{'0': {'$match': {'$expr': {'$lt': ['$_id', {'$literal': 5}]}}}}");
	expect_stage("{'_id': null}", NULL,
		     "{'0': {'$match': {'$expr': {'$gte': ['$_id', {'$literal': null}]}}}}");
}
