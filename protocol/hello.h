/* The two edits of a handshake: the compressors a client offers, the addresses a server answers
 * with. */
#pragma once

#include "protocol/bytes.h"

/* The client's hello body -> appended to `out` without the compressors that compressor_readable
 * refuses; without `certified`, also without an attempt to sign in by the connection's certificate
 * (speculativeAuthenticate of MONGODB-X509). True when something was taken out; false, and nothing
 * appended, where the body can go on as it is (also where it is broken: mongod answers that). */
must_check bool hello_edit_request(struct bytes body, bool certified, struct buffer *out);

/* What a server calls itself and its fellows -> what clients must call them. Returns false where no
 * listener stands for that member; `advertised` lives as long as the map. */
struct hello_map {
	bool (*find)(const void *context, struct bytes member, struct bytes *advertised);
	const void *context;
};

/* The server's reply body -> appended to `out` with hosts, passives, arbiters (members that the map
 * does not know are dropped), primary and me (left out where unknown) renamed. All else, the order
 * of the fields included, stays byte for byte. True when something changed; false, nothing
 * appended, where the reply can go on as it is. */
must_check bool hello_edit_reply(struct bytes body, const struct hello_map *map,
				 struct buffer *out);

/* The compressors of a reply's `compression`, which the client may use: bits as compressor_bit has
 * them. */
uint8_t hello_compressors(struct bytes body);

/* Whether a reply to saslStart, saslContinue, authenticate or a hello with speculativeAuthenticate
 * says that the client has signed in. */
must_check bool hello_signed_in(struct bytes body);
/* Whether it belongs to signing in at all, the last step or not. */
must_check bool hello_signs_in(struct bytes answer);

/* `me` of a reply, false where it has none (standalone, mongos). */
must_check bool hello_own_name(struct bytes body, struct bytes *name);
