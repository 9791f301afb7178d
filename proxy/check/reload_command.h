/* `spillway reload`. */
#pragma once

#include "proxy/base/command_line.h"

/* Returns the exit code. */
int reload_main(const struct command_line *line);
