/* Tests proxy/crowd/turns.c. */
#include "tests/unit/unit.h"

#include "proxy/crowd/turns.h"
#define NOW 1000000

static uint64_t take(struct turns *turns, enum turns_kind kind, size_t count, uint64_t now)
{
	uint64_t wait = 0;

	while (count-- > 0)
		wait = turns_take(turns, kind, now);
	return wait;
}

Test(turns, come_one_behind_the_other)
{
	struct turns turns = {0};

	/* what two milliseconds hold is there at once */
	cr_expect_eq(take(&turns, TURNS_FURTHER_GREETINGS, 3, NOW), 0);
	cr_expect_eq(take(&turns, TURNS_FURTHER_GREETINGS, 1, NOW), 1);
	cr_expect_eq(take(&turns, TURNS_FURTHER_GREETINGS, 100, NOW), 101);
	cr_expect_eq(take(&turns, TURNS_FURTHER_GREETINGS, 1, NOW + 50), 52);
	/* of the others there are more */
	cr_expect_eq(take(&turns, TURNS_FIRST_GREETINGS, 11, NOW), 0);
	cr_expect_eq(take(&turns, TURNS_FIRST_GREETINGS, 100, NOW), 20);
	cr_expect_eq(take(&turns, TURNS_REFUSALS, 11, NOW), 0);
	cr_expect_eq(take(&turns, TURNS_REFUSALS, 100, NOW), 20);
}

Test(turns, nobody_waits_longer_than_a_second)
{
	struct turns turns = {0};

	cr_expect_eq(take(&turns, TURNS_FURTHER_GREETINGS, 5000, NOW), 1000);
	cr_expect_eq(take(&turns, TURNS_FURTHER_GREETINGS, 1, NOW + 400), 601);
	cr_expect_eq(take(&turns, TURNS_FURTHER_GREETINGS, 1, NOW + 1602), 0);
}

Test(turns, what_was_not_used_for_long_is_not_saved)
{
	struct turns turns = {0};

	cr_expect_eq(take(&turns, TURNS_REFUSALS, 11, NOW), 0);
	cr_expect_eq(take(&turns, TURNS_REFUSALS, 11, 10 * NOW), 0);
	cr_expect_eq(take(&turns, TURNS_REFUSALS, 1, 10 * NOW), 1);
}

static bool crowded(struct turns *turns, size_t count, uint64_t now)
{
	bool is = false;

	while (count-- > 0)
		is = turns_crowded(turns, now);
	return is;
}

Test(turns, a_few_who_come_at_once_are_no_crowd)
{
	struct turns turns = {0};

	cr_expect_not(crowded(&turns, 100, NOW));
	cr_expect_not(crowded(&turns, 100, NOW + 1000));
	cr_expect(crowded(&turns, 1, NOW + 1999));
	cr_expect(crowded(&turns, 1000, NOW + 1999));
	cr_expect_not(crowded(&turns, 1, NOW + 2000));
}
