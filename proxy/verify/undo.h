/* `spillway undo`: folds everything back that a rule has moved. */
#pragma once

#include "proxy/base/command_line.h"

/* The exit code. */
int undo_main(const struct command_line *line);
