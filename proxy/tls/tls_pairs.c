/* Makes the two sides of each listener. */
#include "proxy/tls/tls_pairs.h"

#include <stdlib.h>

struct tls_pairs {
	size_t count; /* with `replica_set` one, for all its members */
	struct tls_pair pairs[];
};

struct tls_load {
	size_t count;
	struct {
		SSL_CTX *client, *server; /* NULL: the side is plain, or its files do not count */
	} contexts[];
};

static bool make_server(struct tls_pair *pair, const struct config *config, const char *path,
			char *reason, size_t size)
{
	if (!config->server_tls.on)
		return true;
	pair->server = tls_side_new_server(&config->server_tls, path, reason, size);
	return pair->server;
}

static bool make_client(struct tls_pair *pair, const struct config_tls *tls, const char *path,
			char *reason, size_t size)
{
	if (!tls->on)
		return true;
	pair->client = tls_side_new_listener(tls, path, reason, size);
	return pair->client;
}

struct tls_pairs *tls_pairs_new_servers(const struct config *config, const char *path, char *reason,
					size_t size)
{
	size_t count = config->replica_set.on ? 1 : config->listen_count;
	struct tls_pairs *pairs = must_calloc(1, sizeof(*pairs) + count * sizeof(pairs->pairs[0]));

	pairs->count = count;
	for (size_t i = 0; i < count; i++) {
		if (!config->listen[i].open ||
		    make_server(&pairs->pairs[i], config, path, reason, size))
			continue;
		tls_pairs_free(pairs);
		return NULL;
	}
	return pairs;
}

struct tls_pairs *tls_pairs_new(const struct config *config, const char *path, char *reason,
				size_t size)
{
	struct tls_pairs *pairs = tls_pairs_new_servers(config, path, reason, size);

	for (size_t i = 0; pairs && i < pairs->count; i++) {
		if (make_client(&pairs->pairs[i], &config->listen[i].tls, path, reason, size))
			continue;
		tls_pairs_free(pairs);
		return NULL;
	}
	return pairs;
}

must_check bool tls_pairs_add(struct tls_pairs *pairs, size_t index, const struct config *config,
			      const char *path, char *reason, size_t size)
{
	struct tls_pair *pair = &pairs->pairs[index];

	require(index < pairs->count && !pair->client && !pair->server);
	if (make_server(pair, config, path, reason, size) &&
	    make_client(pair, &config->listen[index].tls, path, reason, size))
		return true;
	tls_pairs_drop(pairs, index);
	return false;
}

void tls_pairs_drop(struct tls_pairs *pairs, size_t index)
{
	tls_side_free(pairs->pairs[index].client);
	tls_side_free(pairs->pairs[index].server);
	pairs->pairs[index] = (struct tls_pair){0};
}

void tls_pairs_free(struct tls_pairs *pairs)
{
	for (size_t i = 0; pairs && i < pairs->count; i++)
		tls_pairs_drop(pairs, i);
	free(pairs);
}

static bool load_side(SSL_CTX **context, struct tls_side *side, char *reason, size_t size)
{
	if (!side)
		return true;
	*context = tls_side_load(side, reason, size);
	return *context;
}

struct tls_load *tls_pairs_load(struct tls_pairs *pairs, const bool *open, char *reason,
				size_t size)
{
	struct tls_load *load =
		must_calloc(1, sizeof(*load) + pairs->count * sizeof(load->contexts[0]));

	load->count = pairs->count;
	for (size_t i = 0; i < pairs->count; i++) {
		const struct tls_pair *pair = &pairs->pairs[i];

		if ((open && !open[i]) ||
		    (load_side(&load->contexts[i].client, pair->client, reason, size) &&
		     load_side(&load->contexts[i].server, pair->server, reason, size)))
			continue;
		tls_load_free(load);
		return NULL;
	}
	return load;
}

static void take_side(SSL_CTX **context, struct tls_side *side)
{
	if (*context)
		tls_side_take(side, *context);
	*context = NULL;
}

void tls_pairs_take(struct tls_pairs *pairs, struct tls_load *load)
{
	for (size_t i = 0; i < load->count; i++) {
		take_side(&load->contexts[i].client, pairs->pairs[i].client);
		take_side(&load->contexts[i].server, pairs->pairs[i].server);
	}
}

void tls_load_free(struct tls_load *load)
{
	for (size_t i = 0; load && i < load->count; i++) {
		SSL_CTX_free(load->contexts[i].client);
		SSL_CTX_free(load->contexts[i].server);
	}
	free(load);
}

const struct tls_pair *tls_pairs_at(const struct tls_pairs *pairs, size_t index)
{
	return &pairs->pairs[pairs->count > 1 ? index : 0];
}
