/* Folding an array back into its document: what
 * docs/internals/spill-protocol.md#folding-back says, behind the traffic. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

enum fold {
	FOLD_DONE,      /* the array is whole: there was no state, or it is folded back */
	FOLD_RESTS,     /* FOLD_ANOTHER: a move would leave it as it is */
	FOLD_TOO_LARGE, /* the document would pass 16 MB: it stays as it is */
	FOLD_BROKEN,    /* elements are missing: it stays as it is */
	FOLD_BUSY,      /* it changed each time */
};

/* What becomes of an array that is folded back. */
enum fold_purpose {
	FOLD_BACK,    /* it may be moved out again */
	FOLD_LEAVES,  /* it is left for good */
	FOLD_ANEW,    /* it is moved out again, if a move would */
	FOLD_ANOTHER, /* the same, but only if a move would leave another head than it has */
};

/* What is missing of an array whose loss is accepted: the rest is put together. */
struct fold_loss {
	struct buffer gaps; /* pairs of int64_t: places in the array, from the one to before the
			       other */
	int64_t whole;      /* elements that the array had; -1: it had no state */
	int64_t missing;
};

struct fold_how {
	enum fold_purpose purpose;
	bool looks;             /* only says how it would go */
	size_t most;            /* bytes of the whole document; 0: what the server takes */
	struct fold_loss *loss; /* NULL: all must be there */
};

/* If the array is moved out again (FOLD_ANEW, FOLD_ANOTHER) and a move would do that, the same
 * command brings the generation that follows, and flag, counters and reference stand all the time.
 * `end` and `elements` (how many came back) are set with LINK_DONE alone. */
must_check enum link_result fold_document(struct link *link, struct mover_target *target,
					  const struct element *id, const struct fold_how *how,
					  enum fold *end, int64_t *elements);
