/* `spillway serve`: loops, the mover and the admin page, from start to drain. */
#pragma once

#include "proxy/base/command_line.h"

/* Returns the exit code: 0 after a drain, 1 where it can't start, 2 for a bad
 * file, or for root where others can connect. */
int serve_run(const struct command_line *line);
