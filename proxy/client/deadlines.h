/* Deadlines of sessions. Each kind has one list, in the order in which its deadlines fall due: all
 * of a kind last equally long. A session that waits for nothing is in no list and costs nothing. */
#pragma once

#include "protocol/base.h"

#include <stdint.h>

enum deadline_kind {
	DEADLINE_HANDSHAKE, /* the first whole request: limits.handshake */
	DEADLINE_LOGIN,     /* from the first try to sign in to its success: limits.login */
	DEADLINE_PROGRESS,  /* the next bytes of a request that Spillway holds: limits.progress */
	DEADLINE_LOOK,      /* a request waits for replies before it: is its client still there? */
	DEADLINE_UNREAD,    /* much has been sent to the client: does it take it? */
	DEADLINE_KINDS,
};

struct deadline {
	struct deadline *next;
	struct deadline *previous;
	uint64_t since; /* uv_now */
	bool runs;      /* it is in the list */
};

/* All zeros is an empty one; the longest running first. */
struct deadline_list {
	struct deadline *first;
	struct deadline *last;
};

/* Runs from now on, also if it ran before. */
void deadline_begin(struct deadline_list *list, struct deadline *deadline, uint64_t now);
/* Runs no more. Idempotent. */
void deadline_end(struct deadline_list *list, struct deadline *deadline);
