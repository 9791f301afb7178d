/* What all connections of one side share: of a listener, or of the way to its server. Made of the
 * files that the configuration names (struct config_tls), and made anew when these are reloaded. */
#pragma once

#include "rules/config/config.h"

#include <openssl/ssl.h>

struct tls_side;

/* `config` and `path`, the configuration file's, must outlive the side. On failure NULL, and the
 * reason names the file. */
struct tls_side *tls_side_new_listener(const struct config_tls *config, const char *path,
				       char *reason, size_t size);
struct tls_side *tls_side_new_server(const struct config_tls *config, const char *path,
				     char *reason, size_t size);
/* No connection may be made any more; those that are open go on. Takes NULL. */
void tls_side_free(struct tls_side *side);
/* Reads the files again, from any thread. NULL if a file is wrong; else tls_side_take has later
 * connections use what they hold now. */
SSL_CTX *tls_side_load(struct tls_side *side, char *reason, size_t size);
void tls_side_take(struct tls_side *side, SSL_CTX *context);

/* A new connection: a client's, or one to the server at "host:port" (the host is TLS's SNI and the
 * name that the server's certificate must have). NULL if there is no memory. */
SSL *tls_side_accept(struct tls_side *side);
SSL *tls_side_connect(struct tls_side *side, const char *address);
