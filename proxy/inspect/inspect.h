/* `spillway explain`, `status`, `top` and `suggest`: what a Spillway does, asked of its file or of
 * the running process by its admin address. */
#pragma once

#include "proxy/base/command_line.h"

/* The exit codes: 0; 1 refused, not ready; 2 bad usage or file; 3 nobody answers. */
int explain_main(const struct command_line *line);
int status_main(const struct command_line *line);
int top_main(const struct command_line *line);
int suggest_main(const struct command_line *line);
