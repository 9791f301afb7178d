/* The header of the PROXY protocol (haproxy.org, doc/proxy-protocol.txt), versions 1 and 2, by
 * which a load balancer says where a connection comes from. */
#pragma once

#include "protocol/bytes.h"

/* Addresses of the internet protocol; IPv4 stands as ::ffff:a.b.c.d. */
#define NETWORK_ADDRESS 16

/* 10.0.0.5, 2001:db8::1, ::ffff:10.0.0.5; without a port, a zone or brackets. */
must_check bool network_address(struct bytes text, uint8_t address[NETWORK_ADDRESS]);

struct network {
	uint8_t address[NETWORK_ADDRESS];
	uint8_t bits; /* how many of them must be the same: 0 to 128 */
};

/* 10.0.0.0/8, 2001:db8::/32; an address alone is a network of one. */
must_check bool network_parse(struct bytes text, struct network *network);
bool network_holds(const struct network *network, const uint8_t address[NETWORK_ADDRESS]);

#define PROXIED_MOST 2048 /* bytes of a header that is taken */

enum proxied_state {
	PROXIED_SHORT, /* the header goes on */
	PROXIED_READY,
	PROXIED_INVALID, /* no such header, or one that is not taken */
};

struct proxied {
	bool known; /* false: LOCAL or UNKNOWN, the connection is the load balancer's own */
	uint8_t address[NETWORK_ADDRESS]; /* the source's */
	uint16_t port;
};

/* `bytes`: the first ones of a connection. *missing, of PROXIED_SHORT: so many may be read without
 * reading beyond the header. PROXIED_READY: the bytes are the header, and no more. */
must_check enum proxied_state proxied_read(struct bytes bytes, struct proxied *proxied,
					   size_t *missing);
