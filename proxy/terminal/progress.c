/* A line of progress on standard error. */
#include "proxy/terminal/progress.h"

#include "proxy/base/clock.h"
#include "rules/rule/text.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define TERMINAL_MS 200
#define LINE_MS 10000

static atomic_bool shown; /* a line that has no end yet */

bool progress_seen(void)
{
	return isatty(STDERR_FILENO);
}

bool progress_due(int64_t *told)
{
	int64_t now = clock_now();

	if (now - *told < (progress_seen() ? TERMINAL_MS : LINE_MS))
		return false;
	*told = now;
	return true;
}

void progress_clear(void)
{
	if (atomic_exchange(&shown, false))
		fputs("\r\033[K", stderr);
}

void progress_say(const char *format, ...)
{
	bool terminal = progress_seen();
	va_list values;

	progress_clear();
	va_start(values, format);
	vfprintf(stderr, format, values);
	va_end(values);
	if (!terminal)
		fputc('\n', stderr);
	atomic_store(&shown, terminal);
}

int64_t progress_percent(const struct progress *progress)
{
	return progress->total > progress->done ? progress->done * 100 / progress->total : 100;
}

void progress_append_left(struct buffer *out, const struct progress *progress)
{
	int64_t left = progress->total - progress->done;

	if (progress->done > 0 && left > 0)
		text_append(out, ", %lld s to go",
			    (long long)(left * progress->passed / progress->done / 1000));
}
