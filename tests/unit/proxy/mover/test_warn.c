/* Tests proxy/mover/warn.c: what keeps being refused is told once a minute. */
#include "tests/unit/unit.h"

#include "proxy/mover/warn.h"

static const struct mover_target targets[70];

static void expect(struct mover_warnings *warnings, size_t target, int64_t code, int64_t now,
		   int64_t expected)
{
	int64_t held = 0;
	bool due = mover_warnings_due(warnings, &targets[target], code, now, &held);

	cr_assert_eq(due, expected >= 0);
	if (due)
		cr_assert_eq(held, expected);
}

Test(mover_warn, each_target_and_code_is_told_once_a_minute_with_the_number_held_back)
{
	struct mover_warnings *warnings = mover_warnings_new();

	expect(warnings, 0, 13, 1000, 0);
	expect(warnings, 0, 13, 1001, -1);
	expect(warnings, 0, 121, 1001, 0);
	expect(warnings, 1, 13, 1001, 0);
	expect(warnings, 0, 13, 60999, -1);
	expect(warnings, 0, 13, 61000, 2);
	expect(warnings, 0, 13, 61001, -1);
	expect(warnings, 0, 13, 200000, 1);
	mover_warnings_free(warnings);
}

Test(mover_warn, more_kinds_than_there_is_room_for_are_told)
{
	struct mover_warnings *warnings = mover_warnings_new();

	for (size_t i = 0; i < 70; i++)
		expect(warnings, i, 13, (int64_t)i, 0);
	expect(warnings, 69, 13, 100, -1);
	expect(warnings, 0, 13, 100, 0);
	mover_warnings_free(warnings);
}
