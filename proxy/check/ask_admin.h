/* Asks the running Spillway's admin address, as its configuration says: with the token, and over
 * TLS. */
#pragma once

#include "proxy/base/admin_files.h"

/* The body of the answer to a GET, freed by the caller; NULL if nobody answers, or not with 200.
 * Over TLS the server must show the very certificate of `files`. */
char *ask_admin(const struct config *config, const struct admin_files *files, const char *path);
/* The same; *status is what it was answered with, 0: nobody answers. */
char *ask_admin_status(const struct config *config, const struct admin_files *files,
		       const char *path, int *status);
/* ask_admin without the token, of a server with any certificate. */
char *ask_anybody(const struct config *config, const char *path);
/* Asks for what the path names, "/reload" or "/upgrade". The same, but *status is what it was
 * answered with; 0: nobody answers. */
char *ask_admin_for(const struct config *config, const struct admin_files *files, const char *path,
		    int *status);
