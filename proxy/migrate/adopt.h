/* Adoption: documents that were split by hand in a rule's layout become Spillway's as they are.
 *
 * Each in one transaction: its overflow documents get their `_spill`, and the document gets the
 * state that makes them count. So a reader sees the document's own elements, or all of them; and
 * whatever is killed, it has happened or not. */
#pragma once

#include "proxy/job/job.h"
#include "proxy/job/throttle.h"

#include <stdatomic.h>

/* What migrate keeps: a job's context. */
struct migrating {
	struct throttle throttle;
	_Atomic int64_t
		folded_at; /* when an adopted array went back last, to be moved anew; 0: none */
	bool waited;       /* for reads of before the rule */
	bool adopts;       /* or would; else it only says what it would not adopt */
	bool own_ids;      /* the target's arrays hold elements with an `_id` */
};

/* All that the target's overflow tells of; what can't be taken over is listed. */
must_check enum link_result adopt_all(struct job *job, struct mover_target *target, size_t helpers);
