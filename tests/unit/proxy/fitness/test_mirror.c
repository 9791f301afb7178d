/* Tests proxy/fitness/mirror.c: which indexes the overflow has because the main collection has
 * them. */
#include "tests/unit/wire_make.h"

#include "proxy/fitness/mirror.h"

static struct rule rule = {.array = (char *)"a.list", .overflow = {.array = (char *)"part"}};

/* The like of an index, or an empty document where it has none. */
static struct bytes like(const char *json)
{
	static struct buffer out;
	struct element element;
	size_t start;
	bool wanted;

	out.length = 0;
	start = writer_open(&out);
	wanted = mirror_write(&rule, made_bson(json), "0", &out);
	writer_close(&out, start);
	if (wanted)
		cr_assert(document_find(buffer_view(&out), "0", &element));
	else
		cr_assert_eq(out.length, 5);
	return wanted ? element.value : (struct bytes){0};
}

Test(mirror, what_looks_into_the_array_has_its_like)
{
	static const char *const cases[][2] = {
		{"{'v': 2, 'key': {'a.list': 1}, 'name': 'x'}",
		 "{'key': {'part': 1}, 'name': 'spillway:x'}"},
		{"{'key': {'a.list.b.c': -1}, 'name': 'x'}",
		 "{'key': {'part.b.c': -1}, 'name': 'spillway:x'}"},
		{"{'key': {'t': 1, 'a.list.b': 1, 'u': 'text', 'a.list.c': -1}, 'name': 'x'}",
		 "{'key': {'part.b': 1, 'part.c': -1}, 'name': 'spillway:x'}"},
		{"{'key': {'a.list.$**': 1}, 'name': 'x'}",
		 "{'key': {'part.$**': 1}, 'name': 'spillway:x'}"},
		{"{'key': {'a.list': 1}, 'name': 'x', 'sparse': true, 'hidden': true, "
		 "'background': true, "
		 "'partialFilterExpression': {'t': 1}, 'collation': {'locale': 'de'}}",
		 "{'key': {'part': 1}, 'name': 'spillway:x', 'sparse': true, 'hidden': true, "
		 "'collation': {'locale': 'de'}}"},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
		made_expect(like(cases[i][0]), cases[i][1]);
	made_free();
}

Test(mirror, elements_of_their_own_have_their_fields_on_the_top)
{
	static struct rule elements = {.array = (char *)"a.list",
				       .overflow = {.layout = RULE_ELEMENTS, .link = (char *)"of"}};
	static const char *const cases[][2] = {
		{"{'key': {'a.list.b.c': -1, 'a.list': 1, 'a.list.of_x': 1}, 'name': 'x'}",
		 "{'key': {'b.c': -1, 'of_x': 1}, 'name': 'spillway:x'}"},
		{"{'key': {'a.list._id': 1}, 'name': 'x'}",
		 "{'key': {'_spill.v._id': 1}, 'name': 'spillway:x'}"},
		{"{'key': {'a.list.of.y': 1}, 'name': 'x'}",
		 "{'key': {'_spill.v.of.y': 1}, 'name': 'spillway:x'}"},
	};
	struct buffer out = {0};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
		struct element element;
		size_t start;

		out.length = 0;
		start = writer_open(&out);
		cr_assert(mirror_write(&elements, made_bson(cases[i][0]), "0", &out));
		writer_close(&out, start);
		cr_assert(document_find(buffer_view(&out), "0", &element));
		made_expect(element.value, cases[i][1]);
	}
	out.length = 0;
	cr_assert_not(mirror_write(&elements, made_bson("{'key': {'a.list': 1}, 'name': 'x'}"), "0",
				   &out));
	cr_assert_eq(out.length, 0);
	buffer_fini(&out);
	made_free();
}

Test(mirror, what_does_not_has_none)
{
	static const char *const cases[] = {
		"{'key': {'_id': 1}, 'name': 'x'}",
		"{'key': {'a': 1}, 'name': 'x'}", /* as a whole value */
		"{'key': {'a.lists': 1}, 'name': 'x'}",
		"{'key': {'$**': 1}, 'name': 'x'}",
		"{'key': {'a.list': 'hashed'}, 'name': 'x'}", /* can't hold arrays */
		"{'key': {'a.list': 0.5}, 'name': 'x'}",
		"{'key': {'a.list': 1}}",
		"{'key': 1, 'name': 'x'}",
		"{'name': 'x'}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
		cr_expect_eq(like(cases[i]).length, 0, "%s", cases[i]);
	made_free();
}

static bool same(const char *one, const char *other)
{
	struct bytes first = made_bson(one);
	bool same = mirror_same(first, made_bson(other));

	cr_expect_eq(same, mirror_same(made_bson(other), first), "%s, %s", one, other);
	return same;
}

Test(mirror, names_and_kinds_of_numbers_make_no_difference)
{
	cr_expect(
		same("{'key': {'a': 1}, 'name': 'x'}", "{'v': 2, 'key': {'a': 1.0}, 'name': 'y'}"));
	cr_expect(same("{'key': {'a': 1}, 'sparse': false}", "{'key': {'a': 1}}"));
	cr_expect_not(same("{'key': {'a': 1}}", "{'key': {'a': -1}}"));
	cr_expect_not(same("{'key': {'a': 1}}", "{'key': {'a': 1, 'b': 1}}"));
	cr_expect_not(same("{'key': {'a': 1}}", "{'key': {'b': 1}}"));
	cr_expect_not(same("{'key': {'a': 1}}", "{'key': {'a': 'text'}}"));
	cr_expect_not(same("{'key': {'a': 1}}", "{'key': {'a': 1}, 'sparse': true}"));
	cr_expect_not(same("{'key': {'a': 1}}", "{'key': {'a': 1}, 'hidden': true}"));
	cr_expect_not(
		same("{'key': {'a': 1}}", "{'key': {'a': 1}, 'collation': {'locale': 'de'}}"));
	cr_expect_not(
		same("{'key': {'a': 1}}", "{'key': {'a': 1}, 'partialFilterExpression': {}}"));
	cr_expect_not(same("{'key': {'a': 1}}", "{}"));
	made_free();
}

Test(mirror, only_what_was_made_here_is_ours)
{
	cr_expect(mirror_is_ours(made_bson("{'name': 'spillway:x'}")));
	cr_expect_not(mirror_is_ours(made_bson("{'name': 'spillway:'}")));
	cr_expect_not(mirror_is_ours(made_bson("{'name': 'x'}")));
	cr_expect_not(mirror_is_ours(made_bson("{'name': 5}")));
	cr_expect_not(mirror_is_ours(made_bson("{}")));
	made_free();
}
