/* TLS of all listeners: each has a side to its clients and one to its server. */
#pragma once

#include "proxy/tls/tls_side.h"

/* NULL where connections are plain. */
struct tls_pair {
	struct tls_side *client; /* to the clients */
	struct tls_side *server; /* to the server */
};

struct tls_pairs;

/* `path` is the configuration file's; both must outlive the pairs. On failure NULL, and why. */
struct tls_pairs *tls_pairs_new(const struct config *config, const char *path, char *reason,
				size_t size);
/* Takes NULL. */
void tls_pairs_free(struct tls_pairs *pairs);
/* Reads all files again. False if one is wrong: then all stays as it was. */
must_check bool tls_pairs_reload(struct tls_pairs *pairs, char *reason, size_t size);
/* Of the listener at this place in the configuration. */
const struct tls_pair *tls_pairs_at(const struct tls_pairs *pairs, size_t index);
