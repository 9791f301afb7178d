/* Tests rules/rule/state.c: what of a stored state is sound. */
#include "tests/unit/wire_make.h"

#include "rules/rule/state.h"

#define G "{'$binary': {'base64': 'AQEBAQEBAQEBAQEBAQEBAQ==', 'subType': '00'}}"
#define SHORT "{'$binary': {'base64': 'AQE=', 'subType': '00'}}"

static struct element field_of(const char *json)
{
	struct element field;

	cr_assert(document_find(made_bson(made_text("{'s': %s}", json)), "s", &field));
	return field;
}

static void expect(const char *json, bool strict, const char *damage)
{
	struct element field = field_of(json);
	struct state state;
	const char *found = state_read(&field, strict, &state);

	cr_assert_eq(found != NULL, damage != NULL, "%s", json);
	if (found)
		cr_assert_eq(strncmp(found, damage, strlen(damage)), 0, "%s: %s", json, found);
}

Test(state, a_sound_one_is_read_in_any_order)
{
	struct element field = field_of("{'n': 4, 'x': 1, 'h': {'$numberLong': '3'}, 'g': " G "}");
	struct state state;

	cr_assert_null(state_read(&field, true, &state));
	cr_assert_eq(state.generation.length, GENERATION_BYTES);
	cr_assert(state.head == 3 && state.moved == 4);
}

Test(state, each_part_may_be_damaged)
{
	expect("[]", false, "the array's state");
	expect("{'h': 1, 'n': 1}", false, "g ");
	expect("{'g': " SHORT ", 'h': 1, 'n': 1}", false, "g ");
	expect("{'g': " G ", 'n': 1}", false, "h ");
	expect("{'g': " G ", 'h': -1, 'n': 1}", false, "h ");
	expect("{'g': " G ", 'h': 1, 'n': 'x'}", false, "n ");
	expect("{'g': " G ", 'h': 1, 'n': -1}", true, "n ");
}

Test(state, a_part_that_stands_twice_is_damage_if_asked_strictly)
{
	expect("{'g': " G ", 'h': 1, 'n': 1, 'n': 2}", false, NULL);
	expect("{'g': " G ", 'h': 1, 'n': 1, 'n': 2}", true, "n ");
	expect("{'g': " G ", 'h': 1, 'n': 1, 'h': 'x'}", false, "h ");
	expect("{'g': " G ", 'g': " G ", 'h': 1, 'n': 1}", true, "g ");
}

Test(state, it_is_found_below_its_key)
{
	const struct rule rule = {.key = (char *)"a/f"};
	struct element field;

	cr_assert(state_find(&rule, made_bson("{'_spill': {'b': 1, 'a/f': {}}}"), &field));
	cr_assert_not(state_find(&rule, made_bson("{'_spill': {'b': 1}}"), &field));
	cr_assert_not(state_find(&rule, made_bson("{'_spill': [{'a/f': {}}]}"), &field));
	cr_assert_not(state_find(&rule, made_bson("{'a': 1}"), &field));
}

#define L "{'$binary': {'base64': 'AgICAgICAgICAgICAgICAg==', 'subType': '00'}}"
#define EDITED "'g': " G ", 'l': " L ", 'b': 4, 'h': 3, 'n': 6, 'r': 1, 'v': 2"

static void expect_any(const char *json, bool strict, bool sound)
{
	struct element field = field_of(json);
	struct state state;

	cr_assert_eq(state_read_any(&field, strict, &state) == NULL, sound, "%s", json);
	cr_assert_eq(state.generation.data != NULL, sound, "%s", json);
}

Test(state, an_array_that_was_edited_in_place_has_editions)
{
	struct element field = field_of("{'a': [], 'e': {" EDITED ", 'w': " L "}}");
	struct state state;

	cr_assert_null(state_read_any(&field, true, &state));
	cr_assert(state_is_edited(&field));
	cr_assert(state.head == 3 && state.moved == 6 && state.bound == 4 && state.removed == 1 &&
		  state.edition == 2);
	cr_assert(state_elements(&state) == 5);
	cr_assert_eq(state.later.length, GENERATION_BYTES);
	cr_assert_eq(state.pending.length, GENERATION_BYTES);
}

Test(state, who_has_not_learnt_of_editions_takes_them_for_damage)
{
	expect("{'e': {" EDITED "}}", false, "the array was edited in place");
	expect("{'e': 1, 'g': " G ", 'h': 1, 'n': 1}", false, "the array was edited in place");
}

Test(state, each_part_of_the_editions_may_be_damaged)
{
	static const char *const broken[] = {
		"{'e': {'l': " L ", 'b': 4, 'h': 3, 'n': 6, 'r': 1, 'v': 2}}",
		"{'e': {'g': " G ", 'b': 4, 'h': 3, 'n': 6, 'r': 1, 'v': 2}}",
		"{'e': {'g': " G ", 'l': " G ", 'b': 4, 'h': 3, 'n': 6, 'r': 1, 'v': 2}}",
		"{'e': {" EDITED ", 'w': 1}}",
		"{'e': {" EDITED ", 'b': 7}}",
		"{'e': {" EDITED ", 'r': 7}}",
		"{'e': {" EDITED ", 'h': -1}}",
		"{'e': {" EDITED ", 'v': -1}}",
		"{'e': {" EDITED ", 'v': 2147483647}}",
		"{'e': {" EDITED "}, 'g': " G "}",
		"{'e': {" EDITED "}, 'n': 1}",
		"{'e': {" EDITED "}, 'e': {" EDITED "}}",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(broken); i++)
		expect_any(broken[i], false, false);
	expect_any("{'e': {" EDITED ", 'n': 6}}", false, true);
	expect_any("{'e': {" EDITED ", 'n': 6}}", true, false);
	expect_any("{'g': " G ", 'h': 1, 'n': 1}", true, true);
}

static bool stand(const char *before, const char *now)
{
	static struct rule rule = {.key = (char *)"f"};
	static struct target target = {.rule = &rule};
	const struct ruled_namespace namespace = {.target_count = 1, .targets = &target};

	return states_stand(&namespace, made_bson(made_text("{'_spill': {'f': %s}}", before)),
			    made_bson(made_text("{'_spill': {'f': %s}}", now)));
}

Test(state, it_stands_as_long_as_generation_and_edition_do)
{
	cr_assert(stand("{'g': " G ", 'h': 1, 'n': 1}", "{'g': " G ", 'h': 1, 'n': 5}"));
	cr_assert_not(stand("{'g': " G ", 'h': 1, 'n': 1}", "{'g': " L ", 'h': 1, 'n': 1}"));
	cr_assert(stand("{'e': {" EDITED "}}", "{'e': {" EDITED ", 'n': 8, 'w': " L "}}"));
	cr_assert_not(stand("{'e': {" EDITED "}}", "{'e': {" EDITED ", 'v': 3}}"));
	cr_assert_not(stand("{'g': " G ", 'h': 1, 'n': 1}", "{'e': {" EDITED "}}"));
	cr_assert_not(stand("{'e': {" EDITED "}}", "{'g': " G ", 'h': 1, 'n': 1}"));
}
