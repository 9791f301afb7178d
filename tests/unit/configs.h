/* Configurations as texts, for the tests of what is read and what is refused. */
#ifndef TESTS_UNIT_CONFIGS_H
#define TESTS_UNIT_CONFIGS_H

#include "tests/unit/unit.h"

#include "rules/config/config.h"
#include "rules/rule/text.h"

static const struct config_world nothing;

static inline struct config *good(const char *text, const struct config_world *world)
{
	auto_free char *problems = NULL;
	struct config *config = config_parse("f", bytes_of(text), world, &problems);

	cr_assert(config, "refused:\n%s\n%s", text, problems);
	return config;
}

static inline void bad(const char *text, const struct config_world *world, const char *expected)
{
	auto_free char *problems = NULL;

	cr_assert_null(config_parse("f", bytes_of(text), world, &problems), "accepted:\n%s", text);
	cr_assert_str_eq(problems, expected);
}

#endif
