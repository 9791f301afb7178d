/*
 * What every unit test includes: Criterion, with a leak check at the end of each test.
 *
 * Criterion 2.4.1 ends a test's process without running LeakSanitizer, so that a test that leaks
 * passes. Here a test's body is a function of its own; once it has returned, and its stack with
 * it, what it lost is found and fails the test.
 */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <criterion/criterion.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>

static inline void unit_check_leaks(void)
{
	cr_assert_eq(__lsan_do_recoverable_leak_check(), 0, "the test leaked memory");
}
#else
static inline void unit_check_leaks(void)
{
}
#endif

#undef Test
#define Test(suite, name, ...) \
	static void suite##_##name##_body(void); \
	CR_TEST_BASE(suite, name, ##__VA_ARGS__, .sentinel_ = 0) \
	{ \
		suite##_##name##_body(); \
		unit_check_leaks(); \
	} \
	static __attribute__((noinline)) void suite##_##name##_body(void)

/* The fields that an inclusion names besides, since mongod stops at as many as are named. */
#define SPARE \
	"'_spill/0': 1, '_spill/1': 1, '_spill/2': 1, '_spill/3': 1, '_spill/4': 1, '_spill/5': " \
	"1, '_spill/6': 1, '_spill/7': 1, "

#endif
