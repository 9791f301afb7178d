/* `spillway migrate`: moves the outliers that are there already. */
#pragma once

#include "proxy/base/command_line.h"

/* The exit code. */
int migrate_main(const struct command_line *line);
