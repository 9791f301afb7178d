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
#include <stdlib.h>
#include <string.h>

/*
 * How much a test does that does more and more of the same, or the step by which it goes through
 * its cases: under the sanitizers another one in a `tests/run`, which sets SHARE=1, as they are
 * slow. `tests/run full` makes no difference between them.
 */
static inline size_t unit_share(size_t all, size_t sanitized)
{
#if defined(__SANITIZE_ADDRESS__)
	const char *share = getenv("SHARE");

	return share && !strcmp(share, "1") ? sanitized : all;
#else
	(void)sanitized;
	return all;
#endif
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
