/* Asks a server hello in the way in which clients' connections reach it: with the TLS of the
 * configuration or without, as nobody, on a connection of its own. Blocking. */
#pragma once

#include "proxy/base/places.h"
#include "proxy/tls/tls_pairs.h"

#include <stdatomic.h>

/* The way of clients' connections: what is asked, and by what TLS. */
struct reach {
	const struct config *config;
	const struct tls_pairs *tls;
	struct places *places;
};

/* The reply of the server behind this listener, where one is; false, and why not. Ends early if
 * *stopping is set.
 */
must_check bool reach_hello(const struct reach *reach, size_t index, const atomic_bool *stopping,
			    struct buffer *hello, char *reason, size_t size);
