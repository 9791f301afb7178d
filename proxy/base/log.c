/* The program's log on standard error, one line a call, whole lines whatever the thread. */
#include "proxy/base/log.h"

#include "proxy/base/clock.h"
#include "proxy/base/log_writer.h"
#include "rules/rule/text.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_LENGTH 1024
#define QUEUE_BYTES ((size_t)1024 * 1024) /* some 8,000 lines */
#define STOP_MS 1000
#define LIMIT_PERIOD_MS 60000
#define LIMIT_LINES 10 /* of one kind in a period */

static enum config_log_level threshold = CONFIG_LOG_INFO;
static bool as_json;
static int at_once = -1;                    /* log_open */
static _Atomic(struct log_writer *) writer; /* NULL: callers write themselves */
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;

void log_configure(enum config_log_level level, bool json)
{
	threshold = level;
	as_json = json;
}

static const char *level_name(enum config_log_level level)
{
	switch (level) {
	case CONFIG_LOG_ERROR:
		return "error";
	case CONFIG_LOG_WARNING:
		return "warning";
	case CONFIG_LOG_INFO:
		return "info";
	case CONFIG_LOG_DEBUG:
		return "debug";
	}
	require(!"a log level without a name");
}

/* Control characters would let a name forge a line; quotes and backslashes would break JSON. */
static void escape(char *out, size_t size, const char *text)
{
	size_t at = 0;

	for (; *text && at + 8 < size; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			at += (size_t)snprintf(out + at, size - at, "\\u%04x", c);
		else if (as_json && (c == '"' || c == '\\'))
			at += (size_t)snprintf(out + at, size - at, "\\%c", c);
		else
			out[at++] = (char)c;
	}
	out[at] = '\0';
}

/* The whole line, with its '\n'; returns its length. */
static size_t compose(char *line, size_t size, enum config_log_level level, const char *text)
{
	char escaped[2 * LINE_MAX_LENGTH], when[32];
	auto_free char *valid = text_valid(text);
	struct timespec now;
	struct tm parts;

	escape(escaped, sizeof(escaped), valid);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &parts);
	return (size_t)snprintf(
		line, size,
		as_json ? "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"message\":\"%s\"}\n"
			: "%s.%03ldZ %s %s\n",
		when, now.tv_nsec / 1000000, level_name(level), escaped);
}

static void put(const char *line, size_t length)
{
	struct log_writer *to = atomic_load(&writer);

	if (to)
		log_writer_put(to, line, length);
	else if (write(STDERR_FILENO, line, length) < 0)
		return; /* nobody is there to be told */
}

/* `held`: lines of its kind that were not written. */
static void __attribute__((format(printf, 3, 0)))
write_line(enum config_log_level level, int64_t held, const char *format, va_list arguments)
{
	char text[LINE_MAX_LENGTH], line[LOG_WRITER_LINE];
	size_t length;

	vsnprintf(text, sizeof(text), format, arguments);
	length = strlen(text);
	if (held > 0)
		snprintf(text + length, sizeof(text) - length,
			 " (%" PRId64 " more like it since the last line)", held);
	put(line, compose(line, sizeof(line), level, text));
}

static size_t tell_dropped(char *line, size_t size, int64_t dropped)
{
	char text[LINE_MAX_LENGTH];

	snprintf(text, sizeof(text),
		 "the log was not read fast enough: %" PRId64 " lines were dropped here", dropped);
	return compose(line, size, CONFIG_LOG_WARNING, text);
}

void log_open(void)
{
	at_once = log_writer_open(STDERR_FILENO);
}

void log_start(void)
{
	require(!atomic_load(&writer));
	atomic_store(&writer, log_writer_new(STDERR_FILENO, at_once, QUEUE_BYTES, tell_dropped));
}

void log_count_dropped(_Atomic int64_t *counter)
{
	struct log_writer *to = atomic_load(&writer);

	if (to)
		log_writer_count(to, counter);
}

/* A writer that did not end keeps what comes later from the stuck reader, too. */
void log_stop(void)
{
	struct log_writer *stopped = atomic_load(&writer);

	if (stopped && log_writer_stop(stopped, STOP_MS))
		atomic_store(&writer, NULL);
}

void log_plain(const char *lines)
{
	while (*lines) {
		size_t length = strcspn(lines, "\n");

		length += lines[length] == '\n';
		put(lines, length);
		lines += length;
	}
}

bool log_limit_due(struct log_limit *limit, int64_t now, int64_t *held)
{
	bool due;

	pthread_mutex_lock(&limit_lock);
	if (limit->lines == 0 || now >= limit->since + LIMIT_PERIOD_MS) {
		limit->since = now;
		limit->lines = 0;
	}
	due = limit->lines < LIMIT_LINES;
	limit->lines += due;
	*held = limit->held;
	limit->held = due ? 0 : *held + 1;
	pthread_mutex_unlock(&limit_lock);
	return due;
}

void log_limited(struct log_limit *limit, enum config_log_level level, const char *format, ...)
{
	va_list arguments;
	int64_t held;

	if (level > threshold || !log_limit_due(limit, clock_now(), &held))
		return;
	va_start(arguments, format);
	write_line(level, held, format, arguments);
	va_end(arguments);
}

#define LOG_FUNCTION(name, level) \
	void name(const char *format, ...) \
	{ \
		va_list arguments; \
\
		if ((level) > threshold) \
			return; \
		va_start(arguments, format); \
		write_line(level, 0, format, arguments); \
		va_end(arguments); \
	}

LOG_FUNCTION(log_error, CONFIG_LOG_ERROR)
LOG_FUNCTION(log_warning, CONFIG_LOG_WARNING)
LOG_FUNCTION(log_info, CONFIG_LOG_INFO)
LOG_FUNCTION(log_debug, CONFIG_LOG_DEBUG)
