/* Tests proxy/crowd/claims.c: who gives up first where memory is short. */
#include "tests/unit/unit.h"

#include "proxy/crowd/claims.h"

#define PIECE ((int64_t)1 << 20)

static struct claims claims;
static struct claim old, middle, young;

static void three(void)
{
	old = middle = young = (struct claim){0};
	claims_init(&claims);
	claims_set(&claims, &old, PIECE, 0);
	claims_set(&claims, &middle, PIECE, 0);
	claims_set(&claims, &young, PIECE, 0);
}

static void expect(bool first, bool second, bool third)
{
	cr_assert_eq(claims_give_up(&old), first);
	cr_assert_eq(claims_give_up(&middle), second);
	cr_assert_eq(claims_give_up(&young), third);
}

Test(claims, the_newest_give_up_until_the_others_fit)
{
	three();
	expect(false, false, false);
	claims_set(&claims, &old, 2 * PIECE, 1);
	expect(false, false, true);
	claims_set(&claims, &old, 3 * PIECE, PIECE + 1);
	expect(false, true, true);
	claims_set(&claims, &old, 9 * PIECE, 3 * PIECE);
	expect(true, true, true);
	cr_assert(claims_give_up_early(&young) && claims_give_up_early(&middle));
	cr_assert_not(claims_give_up_early(&old), "somebody comes to an end");
	claims_fini(&claims);
}

Test(claims, who_has_less_now_keeps_its_place)
{
	three();
	claims_set(&claims, &young, CLAIMS_LEAST, 0);
	claims_set(&claims, &old, 2 * PIECE, 1);
	expect(false, false, true);
	claims_set(&claims, &old, 2 * PIECE, CLAIMS_LEAST + 1);
	expect(false, true, true);
	claims_set(&claims, &middle, 2 * PIECE, 1);
	expect(false, false, true);
	claims_fini(&claims);
}

Test(claims, who_leaves_and_comes_again_is_the_newest)
{
	three();
	claims_set(&claims, &middle, 0, 0);
	claims_set(&claims, &old, CLAIMS_LEAST - 1, 0);
	cr_assert(claims_give_up(&old), "who holds little has not begun");
	claims_set(&claims, &old, PIECE, 1);
	cr_assert(claims_give_up(&old));
	cr_assert_not(claims_give_up(&young));
	claims_set(&claims, &young, 0, 0);
	claims_set(&claims, &old, 0, 0);
	cr_assert_null(claims.newest);
	claims_fini(&claims);
}
