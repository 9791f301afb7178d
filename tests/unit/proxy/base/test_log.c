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

/* What one line looks like; standard error is a pipe meanwhile. */
static void read_line(char *text, size_t size, const struct log_event *event)
{
	int before, end = take_standard_error(&before);

	log_event(event, "the name '%s' has a \"quote\"", "x\n");
	cr_assert_eq(dup2(before, STDERR_FILENO), STDERR_FILENO);
	close(before);
	read_text(end, text, size);
	close(end);
}

Test(log, a_json_line_has_mongods_keys_and_the_details)
{
	bson_t *details = BCON_NEW("rule", "r\"");
	struct log_event event = {CONFIG_LOG_WARNING, 4711, "conn7", details};
	char text[8192];

	log_configure(CONFIG_LOG_INFO, true);
	read_line(text, sizeof(text), &event);
	bson_destroy(details);
	cr_assert(strstr(text,
			 "+00:00\"},\"s\":\"W\",\"c\":\"MOVER\",\"id\":4711,\"ctx\":\"conn7\","
			 "\"msg\":\"the name 'x\\u000a' has a \\\"quote\\\"\","
			 "\"attr\":{ \"rule\" : \"r\\\"\" }}\n"),
		  "%s", text);
	cr_assert_eq(memcmp(text, "{\"t\":{\"$date\":\"20", 17), 0, "%s", text);
}

Test(log, details_that_are_too_long_are_left_out)
{
	char name[3000], text[8192];
	bson_t *details = bson_new();
	struct log_event event = {CONFIG_LOG_INFO, 1000, NULL, details};

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	BSON_APPEND_UTF8(details, "rule", name);
	log_configure(CONFIG_LOG_INFO, true);
	read_line(text, sizeof(text), &event);
	bson_destroy(details);
	cr_assert(strstr(text, ",\"attr\":{}}\n"), "%s", text);
	cr_assert(strstr(text, "\"ctx\":\"main\""), "%s", text);
}

Test(log, the_number_of_a_format_is_not_part_of_the_words)
{
	char text[8192];
	int before, end = take_standard_error(&before);

	log_configure(CONFIG_LOG_INFO, false);
	log_warning("2002 accepting is paused");
	log_warning("200 is no number of a message");
	cr_assert_eq(dup2(before, STDERR_FILENO), STDERR_FILENO);
	close(before);
	read_text(end, text, sizeof(text));
	close(end);
	cr_assert(strstr(text, "Z warning 2002 accepting is paused\n"), "%s", text);
	cr_assert(strstr(text, "Z warning 0000 200 is no number"), "%s", text);
}
