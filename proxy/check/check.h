/* `spillway check --config FILE`: what is wrong with the file and the servers. */
#pragma once

#include "proxy/base/command_line.h"

/* The exit code: 0 nothing to do, 1 findings, 2 bad usage or file, 3 cannot connect. */
int check_main(const struct command_line *line);
