/* The program's log on standard error, one line a call, whole lines whatever the thread. */
#include "proxy/base/log.h"

#include "rules/rule/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_LENGTH 1024

static enum config_log_level threshold = CONFIG_LOG_INFO;
static bool as_json;

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

static void __attribute__((format(printf, 2, 0)))
write_line(enum config_log_level level, const char *format, va_list arguments)
{
	char text[LINE_MAX_LENGTH], escaped[2 * LINE_MAX_LENGTH], line[3 * LINE_MAX_LENGTH],
		when[32];
	auto_free char *valid = NULL;
	struct timespec now;
	struct tm parts;
	int length;

	if (level > threshold)
		return;
	vsnprintf(text, sizeof(text), format, arguments);
	valid = text_valid(text);
	escape(escaped, sizeof(escaped), valid);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &parts);
	length = snprintf(line, sizeof(line),
			  as_json ? "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"message\":\"%s\"}\n"
				  : "%s.%03ldZ %s %s\n",
			  when, now.tv_nsec / 1000000, level_name(level), escaped);
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return; /* nobody is there to be told */
}

#define LOG_FUNCTION(name, level) \
	void name(const char *format, ...) \
	{ \
		va_list arguments; \
\
		va_start(arguments, format); \
		write_line(level, format, arguments); \
		va_end(arguments); \
	}

LOG_FUNCTION(log_error, CONFIG_LOG_ERROR)
LOG_FUNCTION(log_warning, CONFIG_LOG_WARNING)
LOG_FUNCTION(log_info, CONFIG_LOG_INFO)
LOG_FUNCTION(log_debug, CONFIG_LOG_DEBUG)
