/* The configuration from its file and what stands around it: $SPILLWAY_UPSTREAM_URI, `uri_file`,
 * file modes. */
#pragma once

#include "rules/config/config.h"

/* As config_parse (rules/config/config.h). Problems are also: a file that can't be read, or is
 * larger than 1 MB. A relative `uri_file` starts from the configuration's folder. */
struct config *config_load(const char *path, char **problems);

/* From here on this thread reads no file that it may have to wait for, such as a pipe: who serves
 * must be able to end. */
void config_file_wait_for_none(void);
/* Whether this is such a file, and this thread such a one. */
bool config_file_waits(const char *path);
#define CONFIG_FILE_WAITS "it is no regular file, and only a start waits for what comes through it"

/* Of all that this thread's last config_load has read for the file and those that it includes:
 * equal texts have an equal one, in any version of the program. */
#define CONFIG_DIGEST 65 /* hexadecimal digits, and a NUL */
void config_loaded_digest(char text[CONFIG_DIGEST]);

/* The URI in a file that others may not read if it holds a password; wiped and freed by the caller.
 * NULL: *mistake, freed by the caller, says why. */
must_check char *config_read_uri(const char *path, char **mistake);

/* What is wrong with a URI, freed by the caller; NULL: nothing. Without any part of a password. */
char *config_uri_mistake(const char *uri);

/* Reads a file that the configuration names; a relative path starts from the configuration's
 * folder. NULL, or what is wrong, freed by the caller. A `secret` that others may read is wrong. */
char *config_read_named(const struct config *config, const char *path, bool secret,
			struct buffer *content);
