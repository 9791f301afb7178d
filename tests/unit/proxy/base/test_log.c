#include "proxy/base/log.h"

#include "tests/unit/unit.h"

#include <stdio.h>
#include <unistd.h>

Test(log, ten_lines_of_a_kind_are_written_in_a_minute)
{
	struct log_limit limit = {0}, other = {0};
	int64_t held;

	for (int i = 0; i < 10; i++) {
		cr_assert(log_limit_due(&limit, 5 + i, &held));
		cr_assert_eq(held, 0);
	}
	for (int i = 0; i < 1000; i++)
		cr_assert_not(log_limit_due(&limit, 60004, &held));
	cr_assert(log_limit_due(&other, 60004, &held));
	cr_assert_eq(held, 0);
	cr_assert(log_limit_due(&limit, 60005, &held));
	cr_assert_eq(held, 1000);
	cr_assert(log_limit_due(&limit, 60006, &held));
	cr_assert_eq(held, 0);
}

static void read_text(int end, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;

	while ((got = read(end, text + length, size - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
}

/* Standard error is a pipe from here on. */
static int take_standard_error(int *before)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	*before = dup(STDERR_FILENO);
	cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	return ends[0];
}

Test(log, lines_keep_their_order_whoever_writes_them)
{
	static struct log_limit limit;
	char text[8192], wanted[32], *at = text;
	int before, end = take_standard_error(&before);

	log_info("line %d", 0);
	log_start();
	log_info("line %d", 1);
	log_plain("line 2\nline 3\n");
	log_limited(&limit, CONFIG_LOG_INFO, "line %d", 4);
	log_stop();
	log_info("line %d", 5);
	cr_assert_eq(dup2(before, STDERR_FILENO), STDERR_FILENO);
	close(before);
	read_text(end, text, sizeof(text));
	for (int i = 0; i < 6; i++) {
		snprintf(wanted, sizeof(wanted), "line %d\n", i);
		at = strstr(at, wanted);
		cr_assert(at, "'%s' is not in its place in:\n%s", wanted, text);
	}
	close(end);
}
