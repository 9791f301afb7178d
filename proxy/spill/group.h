/* First rounds of several documents, step by step together: each step is one command for all of
 * them, with each document's own guard in it, so that they wait for the disk three times and not
 * three times each. Only documents that have never been moved take part. Whoever a guard, or the
 * server, stops on the way leaves the group, in whatever state: a round of its own (round.h) goes
 * on from there. docs/internals/spill-protocol.md#groups says more. */
#pragma once

#include "proxy/spill/pass.h"

#define GROUP_MOST 32

struct group_member {
	struct element id;      /* a view of what the group was made of */
	struct bytes image;     /* as it was read last; without data: it was not read */
	struct pass_state pass; /* its plan is of the image that was read last */
	struct plan seen;       /* the same plan, whose tail stays where it is */
	bool outlier;           /* it has never been moved, has no overflow, and is to be moved */
	bool in;                /* takes part in the next step */
	bool found;             /* by the last reading */
	bool damaged;           /* what is stored differs from what was cut */
};

struct group {
	struct link *link;
	struct mover_target *target;
	struct round round;
	struct replies images;
	size_t count;
	struct group_member members[GROUP_MOST];
};

/* `ids`: documents {_id}, one behind the other, GROUP_MOST at most. The caller's to free. */
struct group *group_new(struct link *link, struct mover_target *target, struct bytes ids);
void group_free(struct group *group);

/* M0: who is an outlier, and so in. Its plan is of its image. */
must_check enum link_result group_look(struct group *group);
/* M1 to M4. Who is in then has been cut, as far as can be told before it is read again: `stored`
 * elements of its plan's generation, all of its plan's tail. Where the server refuses, nobody is.
 * LINK_DONE, or LINK_LOST. */
must_check enum link_result group_move(struct group *group);

/* Reads the members that are in, if any, majority, no earlier than what the link did. `at_once`:
 * only what fits one reply. */
must_check enum link_result group_read(struct group *group, bool at_once, link_document each,
				       void *context, struct replies *replies);
/* For a place in an array: the _ids of the members that are in. */
struct fill group_fill_ids(const char *name, const struct group *group);
/* Whose _id just this value is; NULL: nobody's. */
struct group_member *group_find(struct group *group, const struct element *id);
