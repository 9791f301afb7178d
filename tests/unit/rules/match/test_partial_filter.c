/* Tests rules/match/partial_filter.c: which filters choose a document by its array's presence. */
#include "tests/unit/wire_make.h"

#include "protocol/template.h"
#include "rules/match/partial_filter.h"

static bool holds(const char *text, const char *array)
{
	auto_buffer struct buffer filter = {0};

	template_write_document(&filter, text);
	return partial_filter_holds(buffer_view(&filter), array);
}

Test(partial_filter, presence_is_the_same_of_what_is_stored)
{
	static const char *const filters[] = {
		"{}",
		"{'x': 3, 'a.b': {'$gt': 1}, 'a.list2': 1}",
		"{'a.list': {'$exists': true}}",
		"{'a.list': {'$type': 'array', '$exists': true}}",
		"{'a.list': {'$type': 4}}",
		"{'a.list': {'$type': ['string', 'array']}}",
		"{'a': {'$exists': true}}",
		"{'a': {'$type': 'object'}}",
		"{'$and': [{'x': 1}, {'$or': [{'a.list': {'$exists': true}}, {'y': 2}]}]}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(filters); i++)
		cr_expect(holds(filters[i], "a.list"), "%s", filters[i]);
}

Test(partial_filter, conditions_on_elements_are_not)
{
	static const char *const filters[] = {
		"{'a.list': 1}",
		"{'a.list': {}}",
		"{'a.list': {'$gt': 1}}",
		"{'a.list': {'$exists': true, '$gt': 1}}",
		"{'a.list': {'$type': 'string'}}",
		"{'a.list': {'$type': 'object'}}",
		"{'a.list': {'$type': []}}",
		"{'a.list': [1]}",
		"{'a.list.x': {'$exists': true}}",
		"{'a.list.0': {'$exists': true}}",
		"{'a.0.list': {'$exists': true}}",
		"{'a': {'list': []}}",
		"{'a': {'$type': 'array'}}",
		"{'$and': [{'x': 1}, {'a.list': 3}]}",
		"{'$and': [{'$or': [{'x': 1}, {'a': {'$gt': {}}}]}]}",
		"{'$and': [3]}",
		"{'$and': {'x': 1}}",
		"{'$expr': {'$gt': ['$x', 1]}}",
		"{'$nor': [{'x': 1}]}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(filters); i++)
		cr_expect_not(holds(filters[i], "a.list"), "%s", filters[i]);
}

Test(partial_filter, what_is_broken_is_not)
{
	auto_buffer struct buffer filter = {0};
	struct bytes whole = made_bson("{'x': 1}");

	buffer_append(&filter, whole.data, whole.length);
	filter.data[4] = 0x55;
	cr_assert_not(partial_filter_holds(buffer_view(&filter), "f"));
	made_free();
}
