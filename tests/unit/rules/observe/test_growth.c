/* Tests rules/observe/growth.c: what an update's text tells of the arrays that it makes longer. */
#include "tests/unit/wire_make.h"

#include "rules/observe/growth.h"

static struct sketch sketch;

/* Counts, and says what was found: "NAMESPACE ARRAY PUSHES/ELEMENTS", one line each. */
static const char *counted(const char *body)
{
	struct buffer frame = made_frame(&(struct made){.body = body});
	const char *text = "";

	growth_count(&sketch, buffer_view(&frame), 1);
	buffer_fini(&frame);
	sketch_sort(&sketch);
	for (size_t i = 0; i < SKETCH_ARRAYS && sketch.arrays[i].namespace; i++) {
		const struct sketch_array *array = &sketch.arrays[i];

		text = made_text("%s%s %s %d/%d;", text, array->namespace, array->array,
				 (int)array->pushes, (int)array->elements);
	}
	sketch_fini(&sketch);
	return text;
}

#define UPDATE(q, u) "{'update': 'c', '$db': 'd', 'updates': [{'q': " q ", 'u': " u "}]}"
#define PUSH(fields) UPDATE("{'_id': 1}", "{'$push': " fields "}")

Test(growth, pushes_are_counted)
{
	cr_expect_str_eq(counted(PUSH("{'a': 5}")), "d.c a 1/1;");
	cr_expect_str_eq(counted(PUSH("{'a.b': {'x': 1}}")), "d.c a.b 1/1;");
	cr_expect_str_eq(counted(PUSH("{'a': {'$each': [1, 2, 3], '$slice': -5}}")), "d.c a 1/3;");
	cr_expect_str_eq(counted(UPDATE("{}", "{'$set': {'x': 1}, '$addToSet': {'a': 5}}")),
			 "d.c a 1/1;");
	cr_expect_str_eq(counted("{'findAndModify': 'c', '$db': 'd', 'query': {'_id': 1}, "
				 "'update': {'$push': {'a': 5}}}"),
			 "d.c a 1/1;");
	made_free();
}

Test(growth, what_is_no_push_of_a_whole_array_is_not)
{
	cr_expect_str_eq(counted(PUSH("{'a.0.b': 5}")), "");
	cr_expect_str_eq(counted(PUSH("{'a.$.b': 5}")), "");
	cr_expect_str_eq(counted(PUSH("{'a.$[].b': 5}")), "");
	cr_expect_str_eq(counted(PUSH("{'': 5, 'a.': 5, '.a': 5}")), "");
	cr_expect_str_eq(counted(PUSH("5")), "");
	cr_expect_str_eq(counted(PUSH("{'a': {'$each': 5}}")), "");
	cr_expect_str_eq(counted(PUSH("{'a': {'$each': []}}")), "");
	cr_expect_str_eq(counted(UPDATE("{}", "[{'$set': {'a': [1]}}]")), "");
	cr_expect_str_eq(counted(UPDATE("{}", "{'a': [1, 2, 3]}")), "");
	cr_expect_str_eq(counted("{'find': 'c', '$db': 'd', 'filter': {'$push': {'a': 1}}}"), "");
	cr_expect_str_eq(counted("{'update': 1, '$db': 'd'}"), "");
	cr_expect_str_eq(counted("{'update': 'c', 'updates': []}"), "");
	made_free();
}

Test(growth, documents_are_told_apart_by_their_id)
{
	static const char *const filters[] = {"{'_id': 1}", "{'_id': {'$eq': 1}, 'x': 2}",
					      "{'_id': 2}", "{'x': 1}", "{'_id': {'$gt': 1}}"};

	for (size_t i = 0; i < ARRAY_LENGTH(filters); i++) {
		struct buffer frame = made_frame(&(struct made){
			.body = made_text("{'update': 'c', '$db': 'd', 'updates': [{'q': %s, 'u': "
					  "{'$push': {'a': 5}}}]}",
					  filters[i])});

		growth_count(&sketch, buffer_view(&frame), 1);
		buffer_fini(&frame);
	}
	sketch_sort(&sketch);
	cr_assert_eq(sketch.arrays[0].pushes, 5);
	cr_assert_eq(sketch_grown(&sketch.arrays[0], 0), 2);
	cr_assert_eq(sketch_grown(&sketch.arrays[0], 1), 1);
	cr_assert_eq(sketch_grown(&sketch.arrays[0], 2), 0);
	sketch_fini(&sketch);
	made_free();
}

/* What comes in a long list is estimated from its first elements. */
Test(growth, a_long_list_is_not_read_to_its_end)
{
	auto_buffer struct buffer list = {0};

	for (int i = 0; i < 1000; i++)
		buffer_append(&list, i ? ", 5" : "5", i ? 3 : 1);
	buffer_append(&list, "", 1);
	growth_count(&sketch, (struct bytes){0}, 1);
	{
		struct buffer frame = made_frame(&(struct made){
			.body = made_text(PUSH("{'a': {'$each': [%s]}}"), (char *)list.data)});

		growth_count(&sketch, buffer_view(&frame), 1);
		buffer_fini(&frame);
	}
	cr_assert(sketch.arrays[0].elements > 800 && sketch.arrays[0].elements < 1200);
	sketch_fini(&sketch);
	made_free();
}
