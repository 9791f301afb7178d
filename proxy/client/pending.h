/* The replies that the server owes on one connection, and what each is for (PgBouncer's queue of
 * outstanding requests). */
#pragma once

#include "protocol/bytes.h"

enum pending_kind {
	PENDING_FORWARD,  /* goes to the client as it comes */
	PENDING_HELLO,    /* addresses are edited on its way */
	PENDING_GET_MORE, /* as it comes, but for an error of a stage of ours */
	PENDING_SIGN_IN,  /* as it comes; whether it signs the client in is seen */
	PENDING_FIND,     /* as it comes, but for what has to be put together */
	PENDING_PROOF,    /* answers our own question: whether mongod knows the user */
	PENDING_SEQUENCE, /* belongs to the running sequence */
};

struct pending_entry {
	int32_t request_id;
	uint8_t kind;
	bool exhaust; /* the request allows replies that announce more (moreToCome) */
};

#define PENDING_INLINE 4

/* A ring; grows to the heap only for clients that pipeline. All zeros is an empty one. */
struct pending {
	struct pending_entry inline_entries[PENDING_INLINE];
	struct pending_entry *entries; /* NULL: inline_entries */
	uint32_t first;
	uint32_t count;
	uint32_t capacity; /* 0: PENDING_INLINE */
	uint32_t old;      /* so many from the front were asked before the rules changed */
	uint32_t asked;    /* milliseconds, the low bits of a clock: when the request that the first
			      entry stands for came */
	bool timed;        /* that is known */
};

/* A request to which nothing else was owed is pushed next: it came at this time. */
static inline void pending_begin(struct pending *pending, uint64_t now)
{
	pending->asked = (uint32_t)now;
	pending->timed = true;
}

/* pending_push, also where the entries are on the heap or have to go there. */
void pending_push_any(struct pending *pending, struct pending_entry entry);
static inline void pending_push(struct pending *pending, struct pending_entry entry)
{
	if (pending->entries || pending->count == PENDING_INLINE) {
		pending_push_any(pending, entry);
		return;
	}
	pending->inline_entries[(pending->first + pending->count) % PENDING_INLINE] = entry;
	pending->count++;
}
/* The entry that this reply answers: drops older ones that were never answered. NULL where the
 * reply answers none (the next part of a stream). The entry stays in front until pending_pop. */
struct pending_entry *pending_match(struct pending *pending, int32_t response_to);
void pending_pop(struct pending *pending);
void pending_fini(struct pending *pending);
/* True when nothing is owed but answers to hello, which a monitoring connection always waits for.
 */
bool pending_only_hello(const struct pending *pending);
/* The rules have changed: what is owed now was asked before, but for hello. */
void pending_age(struct pending *pending);
/* True when the next reply is one to hello. */
bool pending_begins_with_hello(const struct pending *pending);
