/* Whether the servers take writes, and a majority of the replica set acknowledges them: what one
 * server's hello, asked once a second, tells; and what is missing, in words. Pure. */
#pragma once

#include "protocol/bytes.h"

enum majority_lack {
	MAJORITY_THERE,
	MAJORITY_NO_ANSWER,      /* of any server */
	MAJORITY_NO_PRIMARY,     /* that the server knows of */
	MAJORITY_UNACKNOWLEDGED, /* what is written stays with fewer members */
};

/* What was seen so far; begin with zeros. Times are monotonic milliseconds. */
struct majority {
	enum majority_lack lack; /* as the last hello said it */
	int64_t lacking_since;
	uint64_t acknowledged; /* what the majority had at last; 0: not known */
	int64_t moved_at;      /* when that was seen to be more, or to be all */
};

/* Takes a server's hello; empty where none answered. */
void majority_take(struct majority *majority, struct bytes hello, int64_t now);
/* Something has been missing for longer than an answer may take. */
bool majority_is_lost(const struct majority *majority, int64_t now);

/* A server behind a listener, when it was asked by itself. */
struct majority_member {
	const char *server;
	bool answers;
	bool primary;
};

/* Appends what is missing and what to do. `set`: the replica set's name, empty where no server said
 * one. */
void majority_say(struct buffer *out, enum majority_lack lack, struct bytes set,
		  const struct majority_member *members, size_t count);
