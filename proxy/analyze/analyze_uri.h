/* Where `analyze` takes the connection string from: a file, the command line or the environment. */
#pragma once

#include "proxy/base/command_line.h"

#define ANALYZE_URI "SPILLWAY_URI"

/* The connection string, wiped and freed by the caller (analyze_uri_free), and how many arguments
 * stand before NAMESPACE. NULL: *mistake, freed by the caller, says what is wrong with the command
 * line. Warns of a password on the command line. */
must_check char *analyze_uri(const struct command_line *line, int *taken, char **mistake);
void analyze_uri_free(char *uri);
