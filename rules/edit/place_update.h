/* Which updates of an array can be done batch by batch, in place
 * (docs/internals/spill-protocol.md#edits-in-place), and what of them a batch gets.
 *
 * mongod evaluates them on each batch as it would on the whole array: they take elements out by a
 * condition, or change elements that `$[]` and `$[name]` stand for. What needs an element's place
 * in the whole array is none of these. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

struct place_update {
	bool removes;            /* elements may go */
	bool all;                /* any batch may change; else one that meets a condition of */
	struct buffer concerned; /* documents, one behind the other; rather too many batches meet
				    them than too few */
	struct buffer update;    /* {u}: the operators on the array, for a batch */
	struct buffer filters;   /* the array filters that these name, one behind the other */
};

/* False where it is none. `filters`: the statement's arrayFilters; type 0: none. */
must_check bool place_update_judge(const struct element *update, const struct element *filters,
				   const struct rule *rule, struct place_update *place);
void place_update_fini(struct place_update *place);
