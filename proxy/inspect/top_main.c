/* `spillway top`: the same screen again and again, with rates, until somebody has seen enough. */
#include "proxy/base/clock.h"
#include "proxy/inspect/inspect.h"
#include "proxy/inspect/running.h"
#include "proxy/inspect/screen.h"
#include "rules/rule/text.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define PERIOD_MS 1000
#define LINES_UNASKED 24
#define OTHER_LINES 16 /* than those of tables */
#define TABLES 4

#define OTHER_SCREEN "\033[?1049h\033[?25l"
#define OLD_SCREEN "\033[?25h\033[?1049l"
#define FROM_THE_TOP "\033[H"
#define REST_OF_LINE "\033[K"
#define REST_OF_SCREEN "\033[J"

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

static struct winsize terminal_size(void)
{
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0)
		size.ws_row = LINES_UNASKED;
	if (size.ws_col == 0)
		size.ws_col = 80;
	return size;
}

/* No more lines and columns than the terminal has. */
static void show(const char *text, struct winsize size)
{
	struct buffer out = {0};
	auto_free char *shown = NULL;
	int lines = 0;

	text_append(&out, FROM_THE_TOP);
	while (*text && ++lines < size.ws_row) {
		int length = (int)strcspn(text, "\n");

		text_append(&out, "%.*s" REST_OF_LINE "\r\n",
			    length < size.ws_col ? length : size.ws_col - 1, text);
		text += length + (text[length] == '\n');
	}
	text_append(&out, REST_OF_SCREEN);
	shown = text_steal(&out);
	fputs(shown, stdout);
	fflush(stdout);
}

static void show_answer(const bson_t *now, const bson_t *before, double seconds)
{
	struct winsize size = terminal_size();
	struct screen screen = {now, before, seconds, (size.ws_row - OTHER_LINES) / TABLES};
	struct buffer out = {0};
	auto_free char *text = NULL;

	if (screen.rows < 3)
		screen.rows = 3;
	screen_print(&screen, &out);
	text = text_steal(&out);
	show(text, size);
}

/* True where the user wants to leave. */
static bool await_key(int milliseconds)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char key;

	if (poll(&input, 1, milliseconds) <= 0)
		return ended;
	return read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q' || ended;
}

static int64_t number_of(const bson_t *answer, const char *name)
{
	bson_iter_t at;

	return bson_iter_init_find(&at, answer, name) ? bson_iter_as_int64(&at) : 0;
}

/* Figures count from the start of a process. */
static bool goes_on(const bson_t *before, const bson_t *now)
{
	return before && number_of(before, "pid") == number_of(now, "pid") &&
	       number_of(before, "uptimeSeconds") <= number_of(now, "uptimeSeconds");
}

/* The exit code. */
static int watch(struct running *running)
{
	bson_t *before = NULL, *now;
	int64_t asked = 0, at;
	int code = 0;

	do {
		at = clock_now();
		now = running_ask(running, "/status");
		if (now)
			show_answer(now, goes_on(before, now) ? before : NULL,
				    (double)(at - asked) / 1000);
		else
			code = EXIT_NO_ANSWER;
		bson_destroy(before);
		before = now;
		asked = at;
	} while (now && !await_key(PERIOD_MS));
	bson_destroy(before);
	return code;
}

static int watch_on_terminal(struct running *running)
{
	struct termios old, raw;
	bson_t *first;
	int code;

	/* What is wrong is told before the screen is another one. */
	first = running_ask(running, "/status");
	if (!first)
		return EXIT_NO_ANSWER;
	bson_destroy(first);
	if (tcgetattr(STDIN_FILENO, &old) != 0)
		return EXIT_USAGE;
	raw = old;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs(OTHER_SCREEN, stdout);
	code = watch(running);
	fputs(OLD_SCREEN, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &old);
	return code;
}

int top_main(const struct command_line *line)
{
	struct running running;
	int code;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return command_line_refuse(line->command,
					   "needs a terminal; 'spillway status' needs none");
	if (!running_open(&running, line))
		return EXIT_USAGE;
	code = watch_on_terminal(&running);
	running_close(&running);
	return code;
}
