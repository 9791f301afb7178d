/* Tests rules/config/variables.c: what stands for ${NAME}. */
#include "tests/unit/unit.h"

#include "rules/config/config.h"

#include <stdlib.h>

#define RULES "rules: []\n"

static const char *find(const char *name)
{
	if (strcmp(name, "HOST") == 0)
		return "db1";
	if (strcmp(name, "PORT") == 0)
		return "27017";
	if (strcmp(name, "SECRET") == 0)
		return "hush";
	if (strcmp(name, "BYTES") == 0)
		return "\xff";
	return strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

static const struct config_world world = {.variable = find, .others_may_read = true};

static struct config *parse(const char *text, char **problems)
{
	return config_parse("f", bytes_of(text), &world, problems);
}

static void bad(const char *text, const char *expected)
{
	auto_free char *problems = NULL;

	cr_assert_null(parse(text, &problems), "accepted:\n%s", text);
	cr_assert_str_eq(problems, expected);
}

Test(variables, stand_in_any_value)
{
	auto_free char *problems = NULL, *printed = NULL;
	struct config *config = parse("listen:\n  - address: 'h:1'\n    server: ${HOST}:${PORT}\n"
				      "workers: ${EMPTY}3\n"
				      "admin: { address: 'h:3', hosts: ['a${EMPTY}', \"b\"] }\n"
				      "upstream:\n  uri: mongodb://me:${SECRET}@${HOST}/\n" RULES,
				      &problems);

	cr_assert(config, "%s", problems);
	cr_assert_str_eq(config->listen[0].server, "db1:27017");
	cr_assert_eq(config->workers, 3);
	cr_assert_str_eq(config->admin.hosts[0], "a");
	cr_assert_str_eq(config->upstream_uri, "mongodb://me:hush@db1/");
	printed = config_print(config);
	cr_assert_null(strstr(printed, "hush"), "%s", printed);
	config_free(config);
}

Test(variables, a_dollar_more_means_the_text_itself)
{
	auto_free char *problems = NULL;
	struct config *config =
		parse("listen: [{address: 'h:1', server: 'h:2'}]\n"
		      "admin:\n  address: h:3\n  token_file: $${HOST}-$HOST\n" RULES,
		      &problems);

	cr_assert(config, "%s", problems);
	cr_assert_str_eq(config->admin.token_file, "${HOST}-$HOST");
	config_free(config);
}

#define LISTEN(server) "listen:\n  - address: h:1\n    server: " server "\n" RULES

Test(variables, mistakes_have_a_place_and_no_value)
{
	bad(LISTEN("${NONE}:1"),
	    "f:3:13: '${NONE}' names a variable that the environment does not "
	    "have: set it, or write '$${' for a plain '${'\n"
	    "f:3:13: 'server' must be host:port or [IPv6]:port, the port from 1 "
	    "to 65535, not '${NONE}:1'\n");
	bad(LISTEN("h:2") "workers: ${BYTES}\n",
	    "f:5:10: '${BYTES}' names a variable whose value is no UTF-8\n"
	    "f:5:10: 'workers' must be a whole number from 0 to 256, not '${BYTES}'\n");
	bad(LISTEN("h:2") "workers: '${'\n",
	    "f:5:10: '${' must be ${NAME} with letters, digits and '_'; write '$${' for a plain "
	    "'${'\n"
	    "f:5:10: 'workers' must be a whole number from 0 to 256, without quotes, not '${'\n");
}
