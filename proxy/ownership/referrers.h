/* Which collection's documents refer to what lies in an overflow. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

enum referrers {
	REFERRERS_EMPTY,   /* nothing of Spillway's lies there */
	REFERRERS_OWN,     /* documents of the target's collection, by its array, and no others */
	REFERRERS_OTHER,   /* others' to some of it */
	REFERRERS_HANDS,   /* there is too much to look through; a sample of it was split by hand */
	REFERRERS_NAMED,   /* none that was found, but generations there name the target */
	REFERRERS_UNKNOWN, /* none that was found */
};

/* Asks for a sample of the overflow who refers to it: the target's collection, then all those of
 * its database and of the overflow's that the account may read. `other` gets the name of one. */
must_check enum link_result referrers_find(struct link *link, const struct mover_target *target,
					   enum referrers *found, char *other, size_t size);

/* Hands over {_id, _spill} of each document of these collections, the target's among them, that has
 * one of these links (an array) for its `_id`, and states. `all`: none had to be passed over. */
must_check enum link_result referrers_each(struct link *link, const struct mover_target *target,
					   struct bytes links, link_document each, void *context,
					   bool *all);
