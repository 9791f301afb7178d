/* What `analyze` says on a terminal while it works: one line, written over and over. Says nothing
 * elsewhere. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool progress_seen(void);
/* In place of the line before; NULL: the line goes. */
void progress_say(const char *text);
/* How far it is, from time to time: `told` is when it said so last. */
void progress_show(int64_t looked, int64_t total, int64_t began, int64_t *told);
