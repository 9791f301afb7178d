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

/* The next command is not sent: the link is dead, or its error says what was wrong. */
void link_fail(struct link *link, int64_t code, const char *message);
/* The server says that it does not take writes (any more), that it is going away, or that it wants
 * to be spoken to otherwise. */
bool link_error_ends(int64_t code);
/* A document of libbson's, or none. */
struct bytes link_view(const uint8_t *document);
