/*
 * The program of unit tests is Criterion's, with one command more: `unit_tests --suite NAME` runs a
 * suite's tests each in a fork of one process. Criterion starts a program anew for each test, which
 * takes five times as long as most tests: to load fifty libraries, and to start the sanitizers.
 *
 * In a fork nobody listens to Criterion, which ends a process whose assertion fails. Criterion then
 * runs the test again and tells what failed. It runs tests that end by a signal from the beginning.
 */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];

const struct criterion_test *unit_forked;

int main(int argc, char **argv);

static int run_criterion(int argc, char **argv)
{
	struct criterion_test_set *tests = criterion_initialize();
	int failed = 0;

	if (criterion_handle_args(argc, argv, true))
		failed = !criterion_run_all_tests(tests);
	criterion_finalize(tests);
	return failed;
}

/* True if the process ends well. */
static bool passes(pid_t pid)
{
	int status = 0;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* In a process of its own; what it says, if it fails, Criterion says better. */
static bool passes_forked(void (*body)(void), bool quiet)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (quiet && !freopen("/dev/null", "w", stderr))
			_exit(0);
		body();
		_exit(0);
	}
	return passes(pid);
}

static bool passes_in_criterion(char *program, const struct criterion_test *test)
{
	char name[512];
	char *const words[] = {program, "--jobs", "1", "--filter", name, NULL};
	pid_t pid;

	snprintf(name, sizeof(name), "%s/%s", test->category, test->name);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		execv("/proc/self/exe", words);
		_exit(127);
	}
	return passes(pid);
}

static void expect_wrongly(void)
{
	cr_expect(false);
}

static void assert_wrongly(void)
{
	cr_assert(false);
}

static bool test_passes(char *program, const struct criterion_test *test)
{
	bool again;

	if (test->data->signal)
		return passes_in_criterion(program, test);
	unit_forked = test;
	if (passes_forked((void (*)(void))test->data->data, false))
		return true;
	again = passes_in_criterion(program, test);
	printf("%s/%s failed%s\n", test->category, test->name, again ? ", and passed alone" : "");
	return false;
}

static int run_suite(char *program, const char *suite)
{
	int ran = 0, failed = 0;

	if (passes_forked(expect_wrongly, true) || passes_forked(assert_wrongly, true)) {
		fprintf(stderr, "an assertion that fails would not be noticed\n");
		return 2;
	}
	for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++) {
		if (!*test || strcmp((*test)->category, suite) != 0)
			continue;
		ran++;
		failed += !test_passes(program, *test);
	}
	printf("%s: %d tests, %d failed\n", suite, ran, failed);
	return failed > 0 || ran == 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--suite") == 0)
		return run_suite(argv[0], argv[2]);
	return run_criterion(argc, argv);
}
