/* Folding an array back into its document: INFLATE of the spill protocol (section 2), behind the
 * traffic. */
#pragma once

#include "proxy/job/job.h"

enum fold {
	FOLD_DONE,      /* the array is whole: there was no state, or it is folded back */
	FOLD_RESTS,     /* FOLD_ANOTHER: a move would leave it as it is */
	FOLD_TOO_LARGE, /* the document would pass 16 MB: it stays as it is */
	FOLD_BROKEN,    /* elements are missing: it stays as it is */
	FOLD_BUSY,      /* it changed each time */
};

/* Where it is moved out again (FOLD_ANEW, FOLD_ANOTHER) and a move would do that, the same command
 * brings the generation that follows, and flag, counters and reference stand all the time.
 * Without `writes` it only says how it would go. Only where LINK_DONE comes back, `end` does;
 * `elements`: how many came back. */
must_check enum link_result fold_document(struct job *job, struct mover_target *target,
					  const struct element *id, bool writes, enum fold *end,
					  int64_t *elements);
