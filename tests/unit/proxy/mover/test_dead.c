/* Tests proxy/mover/dead.c: what waits comes in its order, and has a limit. */
#include "proxy/mover/dead.h"

#include "tests/unit/unit.h"

#include <time.h>

#define MOST_SECONDS 2 /* some hundredths of one; a list that is walked takes half a minute */

static struct dead *dead_due(int64_t due, size_t link)
{
	struct dead *dead = must_calloc(1, sizeof(*dead));

	dead->due = due;
	dead->link = (struct bytes){must_calloc(1, link), link};
	return dead;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int64_t take_due(struct dead_heap *heap, int64_t now)
{
	struct dead *dead = dead_heap_take(heap, now);
	int64_t due = dead ? dead->due : -1;

	if (dead)
		dead_free(dead);
	return due;
}

Test(dead, what_is_due_first_comes_first)
{
	static const int64_t dues[] = {5, 3, 9, 1, 7, 3};
	struct dead_heap heap = {0};

	cr_assert_eq(dead_heap_due(&heap), INT64_MAX);
	cr_assert_eq(take_due(&heap, INT64_MAX), -1);
	for (size_t i = 0; i < ARRAY_LENGTH(dues); i++)
		cr_assert(dead_heap_put(&heap, dead_due(dues[i], 12)));
	cr_assert_eq(dead_heap_due(&heap), 1);
	cr_assert_eq(take_due(&heap, 0), -1);
	cr_assert_eq(take_due(&heap, 4), 1);
	cr_assert_eq(take_due(&heap, 4), 3);
	cr_assert_eq(take_due(&heap, 4), 3);
	cr_assert_eq(take_due(&heap, 4), -1);
	cr_assert(dead_heap_put(&heap, dead_due(6, 12)));
	cr_assert_eq(take_due(&heap, 10), 5);
	cr_assert_eq(take_due(&heap, 10), 6);
	cr_assert_eq(take_due(&heap, 10), 7);
	cr_assert_eq(dead_heap_due(&heap), 9);
	dead_heap_fini(&heap);
}

Test(dead, as_many_as_there_may_be_are_put_and_taken_quickly)
{
	struct dead_heap heap = {0};
	struct dead *more = dead_due(0, 12);
	double start = seconds();
	int64_t last = 0;

	for (int64_t i = 0; i < DEAD_HEAP_MAX; i++)
		cr_assert(dead_heap_put(&heap, dead_due(i * 7919 % DEAD_HEAP_MAX, 12)));
	cr_expect_not(dead_heap_put(&heap, more));
	dead_free(more);
	for (int64_t i = 0; i < DEAD_HEAP_MAX; i++) {
		int64_t due = take_due(&heap, INT64_MAX);

		cr_assert_geq(due, last);
		last = due;
	}
	cr_expect_lt(seconds() - start, MOST_SECONDS);
	cr_expect_eq(heap.bytes, 0);
	dead_heap_fini(&heap);
}

Test(dead, few_with_long_ids_fill_it)
{
	struct dead_heap heap = {0};
	struct dead *dead = dead_due(1, 1 << 20);
	size_t count = 0;

	while (dead_heap_put(&heap, dead)) {
		dead = dead_due(5, 1 << 20);
		cr_assert_leq(++count, DEAD_HEAP_BYTES >> 20);
	}
	cr_assert_eq(count, DEAD_HEAP_BYTES >> 20);
	cr_assert_eq(take_due(&heap, 1), 1);
	cr_assert(dead_heap_put(&heap, dead));
	dead_heap_fini(&heap);
}
