/* The members of a replica set, each at the place of its `_id`: a member keeps the `_id` as long as
 * it exists, so every Spillway finds the same place at any time, without a record of its own. */
#pragma once

#include "proxy/base/places.h"
#include "proxy/upstream/link.h"

/* What a member says. */
struct members_reply {
	struct bytes status; /* to replSetGetStatus, which the account may ask anyway */
	struct bytes hello;
};
/* A member for which there is no place. */
struct members_stray {
	struct bytes name;
	int64_t id;
};
/* servers[n] becomes the host of the member whose `_id` is n (a view into the reply), as far as
 * there are places. Arbiters get none: they hold no data, and no client has business there. False
 * if a member that holds data has no place. Pure. */
must_check bool members_read(const struct members_reply *reply, size_t count, struct bytes *servers,
			     struct members_stray *stray);

struct members;

/* Follows the members of config->upstream_uri's set. What is named must outlive it. */
struct members *members_new(const struct config *config, struct places *places,
			    const atomic_bool *stopping);
void members_free(struct members *members);
/* Looks at the members now, and keeps what is found in the places. Blocking. */
void members_look(struct members *members);
/* For a command that does not stay: looks once, where the configuration has `replica_set`. */
void members_find_once(const struct config *config, struct places *places,
		       const atomic_bool *stopping);
/* Waits, so long at most, until the driver sees a change. */
void members_await_change(struct members *members, int64_t milliseconds);
