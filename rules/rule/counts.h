/* Which overflow documents count of an array that was edited in place, and for which positions
 * (docs/internals/spill-protocol.md#how-it-is-read).
 *
 * A position has one value for ever under one name and in one edition, or none: a copy with fewer
 * elements still stands for as many positions as the batch that it replaces. */
#pragma once

#include "rules/rule/state.h"

#define PLACED_FOR_EVER INT64_MAX

/* Conditions that just those overflow documents meet that count: the text of a template, and its
 * fills. What is missing is not above or below anything. */
#define COUNTS_CONDITIONS \
	"'_spill.g': {$in: [@older, @later]}, '_spill.p': {$lt: @positions}, " \
	"$nor: [{'_spill.g': @older, '_spill.p': {$gte: @bound}}, " \
	"{'_spill.e': {$gt: @edition}}, {'_spill.u': {$lte: @edition}}]"
#define COUNTS_FILLS(state) \
	fill_binary("older", (state)->generation), fill_binary("later", (state)->later), \
		fill("positions", (state)->moved), fill("bound", (state)->bound), \
		fill("edition", (state)->edition)

/* What `_spill` of an overflow document says. */
struct placed {
	struct bytes generation; /* g */
	int64_t position;        /* p */
	int64_t first;           /* e: it counts from this edition on */
	int64_t until;           /* u: to before this one */
	int64_t width;           /* w of a copy: for so many positions it stands; -1: it is none */
};

/* False where it is not what Spillway writes. */
must_check bool placed_read(const struct element *field, struct placed *placed);
/* The same of an overflow document. */
must_check bool placed_find(struct bytes document, struct placed *placed);
/* It counts in the state's edition. `state` is that of an array that was edited in place. */
bool placed_counts(const struct placed *placed, const struct state *state);
/* The position behind its last one. `held`: its elements. */
int64_t placed_end(const struct placed *placed, const struct state *state, int64_t held);

/* One overflow document that counts. */
struct counted {
	struct placed placed;
	int64_t held;
	size_t index; /* whose it is, for the caller */
};

/* The array's overflow, piece by piece. */
struct counts {
	const struct state *state;
	const struct counted *later, *older; /* those that are not taken yet */
	const struct counted *split, *end;   /* where the older ones begin, and end */
	int64_t reached;                     /* the position behind what was taken */
};

/* Sorts them, which have to stay. */
void counts_open(struct counts *counts, const struct state *state, struct counted *all,
		 size_t count);

enum counts_step {
	COUNTS_PIECE,
	COUNTS_END,  /* all positions are accounted for */
	COUNTS_HOLE, /* or something that no Spillway writes */
};
/* The next piece: of `*of`, `*take` elements behind the first `*skip`. */
must_check enum counts_step counts_next(struct counts *counts, const struct counted **of,
					int64_t *skip, int64_t *take);
