/* Turns of what many clients may do without having signed in, or without use: one in so much time
 * on each loop. So a crowd does not take the time of those who work. */
#pragma once

#include "protocol/base.h"

enum turns_kind {
	/* Requests for hello, and to sign in, of connections that have not signed in: */
	TURNS_FIRST_GREETINGS,   /* the first ones of each */
	TURNS_FURTHER_GREETINGS, /* no driver sends them often */
	TURNS_REFUSALS,          /* Spillway's own errors, whoever asked */
	TURNS_KINDS,
};

/* All zeros is none taken. */
struct turns {
	uint64_t latest[TURNS_KINDS]; /* monotonic microseconds */
	uint64_t since;               /* turns_crowded's second, and the waits in it */
	unsigned waits;
};

/* Takes the next turn: it comes in so many milliseconds, a second at most. 0: now. `now`: monotonic
 * milliseconds. */
must_check uint64_t turns_take(struct turns *turns, enum turns_kind kind, uint64_t now);
/* Somebody has to wait. True if in a second as many had to as only a crowd brings about. */
must_check bool turns_crowded(struct turns *turns, uint64_t now);
