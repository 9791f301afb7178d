/* `spillway reload` and `spillway upgrade`. */
#pragma once

#include "proxy/base/command_line.h"

/* Returns the exit code. */
int reload_main(const struct command_line *line);
int upgrade_main(const struct command_line *line);
