/*
 * Ruled namespaces made by hand, and BSON from JSON, for the tests of what commands do with them.
 */
#ifndef TESTS_UNIT_RULED_H
#define TESTS_UNIT_RULED_H

#include <bson/bson.h>

#include "tests/unit/unit.h"

#include "rules/rule/rules.h"

/* The rule on `tags`, with everything a rule can have; its names are hidden. */
static struct rule ruled_tags = {
	.name = (char *)"tags",
	.array = (char *)"tags",
	.key = (char *)"tags",
	.threshold = 3,
	.max_bytes = 200,
	.fold_limit = 16 << 20,
	.flag = {.field = (char *)"big"},
	.counters = {.total = (char *)"count.tags", .documents = (char *)"count.parts"},
	.reference = {.field = (char *)"ref"},
};

/* On a path; its flag goes back to false and is shown, its counter is the application's. */
static struct rule ruled_path = {
	.name = (char *)"path",
	.array = (char *)"a.b",
	.key = (char *)"a/b",
	.threshold = 3,
	.max_bytes = 200,
	.fold_limit = 16 << 20,
	.flag = {.field = (char *)"long",
		 .otherwise = {.type = 0x08, .value = {(const uint8_t *)"", 1}}},
	.counters = {.total = (char *)"total", .owned_by_app = true},
	.expose = {.flag = true},
};

static struct target ruled_targets[] = {{.rule = &ruled_tags}, {.rule = &ruled_path}};

static const struct ruled_namespace ruled_by_tags = {
	.target_count = 1,
	.targets = &ruled_targets[0],
};
static const struct ruled_namespace ruled_by_path = {
	.target_count = 1,
	.targets = &ruled_targets[1],
};
static const struct ruled_namespace ruled_by_both = {
	.target_count = 2,
	.targets = &ruled_targets[0],
};

/* Free with bson_destroy. */
static inline bson_t *ruled_json(const char *json)
{
	bson_error_t error;
	bson_t *document = bson_new_from_json((const uint8_t *)json, -1, &error);

	cr_assert_not_null(document, "%s: %s", json, error.message);
	return document;
}

static inline struct bytes ruled_bytes(const bson_t *document)
{
	return (struct bytes){bson_get_data(document), document->len};
}

#endif
