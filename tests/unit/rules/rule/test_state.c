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
