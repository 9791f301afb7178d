/* Which updates of an array can be done batch by batch, in place
 * (docs/internals/spill-protocol.md#edits-in-place), and what of them a batch gets.
 *
 * mongod evaluates them on a batch as it would on the whole array. Those that take elements out by
 * a condition, or change what `$[]` and `$[name]` stand for, go to each batch. Those that mean one
 * element go to the batch that has it. What needs the order of the whole array is none of these. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

enum place_kind {
	PLACE_EACH,    /* element by element */
	PLACE_AT,      /* {"f.7": ...}: the element at `at` */
	PLACE_FIRST,   /* {$pop: {f: -1}} */
	PLACE_LAST,    /* {$pop: {f: 1}} */
	PLACE_MATCHED, /* {"f.$": ...}: the first one that the filter's condition means */
};

struct place_update {
	enum place_kind kind;
	int64_t at;
	bool removes;            /* elements may go */
	bool all;                /* any batch may change; else one that meets a condition of */
	struct buffer concerned; /* documents, one behind the other; rather too many batches meet
				    them than too few */
	struct buffer filters;   /* the array filters that it names, one behind the other */
	bool dated;              /* $currentDate gives several elements one time: */
	struct element now;      /* the server's, known before anything is written */
};

/* False where it is none. `filters`: the statement's arrayFilters; type 0: none. */
must_check bool place_update_judge(const struct element *update, const struct element *filters,
				   const struct rule *rule, struct place_update *place);
/* Appends the field `name`: the operators on the array, for an overflow document of which the
 * element stands at `at`. */
void place_update_write_batch(struct buffer *out, const char *name, const struct element *update,
			      const struct place_update *place, const struct rule *rule,
			      int64_t at);
/* Appends the field `name`: the update for main; `at`: where the element stands there; -1: not
 * there, so the operators on the array are left out. */
void place_update_write_main(struct buffer *out, const char *name, const struct element *update,
			     const struct place_update *place, const struct rule *rule, int64_t at);
void place_update_fini(struct place_update *place);
