/* What the stages of an aggregate make of documents that may carry a ruled array. */
#pragma once

#include "rules/match/match_inner.h"

/* What a stage makes of documents that may carry a ruled array. */
enum stage_kind {
	STAGE_KEEPS,   /* the same documents, fewer, in another order, or with more in them */
	STAGE_DROPS,   /* other documents, without the array and our names */
	STAGE_BARES,   /* the same documents without the arrays */
	STAGE_CARRIES, /* other documents that carry the array, for which nobody needs it whole */
	STAGE_MIXES,   /* the same, and documents of another collection among them */
	STAGE_REFUSED, /* the match has been refused */
	STAGE_OTHER,   /* it may read or change the array */
	STAGE_SOURCE,  /* has to be the first, and may read the array */
};

/* `joins`: some stage reads a ruled namespace, and is written anew. */
enum stage_kind match_classify_stage(const struct matching *matching, const struct element *stage,
				     bool joins);
/* What becomes of the documents behind the stages that are left: STAGE_DROPS or STAGE_BARES where
 * one of them takes the array away before any other needs it, number *at from here; else
 * STAGE_OTHER. `mixed`: documents of other collections are among them, from which nothing may be
 * taken. The match stays as it is but for STAGE_DROPS and STAGE_BARES. */
enum stage_kind match_follow_stages(const struct matching *matching, struct cursor stages,
				    bool joins, bool mixed, size_t *at);
