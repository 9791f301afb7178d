/* The program's log on standard error: text or JSON lines, lower case, names in single quotes,
 * never contents of documents. */
#pragma once

#include "rules/config/config.h"

#include <bson/bson.h>
#include <stdatomic.h>

void log_configure(enum config_log_level level, bool json);
/* The calling thread's name, in JSON lines and for the system (`top -H`); a constant of at most 15
 * bytes. */
void log_name_thread(const char *name);

/* Before log_start, and before the sandbox is entered: opens what log_start's lines are written to.
 */
void log_open(void);
/* From here on a thread writes the lines, and no caller waits for standard error. What does not fit
 * into the queue is dropped and counted. Before it, as in operator commands, callers write. */
void log_start(void);
/* Writes what waits, for a second at most. No other thread may log meanwhile. */
void log_stop(void);
/* Where lost lines are counted, also those lost before; NULL: nowhere any more. */
void log_count_dropped(_Atomic int64_t *counter);
/* Errors, and the lines of log_plain, are also said to this function; NULL: no longer. Before other
 * threads log, and after. */
void log_tell_errors(void (*tell)(const char *text));
/* Lines as they are, without time and level: in their order among the log's. */
void log_plain(const char *lines);

/* A format begins with the number of its message and a space: "2001 listening on '%s'". The number
 * never changes, whatever becomes of the words. docs/log-messages.md lists all; the test `messages`
 * compares. The first digit says what part of the program speaks (`components` in log.c). */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line of which readers may want more than words. */
struct log_event {
	enum config_log_level level;
	int id;                /* instead of a number in the format */
	const char *context;   /* instead of the thread's name; NULL: that */
	const bson_t *details; /* of JSON lines, NULL: none; not shown where it is too long */
};

must_check bool log_wants(enum config_log_level level);
void log_event(const struct log_event *event, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Lines of one kind that others can cause, as often as they like: ten a minute are written, and the
 * next one says how many were held back. Each kind has one of these, static, zero at first. */
struct log_limit {
	int64_t since; /* monotonic milliseconds */
	int64_t lines; /* since then */
	int64_t held;
};

/* True where a line is to be written at the time `now`. *held: how many were not since the last. */
must_check bool log_limit_due(struct log_limit *limit, int64_t now, int64_t *held);
void log_limited(struct log_limit *limit, enum config_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
