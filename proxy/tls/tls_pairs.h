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
/* Without the sides to clients: whoever serves none may not be allowed to read their keys. */
struct tls_pairs *tls_pairs_new_servers(const struct config *config, const char *path, char *reason,
					size_t size);
/* For a listener that a reload brings: nobody uses its place yet, or any more. */
must_check bool tls_pairs_add(struct tls_pairs *pairs, size_t index, const struct config *config,
			      const char *path, char *reason, size_t size);
void tls_pairs_drop(struct tls_pairs *pairs, size_t index);
/* Takes NULL. */
void tls_pairs_free(struct tls_pairs *pairs);
/* What all files hold now: read first, then taken or not. NULL if one is wrong, and why. `open`:
 * the listeners whose files count; NULL: all. */
struct tls_load;
struct tls_load *tls_pairs_load(struct tls_pairs *pairs, const bool *open, char *reason,
				size_t size);
/* Later connections use it. */
void tls_pairs_take(struct tls_pairs *pairs, struct tls_load *load);
/* Takes NULL. */
void tls_load_free(struct tls_load *load);
/* Of the listener at this place in the configuration. */
const struct tls_pair *tls_pairs_at(const struct tls_pairs *pairs, size_t index);
