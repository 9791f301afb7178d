/* Addresses that clients come from, and how many connections each has open. */
#pragma once

#include "protocol/base.h"

#include <pthread.h>
#include <sys/socket.h>

/* IPv4 stands as ::ffff:a.b.c.d. */
struct peer {
	uint8_t address[16];
	uint16_t port;
	bool known;
};

/* Of a family that is neither IPv4 nor IPv6: one that is not known. */
struct peer peer_of(const struct sockaddr *address);
bool peer_same_address(const struct peer *one, const struct peer *other);
/* "127.0.0.1:4711", "[::1]:4711", "an unknown address" */
#define PEER_TEXT 64
const char *peer_text(const struct peer *peer, char text[PEER_TEXT]);

#define PEERS_BUCKETS 4096

/* One for all loops; memory only for addresses that have a connection. */
struct peers {
	pthread_mutex_t lock;
	uint64_t key;
	struct peers_entry *buckets[PEERS_BUCKETS];
};

void peers_init(struct peers *peers);
void peers_fini(struct peers *peers);
/* Counts one more connection of the address and returns how many it has now. Any thread. */
int64_t peers_join(struct peers *peers, const struct peer *peer);
/* Counts one less. */
void peers_leave(struct peers *peers, const struct peer *peer);
