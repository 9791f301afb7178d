/* Several arrays folded back step by step together: each step is one command for all of them, with
 * each document's own guard in it. Who does not get through is left for a look of its own.
 *
 *   I0  the documents, as many as one reply holds
 *   I1  their overflow, judged as `verify` judges it
 *   I2  one command with an update for each */
#pragma once

#include "proxy/job/job.h"
#include "proxy/spill/gathering.h"

#define UNDO_GROUP_MOST 32

struct undo_member {
	struct element id; /* a view of what the group was made of */
	bool done;         /* it is folded back */
	int64_t elements;  /* that came back */
};

struct undo_group {
	size_t count;
	struct undo_member members[UNDO_GROUP_MOST];
};

/* `ids`: documents {_id}, one behind the other, UNDO_GROUP_MOST at most. What the server refuses is
 * done for nobody: LINK_DONE, or LINK_LOST. */
must_check enum link_result undo_group_fold(struct link *link, struct mover_target *target,
					    struct bytes ids, struct undo_group *group);
