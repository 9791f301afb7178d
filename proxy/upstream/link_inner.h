/* Inside a link. */
#pragma once

#include "proxy/upstream/link.h"

#include <mongoc/mongoc.h>
#include <sys/socket.h>

struct link {
	mongoc_client_t *client;
	mongoc_client_session_t *session; /* of a transaction that is open */
	const atomic_bool *stopping;
	uint64_t serial;
	int64_t opened;                  /* monotonic microseconds */
	uint64_t time;                   /* the latest operationTime */
	struct link *next;               /* of all there are; under the lock, as is the address */
	struct sockaddr_storage address; /* our end of the connection; no family: none */
	bool connected;                  /* the one stream has been made, or tried */
	bool dead;
	bool standalone;
	uint8_t *hello;
	uint8_t *body; /* of the last reply; owned */
	struct reply_summary reply;
	struct link_error error;
};

/* Sends the command whether the link may still be used or not, if need be over a connection of its
 * own, and forgets the answer. Takes two seconds at most where no server is there. */
void link_tell(struct link *link, const char *database, struct bytes command);
/* Another link to the same server, to tell it one thing. NULL: it is not there. */
must_check struct link *link_again(const struct link *link);
/* The next command is not sent: the link is dead, or its error says what was wrong. */
void link_fail(struct link *link, int64_t code, const char *message);
/* The server says that it does not take writes (any more), that it is going away, or that it wants
 * to be spoken to otherwise. */
bool link_error_ends(int64_t code);
/* A document of libbson's, or none. */
struct bytes link_view(const uint8_t *document);
