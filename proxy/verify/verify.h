/* `spillway verify`: what is stored under a rule against the invariants of the spill protocol. */
#pragma once

#include "proxy/base/command_line.h"

/* The exit code. */
int verify_main(const struct command_line *line);
