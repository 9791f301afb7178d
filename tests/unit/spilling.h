/*
 * Rules and their collection, for the tests of what the mover sends.
 */
#ifndef TESTS_UNIT_SPILLING_H
#define TESTS_UNIT_SPILLING_H

#include "tests/unit/scripted.h"

#include "proxy/upstream/target.h"

#define BINARY(base64) "{'$binary': {'base64': '" base64 "', 'subType': '00'}}"
#define G BINARY("AAAAAAAAAAAAAAAAAAAAAA==")
#define LONG(number) "{'$numberLong': '" #number "'}"
#define S(h, n) "'_spill': {'f': {'g': " G ", 'h': " LONG(h) ", 'n': " LONG(n) "}}"

static struct rule plain_rule __attribute__((unused)) = {
	.name = (char *)"plain",
	.array = (char *)"f",
	.key = (char *)"f",
	.threshold = 3,
	.max_bytes = 1000,
	.fold_limit = 16 << 20,
	.overflow = {.link = (char *)"of",
		     .array = (char *)"more",
		     .batch_size = 2,
		     .batch_max_bytes = 500},
};

/* On a path, with everything that a rule can have. */
static struct rule full_rule __attribute__((unused)) = {
	.name = (char *)"full",
	.array = (char *)"a.f",
	.key = (char *)"a/f",
	.threshold = 3,
	.max_bytes = 1000,
	.fold_limit = 16 << 20,
	.flag = {.field = (char *)"big",
		 .value = {.type = BSON_BYTE_BOOL, .value = {(const uint8_t *)"\1", 1}},
		 .otherwise = {.type = BSON_BYTE_BOOL, .value = {(const uint8_t *)"", 1}}},
	.counters = {.total = (char *)"total", .documents = (char *)"parts"},
	.reference = {.field = (char *)"ref", .format = (char *)"more/{_id}.x"},
	.overflow = {.link = (char *)"of",
		     .array = (char *)"more",
		     .batch_field = (char *)"number",
		     .batch_size = 2,
		     .batch_max_bytes = 500,
		     .created = (char *)"at"},
};

/* An outlier's array is emptied; each element has a document of its own. */
static struct rule elements_rule __attribute__((unused)) = {
	.name = (char *)"elements",
	.array = (char *)"f",
	.key = (char *)"f",
	.threshold = 3,
	.max_bytes = 1000,
	.fold_limit = 16 << 20,
	.when_outlier = RULE_EMPTY,
	.overflow = {.layout = RULE_ELEMENTS, .link = (char *)"of", .batch_size = 1},
};

static inline struct mover_target spilling_target(const struct rule *rule)
{
	return (struct mover_target){.rule = rule,
				     .database = (char *)"shop",
				     .collection = (char *)"books",
				     .overflow_database = (char *)"more",
				     .overflow_collection = (char *)"books_more",
				     .stored.uuid = {1, 2}};
}

#endif
