/*
 * What every unit test includes: Criterion, with a leak check at the end of each test.
 *
 * Criterion 2.4.1 ends the process of a test without what runs at exit. A test that leaks would
 * pass, as LeakSanitizer does not run, and gcov would count nothing. So the body of a test is a
 * function of its own. Once the function has returned, unit_end runs either. What is `data` to
 * Criterion is for tests/unit/main.c.
 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True in a `tests/run`, which tries a share of long lists; `tests/run full` tries all. */
static inline bool unit_is_share(void)
{
	const char *share = getenv("SHARE");

	return share && !strcmp(share, "1");
}

/*
 * How much a test does that does more and more of the same: under the sanitizers another amount in
 * a share, as they are slow.
 */
static inline size_t unit_share(size_t all, size_t sanitized)
{
#if defined(__SANITIZE_ADDRESS__)
	return unit_is_share() ? sanitized : all;
#else
	(void)sanitized;
	return all;
#endif
}

/* A line for the end of tests/run, as tests/support/share.py writes it. */
static inline void unit_tell(size_t taken, size_t all)
{
	FILE *log = taken < all ? fopen("share.log", "a") : NULL;

	if (!log)
		return;
	fprintf(log, "unit %zu %zu\n", taken, all);
	fclose(log);
}

/* The step by which a test goes through its cases: under the sanitizers a share takes one in so
 * many. */
static inline size_t unit_step(size_t cases, size_t one_in)
{
	size_t step = unit_share(1, one_in);

	unit_tell((cases + step - 1) / step, cases);
	return step;
}

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>

static inline void unit_end(void)
{
	cr_assert_eq(__lsan_do_recoverable_leak_check(), 0, "the test leaked memory");
}
#elif defined(SPILLWAY_COVERAGE)
#include <gcov.h>

static inline void unit_end(void)
{
	__gcov_dump();
}
#else
static inline void unit_end(void)
{
}
#endif

extern const struct criterion_test
	*unit_forked; /* the test in a fork of tests/unit/main.c; or NULL */

static inline const struct criterion_test *unit_running(void)
{
	return unit_forked ? unit_forked : criterion_current_test;
}

#undef Test
#define Test(suite, name, ...) \
	static void suite##_##name##_body(void); \
	static void suite##_##name##_alone(void) \
	{ \
		suite##_##name##_body(); \
		unit_end(); \
	} \
	CR_TEST_BASE(suite, name, ##__VA_ARGS__, .sentinel_ = 0, .data = suite##_##name##_alone) \
	{ \
		suite##_##name##_alone(); \
	} \
	static __attribute__((noinline)) void suite##_##name##_body(void)

/* The fields that an inclusion names besides, since mongod stops at as many as are named. */
#define SPARE \
	"'_spill/0': 1, '_spill/1': 1, '_spill/2': 1, '_spill/3': 1, '_spill/4': 1, '_spill/5': " \
	"1, '_spill/6': 1, '_spill/7': 1, "

#endif
