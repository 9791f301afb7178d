/* The operations of the load: as an application writes them, with one array or the pattern by hand.
 */
#ifndef SPILLWAY_TESTS_BENCH_CELEBRITY_ASK_H
#define SPILLWAY_TESTS_BENCH_CELEBRITY_ASK_H

#include "tests/bench/celebrity_draw.h"

#include <mongoc/mongoc.h>

#define FIRST_DAY INT64_C(1577836800000) /* 2020-01-01, in milliseconds */

struct asker {
	mongoc_client_t *client;
	mongoc_collection_t *users;
	mongoc_collection_t *overflow; /* of the pattern by hand; NULL: one long array */
	int32_t threshold;             /* of the pattern by hand; also the size of a batch */
	bool alone;                    /* nobody else pushes at the same time */
};

/* Returns whether the answer was right. Ends the program if there was none. */
bool ask(struct asker *a, const struct operation *o);

bson_t *ask_new_element(int32_t user, int32_t position);

/* The batch, counted from 1, that holds the `count`th follower, counted from 1. */
int32_t ask_batch_number(const struct asker *a, int64_t count);

#endif
