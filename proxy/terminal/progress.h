/* How far a command is, on standard error: on a terminal one line that is written over and over,
 * elsewhere a line now and then. Any thread. */
#pragma once

#include "protocol/bytes.h"

#include <stdbool.h>
#include <stdint.h>

/* Standard error is a terminal. */
bool progress_seen(void);
/* Whether it is time to say again how things are; `told`: when that was. */
bool progress_due(int64_t *told);
/* In place of the line that stands there. */
void progress_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The line that stands there goes. */
void progress_clear(void);

/* Of `total`, which may be a guess. */
struct progress {
	int64_t done, total;
	int64_t passed; /* milliseconds, at least 1 */
};
int64_t progress_percent(const struct progress *progress);
/* ", 12 s to go"; nothing where that is not known. */
void progress_append_left(struct buffer *out, const struct progress *progress);
