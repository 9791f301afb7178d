/* Tests proxy/pace/seen.c: which outliers wait. */
#include "tests/unit/unit.h"

#include "proxy/pace/seen.h"

#include <stdlib.h>

static uint64_t hash_of(const char *id, int64_t size)
{
	return seen_hash(&(struct element){.type = BSON_BYTE_STRING, .value = bytes_of(id)}, size);
}

Test(seen, an_outlier_waits_as_long_as_its_array_has_the_size_that_was_seen)
{
	struct target_seen seen = {0};

	for (int64_t size = 9; size > 0; size--)
		cr_assert(seen_add(&seen, hash_of("a", 100 * size)));
	seen_end(&seen, true);
	cr_assert(seen.whole);
	for (int64_t size = 1; size < 10; size++)
		cr_assert(seen_waits(&seen, hash_of("a", 100 * size)));
	cr_assert_not(seen_waits(&seen, hash_of("a", 101)));
	cr_assert_not(seen_waits(&seen, hash_of("b", 100)));
	free(seen.hashes);
}

Test(seen, a_sweep_that_broke_off_has_seen_nothing)
{
	struct target_seen seen = {0};

	cr_assert(seen_add(&seen, hash_of("a", 1)));
	seen_end(&seen, false);
	cr_assert_not(seen.whole);
	cr_assert_eq(seen.count, 0);
	seen_end(&seen, true);
	cr_assert_not(seen_waits(&seen, hash_of("a", 1)));
}

Test(seen, all_wait_if_there_were_too_many)
{
	struct target_seen seen = {0};

	for (uint64_t i = 0; i < SEEN_MOST; i++)
		cr_assert(seen_add(&seen, i));
	cr_assert_not(seen_add(&seen, SEEN_MOST));
	seen_end(&seen, true);
	cr_assert(seen_waits(&seen, SEEN_MOST + 7));
	free(seen.hashes);
}
