/* Tests proxy/analyze/find_arrays.c: the paths that lead to arrays. */
#include "tests/unit/unit.h"

#include "proxy/analyze/find_arrays.h"

#include <bson/bson.h>

static void add(struct found_arrays *found, const char *json)
{
	bson_error_t error;
	bson_t *document = bson_new_from_json((const uint8_t *)json, -1, &error);

	cr_assert_not_null(document, "%s", error.message);
	found_arrays_add(found, (struct bytes){bson_get_data(document), document->len});
	bson_destroy(document);
}

Test(find_arrays, paths_go_through_documents)
{
	struct found_arrays found = {0};

	add(&found, "{\"a\": [1], \"b\": {\"c\": {\"d\": [1, 2, 3]}}, \"e\": 1, \"f\": {}}");
	add(&found, "{\"a\": [1, 2, 3, 4], \"b\": [{\"c\": [1]}]}");
	found_arrays_sort(&found);
	cr_assert_eq(found.count, 3);
	cr_assert_str_eq(found.arrays[0].path, "a");
	cr_assert_eq(found.arrays[0].elements, 5);
	cr_assert_str_eq(found.arrays[1].path, "b.c.d");
	cr_assert_str_eq(found.arrays[2].path, "b");
	found_arrays_fini(&found);
}

Test(find_arrays, names_that_can_not_be_asked_for_are_passed_over)
{
	struct found_arrays found = {0};

	add(&found, "{\"a.b\": [1], \"\": [1], \"$c\": [1], \"_spill\": {\"a\": {\"a\": [1]}}}");
	cr_assert_eq(found.count, 0);
	found_arrays_fini(&found);
}

Test(find_arrays, what_is_deep_or_broken_is_the_end_of_it)
{
	struct found_arrays found = {0};
	char deep[1000] = "";
	const uint8_t broken[] = {14, 0, 0, 0, 4, 'a', 0, 99, 0, 0, 0, 0, 0, 0};

	for (int i = 0; i < 50; i++)
		strcat(deep, "{\"a\": ");
	strcat(deep, "[1]");
	for (int i = 0; i < 50; i++)
		strcat(deep, "}");
	add(&found, deep);
	found_arrays_add(&found, (struct bytes){broken, sizeof(broken)});
	found_arrays_add(&found, (struct bytes){broken, 3});
	cr_assert_eq(found.count, 0);
	found_arrays_fini(&found);
}
