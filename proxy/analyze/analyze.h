/* `spillway analyze URI NAMESPACE [ARRAY]`: how long arrays are, and whether the pattern pays. */
#pragma once

#include "proxy/base/command_line.h"

/* The exit code: 0 it was looked at, 1 the server refused, 2 bad usage, 3 cannot connect. */
int analyze_main(const struct command_line *line);
