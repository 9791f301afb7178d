#include "proxy/base/slowest.h"

#include "proxy/base/clock.h"

#include "tests/unit/unit.h"

struct seen {
	int64_t times[20];
	size_t count;
};

static void take(void *context, const struct slowest_entry *entry)
{
	struct seen *seen = context;

	seen->times[seen->count++] = entry->milliseconds;
}

Test(slowest, ten_are_kept_the_slowest_first)
{
	struct seen seen = {.count = 0};

	for (int64_t i = 0; i < 30; i++)
		slowest_note(
			&(struct slowest_entry){.at = clock_now(), .milliseconds = (i * 7) % 30});
	slowest_each(take, &seen);
	cr_assert_eq(seen.count, 10);
	for (size_t i = 0; i < seen.count; i++)
		cr_assert_eq(seen.times[i], 29 - (int64_t)i);
}

Test(slowest, what_is_old_is_forgotten)
{
	struct seen seen = {.count = 0};
	int64_t now = clock_now();

	slowest_note(
		&(struct slowest_entry){.at = now - 60001 * SLOWEST_MINUTES, .milliseconds = 99});
	slowest_note(&(struct slowest_entry){.at = now, .milliseconds = 1});
	slowest_each(take, &seen);
	cr_assert_eq(seen.count, 1);
	cr_assert_eq(seen.times[0], 1);
}
