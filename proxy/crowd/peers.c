/* Addresses that clients come from, and how many connections each has open. */
#include "proxy/crowd/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

struct peer peer_of(const struct sockaddr *address)
{
	struct peer peer = {0};

	if (address->sa_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const void *)address;

		memcpy(peer.address, &six->sin6_addr, sizeof(peer.address));
		peer.port = ntohs(six->sin6_port);
		peer.known = true;
	} else if (address->sa_family == AF_INET) {
		const struct sockaddr_in *four = (const void *)address;

		memcpy(peer.address, mapped, sizeof(mapped));
		memcpy(peer.address + sizeof(mapped), &four->sin_addr, sizeof(four->sin_addr));
		peer.port = ntohs(four->sin_port);
		peer.known = true;
	}
	return peer;
}

bool peer_same_address(const struct peer *one, const struct peer *other)
{
	return one->known == other->known &&
	       memcmp(one->address, other->address, sizeof(one->address)) == 0;
}

const char *peer_text(const struct peer *peer, char text[PEER_TEXT])
{
	bool four = memcmp(peer->address, mapped, sizeof(mapped)) == 0;
	char host[INET6_ADDRSTRLEN];

	if (!peer->known ||
	    !inet_ntop(four ? AF_INET : AF_INET6, peer->address + (four ? sizeof(mapped) : 0), host,
		       sizeof(host)))
		snprintf(text, PEER_TEXT, "an unknown address");
	else
		snprintf(text, PEER_TEXT, four ? "%s:%d" : "[%s]:%d", host, peer->port);
	return text;
}

struct peers_entry {
	struct peers_entry *next;
	uint8_t address[16];
	int64_t count;
};

void peers_init(struct peers *peers)
{
	memset(peers, 0, sizeof(*peers));
	arc4random_buf(&peers->key, sizeof(peers->key));
	require(pthread_mutex_init(&peers->lock, NULL) == 0);
}

void peers_fini(struct peers *peers)
{
	for (size_t i = 0; i < PEERS_BUCKETS; i++)
		require(!peers->buckets[i]);
	pthread_mutex_destroy(&peers->lock);
}

/* Where the entry of an address is, or its place at the end of a chain. The key keeps others from
 * choosing addresses for one chain. */
static struct peers_entry **find(struct peers *peers, const struct peer *peer)
{
	uint64_t high, low, hash;
	struct peers_entry **at;

	memcpy(&high, peer->address, sizeof(high));
	memcpy(&low, peer->address + sizeof(high), sizeof(low));
	hash = ((high ^ peers->key) * 0x9e3779b97f4a7c15u) ^ low;
	hash = (hash ^ peers->key >> 32) * 0x9e3779b97f4a7c15u;
	at = &peers->buckets[(hash >> 32) % PEERS_BUCKETS];
	while (*at && memcmp((*at)->address, peer->address, sizeof(peer->address)) != 0)
		at = &(*at)->next;
	return at;
}

int64_t peers_join(struct peers *peers, const struct peer *peer)
{
	struct peers_entry **at;
	int64_t count;

	pthread_mutex_lock(&peers->lock);
	at = find(peers, peer);
	if (!*at) {
		*at = must_calloc(1, sizeof(**at));
		memcpy((*at)->address, peer->address, sizeof(peer->address));
	}
	count = ++(*at)->count;
	pthread_mutex_unlock(&peers->lock);
	return count;
}

void peers_leave(struct peers *peers, const struct peer *peer)
{
	struct peers_entry **at, *entry;

	pthread_mutex_lock(&peers->lock);
	at = find(peers, peer);
	entry = *at;
	require(entry);
	if (--entry->count == 0) {
		*at = entry->next;
		free(entry);
	}
	pthread_mutex_unlock(&peers->lock);
}
