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
#define DETAILS_MAX 1536 /* beside a message of which each byte is escaped, a line's most */
#define ID_DIGITS 4
#define QUEUE_BYTES ((size_t)1024 * 1024) /* some 8,000 lines */
#define STOP_MS 1000
#define LIMIT_PERIOD_MS 60000
#define LIMIT_LINES 10 /* of one kind in a period */

static _Atomic(enum config_log_level) threshold = CONFIG_LOG_INFO;
static atomic_bool as_json;
static _Thread_local const char *thread_name = "main";
static int at_once = -1;                    /* log_open */
static _Atomic(struct log_writer *) writer; /* NULL: callers write themselves */
static _Atomic(void (*)(const char *text)) error_listener;
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;

void log_configure(enum config_log_level level, bool json)
{
	threshold = level;
	as_json = json;
}

void log_tell_errors(void (*tell)(const char *text))
{
	atomic_store(&error_listener, tell);
}

static void tell_error(const char *text)
{
	void (*tell)(const char *) = atomic_load(&error_listener);

	if (tell)
		tell(text);
}

void log_name_thread(const char *name)
{
	thread_name = name;
	(void)pthread_setname_np(pthread_self(), name);
}

static const struct level_name {
	const char *text, *json;
} level_names[] = {
	[CONFIG_LOG_ERROR] = {"error", "E"},
	[CONFIG_LOG_WARNING] = {"warning", "W"},
	[CONFIG_LOG_INFO] = {"info", "I"},
	[CONFIG_LOG_DEBUG] = {"debug", "D1"},
};

/* By the first digit of a message's number. */
static const char *component(int id)
{
	static const char *const components[] = {
		[1] = "CONTROL", [2] = "NETWORK", [3] = "COMMAND",
		[4] = "MOVER",   [5] = "RULES",   [6] = "ADMIN",
	};
	size_t place = (size_t)id / 1000;

	return place > 0 && place < ARRAY_LENGTH(components) ? components[place] : "-";
}

/* The number at the start of a format; 0 if there is none. */
static int take_id(const char **format)
{
	const char *at = *format;

	if (strspn(at, "0123456789") != ID_DIGITS || at[ID_DIGITS] != ' ')
		return 0;
	*format += ID_DIGITS + 1;
	return (at[0] - '0') * 1000 + (at[1] - '0') * 100 + (at[2] - '0') * 10 + (at[3] - '0');
}

/* Control characters would let a name forge a line; quotes and backslashes would break JSON. */
static void escape(char *out, size_t size, const char *text, bool json)
{
	size_t at = 0;

	for (; *text && at + 8 < size; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			at += (size_t)snprintf(out + at, size - at, "\\u%04x", c);
		else if (json && (c == '"' || c == '\\'))
			at += (size_t)snprintf(out + at, size - at, "\\%c", c);
		else
			out[at++] = (char)c;
	}
	out[at] = '\0';
}

static char *details_json(const struct log_event *event)
{
	char *json = event->details ? bson_as_relaxed_extended_json(event->details, NULL) : NULL;

	if (json && strlen(json) <= DETAILS_MAX)
		return json;
	bson_free(json);
	return bson_strdup("{}");
}

/* Keys, their order and their values are mongod's, so that its tools read both logs. */
static size_t compose_json(char *line, size_t size, const struct log_event *event, const char *when,
			   const char *text)
{
	char *details = details_json(event);
	size_t length = (size_t)snprintf(
		line, size,
		"{\"t\":{\"$date\":\"%s+00:00\"},\"s\":\"%s\",\"c\":\"%s\",\"id\":%d,"
		"\"ctx\":\"%s\",\"msg\":\"%s\",\"attr\":%s}\n",
		when, level_names[event->level].json, component(event->id), event->id,
		event->context ? event->context : thread_name, text, details);

	bson_free(details);
	return length;
}

/* The whole line, with its '\n'; returns its length. */
static size_t compose(char *line, size_t size, const struct log_event *event, const char *text)
{
	char escaped[2 * LINE_MAX_LENGTH], when[32];
	auto_free char *valid = text_valid(text);
	struct timespec now;
	struct tm parts;
	size_t length;
	bool json = atomic_load(&as_json); /* a reload may change it */

	escape(escaped, sizeof(escaped), valid, json);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	length = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(when + length, sizeof(when) - length, ".%03ld", now.tv_nsec / 1000000);
	if (json)
		return compose_json(line, size, event, when, escaped);
	return (size_t)snprintf(line, size, "%sZ %s %04d %s\n", when,
				level_names[event->level].text, event->id, escaped);
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
write_line(const struct log_event *event, int64_t held, const char *format, va_list arguments)
{
	char text[LINE_MAX_LENGTH], line[LOG_WRITER_LINE];
	struct log_event known = *event;
	size_t length;

	if (!known.id)
		known.id = take_id(&format);
	/* Each caller has begun it. NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	vsnprintf(text, sizeof(text), format, arguments);
	length = strlen(text);
	if (held > 0)
		snprintf(text + length, sizeof(text) - length,
			 " (%" PRId64 " more like it since the last line)", held);
	if (event->level == CONFIG_LOG_ERROR)
		tell_error(text);
	put(line, compose(line, sizeof(line), &known, text));
}

static size_t tell_dropped(char *line, size_t size, int64_t dropped)
{
	const struct log_event event = {.level = CONFIG_LOG_WARNING, .id = 1002};
	char text[LINE_MAX_LENGTH];

	snprintf(text, sizeof(text),
		 "the log was not read fast enough: %" PRId64 " lines were dropped here", dropped);
	return compose(line, size, &event, text);
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
	tell_error(lines);
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
	write_line(&(struct log_event){.level = level}, held, format, arguments);
	va_end(arguments);
}

must_check bool log_wants(enum config_log_level level)
{
	return level <= threshold;
}

void log_event(const struct log_event *event, const char *format, ...)
{
	va_list arguments;

	if (!log_wants(event->level))
		return;
	va_start(arguments, format);
	write_line(event, 0, format, arguments);
	va_end(arguments);
}

#define LOG_FUNCTION(name, grade) \
	void name(const char *format, ...) \
	{ \
		va_list arguments; \
\
		if ((grade) > threshold) \
			return; \
		va_start(arguments, format); \
		write_line(&(struct log_event){.level = (grade)}, 0, format, arguments); \
		va_end(arguments); \
	}

LOG_FUNCTION(log_error, CONFIG_LOG_ERROR)
LOG_FUNCTION(log_warning, CONFIG_LOG_WARNING)
LOG_FUNCTION(log_info, CONFIG_LOG_INFO)
LOG_FUNCTION(log_debug, CONFIG_LOG_DEBUG)
