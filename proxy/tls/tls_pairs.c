/* Makes the two sides of each listener. */
#include "proxy/tls/tls_pairs.h"

#include <stdlib.h>

struct tls_pairs {
	size_t count; /* with `replica_set` one, for all its members */
	struct tls_pair pairs[];
};

static bool make_pair(struct tls_pair *pair, const struct config *config, size_t index,
		      const char *path, char *reason, size_t size)
{
	const struct config_tls *client = &config->listen[index].tls;

	if (client->on && !(pair->client = tls_side_new_listener(client, path, reason, size)))
		return false;
	if (!config->server_tls.on)
		return true;
	pair->server = tls_side_new_server(&config->server_tls, path, reason, size);
	return pair->server;
}

struct tls_pairs *tls_pairs_new(const struct config *config, const char *path, char *reason,
				size_t size)
{
	size_t count = config->replica_set.on ? 1 : config->listen_count;
	struct tls_pairs *pairs = must_calloc(1, sizeof(*pairs) + count * sizeof(pairs->pairs[0]));

	pairs->count = count;
	for (size_t i = 0; i < pairs->count; i++) {
		if (make_pair(&pairs->pairs[i], config, i, path, reason, size))
			continue;
		tls_pairs_free(pairs);
		return NULL;
	}
	return pairs;
}

void tls_pairs_free(struct tls_pairs *pairs)
{
	for (size_t i = 0; pairs && i < pairs->count; i++) {
		tls_side_free(pairs->pairs[i].client);
		tls_side_free(pairs->pairs[i].server);
	}
	free(pairs);
}

/* The sides in a row: first those to the clients, then those to the servers. */
static struct tls_side *side_at(const struct tls_pairs *pairs, size_t index)
{
	return index < pairs->count ? pairs->pairs[index].client
				    : pairs->pairs[index - pairs->count].server;
}

must_check bool tls_pairs_reload(struct tls_pairs *pairs, char *reason, size_t size)
{
	size_t count = 2 * pairs->count;
	SSL_CTX **contexts = must_calloc(count, sizeof(*contexts));
	bool good = true;

	for (size_t i = 0; i < count && good; i++)
		if (side_at(pairs, i))
			good = (contexts[i] = tls_side_load(side_at(pairs, i), reason, size));
	for (size_t i = 0; i < count; i++) {
		if (good && contexts[i])
			tls_side_take(side_at(pairs, i), contexts[i]);
		else
			SSL_CTX_free(contexts[i]);
	}
	free((void *)contexts);
	return good;
}

const struct tls_pair *tls_pairs_at(const struct tls_pairs *pairs, size_t index)
{
	return &pairs->pairs[pairs->count > 1 ? index : 0];
}
