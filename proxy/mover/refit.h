/* Documents that were spilled under another threshold, or whose batches overlap: the array goes
 * back, and is moved out again as any other that is too long. Its value does not change by it, and
 * while it is to move again, neither do the fields that say that it is one. */
#pragma once

#include "protocol/cursor.h"
#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* Appends as field `name` the filter for documents whose head may not be what the rule says. */
void refit_write_candidates(struct buffer *out, const char *name, const struct rule *rule);
/* False where another Spillway has been given other limits since. */
must_check enum link_result refit_wanted(struct link *link, const struct mover_target *target,
					 bool *wanted);
enum refit {
	REFIT_RESTS,  /* its head is what the rule says, or it has to stay as it is (8 MB) */
	REFIT_FOLDED, /* the array is whole in it: the mover moves what is too long */
	REFIT_BUSY,   /* it changed each time */
};
/* Folds one back, if its head is another than a move would leave it now, or a move would leave it
 * whole. */
must_check enum link_result refit_document(struct link *link, struct mover_target *target,
					   const struct element *id, enum refit *end);
/* The same of an array that was edited in place, and fits into a document again: the next
 * generation has the ordinary form. */
must_check enum link_result refit_edited(struct link *link, struct mover_target *target,
					 const struct element *id, enum refit *end);
/* The same where batches from this position on overlap. They are read right as they are, and
 * an array that is too large to be folded keeps them. */
must_check enum link_result refit_overlapping(struct link *link, struct mover_target *target,
					      const struct element *id, int64_t from,
					      enum refit *end);
