/* Who connects and is no MongoDB client: told by the first bytes of a connection. */
#pragma once

#include "protocol/frame.h"

enum stranger {
	STRANGER_TLS,     /* a TLS ClientHello */
	STRANGER_HTTP,    /* a request of HTTP */
	STRANGER_PROXIED, /* a header of the PROXY protocol, which load balancers may add */
	STRANGER_UNKNOWN, /* anything else */
	STRANGER_COUNT,
};

/* `start`: the first bytes of a connection, as many as have come. */
enum stranger stranger_of(struct bytes start);

/* Whether a client may begin with a message of this header. mongod takes every other response_to
 * than 0 and -1 in the first header for the beginning of a TLS ClientHello. */
must_check bool stranger_may_begin(const struct frame_header *header);

/* Whether a client may send messages of this opcode at all, plain or inside OP_COMPRESSED. */
must_check bool stranger_knows_opcode(int32_t opcode);
