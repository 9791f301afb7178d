/* Which collection's documents refer to what lies in an overflow. */
#pragma once

#include "proxy/mover_link.h"
#include "proxy/mover_target.h"

enum referrers {
	REFERRERS_EMPTY,   /* nothing of Spillway's lies there */
	REFERRERS_OWN,     /* documents of the target's collection, by its array, and no others */
	REFERRERS_OTHER,   /* others' to some of it */
	REFERRERS_UNKNOWN, /* none that was found */
};

/* Asks for a sample of the overflow who refers to it: the target's collection, then all those of
 * its database and of the overflow's that the account may read. `other` gets the name of one. */
must_check enum link_result referrers_find(struct link *link, const struct mover_target *target,
					   enum referrers *found, char *other, size_t size);
