/* The files that the admin address needs: its token, its certificate and the certificate's key. */
#pragma once

#include "rules/config/config.h"

/* Texts are owned; all NULL: the configuration names no such file. */
struct admin_files {
	char *token;
	char *cert; /* PEM: the server's certificate first, then those that lead to its CA */
	char *key;  /* PEM */
};

#define ADMIN_TOKEN_MIN 16

/* Reads and judges all of them. False, and *mistake (freed by the caller) names the key and the
 * file and says what is wrong; then `files` is left as it is. */
must_check bool admin_files_load(struct admin_files *files, const struct config *config,
				 char **mistake);
void admin_files_fini(struct admin_files *files);

enum admin_exposure {
	ADMIN_SAFE,  /* off, local, or with a token and TLS */
	ADMIN_OPEN,  /* other machines can connect, and need no token */
	ADMIN_CLEAR, /* other machines can connect, and the token travels in clear */
};
/* By the configuration; the address is resolved, which may block. */
enum admin_exposure admin_exposure(const struct config *config);
