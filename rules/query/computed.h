/* Fields that a client's pipeline makes under names that clients else don't see.
 *
 * A getMore knows nothing of its cursor's pipeline: it takes such names for Spillway's. So where a
 * pipeline may make one, Spillway adds a last stage that marks each document, and whoever sees the
 * mark takes away nothing else (merge.h). */
#pragma once

#include "rules/rule/rules.h"

enum computed {
	COMPUTED_APART,    /* what comes has no such name but in whole documents */
	COMPUTED_HIDDEN,   /* it may have one: to be marked */
	COMPUTED_UNMARKED, /* the same, but no stage can follow the last one */
};
/* Of a pipeline on the namespace's collection. In doubt it is to be marked. */
enum computed computed_of(struct bytes pipeline, const struct ruled_namespace *namespace);
/* The mark's own name stands in it: what came could not be told from what is marked. */
bool computed_marks(struct bytes pipeline);

/* Appends the stage to the pipeline that is open in `out`. */
void computed_write_mark(struct buffer *out, size_t *place);
