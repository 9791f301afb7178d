/* A document that was split by hand, beside its overflow: may it be taken over as it is? No server:
 * it is handed the images.
 *
 * It may where there is one order only that its elements can have had, the document's own and then
 * those of batch 1, 2, 3 (of documents of one element each: as adopt_order.h has them), and where
 * nothing says that some are missing or stand twice. */
#pragma once

#include "proxy/migrate/adopt_copies.h"
#include "proxy/migrate/adopt_order.h"
#include "proxy/spill/plan.h"

#define ADOPT_WHY_SIZE 200
#define ADOPT_BATCHES_MAX 10000   /* of one transaction */
#define ADOPT_ELEMENTS_MAX 200000 /* documents of one element each */
#define ADOPT_BYTES_MAX 47000000  /* a reply carries 48,000,000 */

struct adopt_split {
	const struct rule *rule;
	struct bytes main; /* a view */
	struct plan plan;
	struct element flag;      /* of the document; type 0 where the rule has none */
	struct buffer batches;    /* documents {_id, number, held}, in their order */
	struct adopt_order order; /* layout elements: instead of these */
	struct buffer scratch;
	uint64_t seal; /* the same for the same documents, in whatever order they come */
	int64_t count;
	int64_t elements;   /* that they hold together */
	int64_t others;     /* documents beside them that have a `_spill` */
	int64_t bytes;      /* of all arrays */
	int64_t first_size; /* bytes of the overflow's first element */
	bool counted;       /* a counter of the application's agrees */
	bool totalled;      /* the counter of elements does */
	struct adopt_copies copies;
	char why[ADOPT_WHY_SIZE]; /* it may not be; empty: it may */
};

void adopt_split_init(struct adopt_split *split, const struct rule *rule, struct bytes main);
/* Its overflow documents, in the order of their numbers where they have any. */
void adopt_split_batch(struct adopt_split *split, struct bytes batch);
/* Behind the last one. Where `count` is 0 then there is nothing to take over. */
void adopt_split_end(struct adopt_split *split);
void adopt_split_fini(struct adopt_split *split);

uint64_t adopt_seal(struct bytes batch);

/* The flag says that the document is an outlier: by the rule's value, or, where that is true or
 * "true", by the other of the two. */
bool adopt_flag_stands(const struct rule *rule, struct bytes main, struct element *flag);
