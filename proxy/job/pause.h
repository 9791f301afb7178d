/* `spillway pause` and `spillway resume`: rules under which nothing is moved, for every Spillway
 * and every command that writes. */
#pragma once

#include "proxy/base/command_line.h"

int pause_main(const struct command_line *line);
int resume_main(const struct command_line *line);
