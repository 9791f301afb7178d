/* A round: takes one document's tail to its overflow, M0 to M4 of
 * docs/internals/spill-protocol.md#moving, on one link. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

struct metrics;

enum round_end {
	ROUND_REST,    /* nothing is left to be moved */
	ROUND_RETRY,   /* somebody else was there first, or the server refused: after a pause */
	ROUND_GARBAGE, /* overflow documents of dead generations are in the way */
	ROUND_LEFT,    /* never to be moved; counted and logged */
	ROUND_LOST,    /* the link is dead */
};

struct round {
	struct link *link;
	struct mover_target *target;
	struct metrics *metrics;
	uint8_t id_type;
	struct bytes id;         /* as it was asked for: a view */
	uint64_t operation_time; /* read no earlier than this; 0: as it is */
	bool hot;         /* appends go on: M0 should not wait for a snapshot until they pile up */
	int64_t tries;    /* rounds before this one that did not get through */
	int64_t elements; /* out: moved */
	int64_t length;   /* out: elements of the array, all together, when it was read last */
	bool spilled;     /* out: the document has state */
	bool refused;     /* out: the server said no */
	bool overlapped;  /* out: batches may overlap, those from `overlap_from` on */
	int64_t overlap_from;
	bool stored_in_vain; /* out: no cut followed; what is stored may be a dead generation's */
};

must_check enum round_end round_run(struct round *round);
