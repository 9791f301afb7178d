/* `spillway health --config FILE`: whether the running Spillway is ready; for probes that can run a
 * program and have no HTTP client. */
#pragma once

#include "proxy/base/command_line.h"

/* The exit code: 0 ready, 1 not, 2 bad usage or file. */
int health_main(const struct command_line *line);
