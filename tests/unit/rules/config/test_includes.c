/* Tests rules/config/includes.c: rules in further files, and where their mistakes stand. */
#include "tests/unit/unit.h"

#include "rules/config/config.h"

#include <stdlib.h>

#define HEAD "listen: [{address: 'h:1', server: 'h:2'}]\n"
#define RULE(name, namespace) \
	"  - {name: " name ", namespace: " namespace ", array: a, threshold: 1,\n" \
						     "     overflow: {collection: o" name \
						     ", link: l, array: b}}\n"

static const struct {
	const char *path, *text;
} files[] = {
	{"/etc/spillway/one.yaml", "rules:\n" RULE("one", "d.one")},
	{"/etc/spillway/more/two.yaml", "include: [three.yaml]\nrules:\n" RULE("two", "d.two")},
	{"/etc/spillway/more/three.yaml", "rules:\n" RULE("three", "d.three")},
	{"/etc/spillway/ring.yaml", "include: [ring.yaml]\n"},
	{"/etc/spillway/wrong.yaml", "rules:\n  - {name: x, namespace: d.c, arra: a}\n"},
	{"/etc/spillway/broken.yaml", "rules: [\n"},
	{"/etc/spillway/other.yaml", "\nworkers: 1\n"},
	{"/etc/spillway/twice.yaml", "rules:\n" RULE("main", "d.twice")},
	{"/etc/spillway/empty.yaml", "# nothing\n"},
};

static bool read_file(const char *name, const char *path, struct buffer *content, char **mistake)
{
	(void)name;
	for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
		if (strcmp(path, files[i].path) != 0)
			continue;
		buffer_append(content, files[i].text, strlen(files[i].text));
		return true;
	}
	*mistake = must_strndup("is not there", 12);
	return false;
}

static const struct config_world world = {.read_file = read_file};

static struct config *parse(const char *include, char **problems)
{
	auto_buffer struct buffer text = {0};

	buffer_append(&text, HEAD, strlen(HEAD));
	buffer_append(&text, include, strlen(include));
	buffer_append(&text, "\nrules:\n", 8);
	buffer_append(&text, RULE("main", "d.main"), strlen(RULE("main", "d.main")));
	return config_parse("/etc/spillway/spillway.yaml", buffer_view(&text), &world, problems);
}

static void bad(const char *include, const char *expected)
{
	auto_free char *problems = NULL;

	cr_assert_null(parse(include, &problems), "accepted: %s", include);
	cr_assert(strstr(problems, expected), "%s\nlacks: %s", problems, expected);
}

Test(includes, rules_are_appended_in_the_order_of_the_files)
{
	static const char *const names[] = {"main", "one", "three", "two"};
	auto_free char *problems = NULL, *printed = NULL;
	struct config *config = parse("include: [one.yaml, more/two.yaml, empty.yaml]", &problems);

	cr_assert(config, "%s", problems);
	cr_assert_eq(rule_set_count(config->rules), ARRAY_LENGTH(names));
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		cr_assert_str_eq(rule_set_at(config->rules, i)->name, names[i]);
	cr_assert_str_eq(config->included[1], "/etc/spillway/more/two.yaml");
	printed = config_print(config);
	cr_assert_null(strstr(printed, "include"), "it would have the rules twice:\n%s", printed);
	config_free(config);
}

Test(includes, all_rules_may_be_in_further_files)
{
	auto_free char *problems = NULL;
	struct config *config =
		config_parse("/etc/spillway/spillway.yaml", bytes_of(HEAD "include: [one.yaml]\n"),
			     &world, &problems);

	cr_assert(config, "%s", problems);
	cr_assert_eq(rule_set_count(config->rules), 1);
	config_free(config);
	cr_assert_null(
		config_parse("/etc/spillway/spillway.yaml", bytes_of(HEAD), &world, &problems));
	cr_assert(strstr(problems, "'rules' is missing here"), "%s", problems);
}

Test(includes, a_mistake_names_its_file_and_place)
{
	bad("include: [wrong.yaml]", "/etc/spillway/wrong.yaml:2:31: unknown key 'arra'");
	bad("include: [broken.yaml]", "/etc/spillway/broken.yaml:2:1: not valid YAML");
	bad("include: [other.yaml]", "/etc/spillway/other.yaml:2:1: 'workers' cannot stand in");
	bad("include: [twice.yaml]", "/etc/spillway/twice.yaml:2:");
	bad("include: [gone.yaml]",
	    "spillway.yaml:2:11: 'include' '/etc/spillway/gone.yaml' is not there");
	bad("include: one.yaml", "spillway.yaml:2:10: 'include' must be a list");
}

Test(includes, a_ring_ends)
{
	bad("include: [ring.yaml]", "/etc/spillway/ring.yaml:1:11: 'include' "
				    "'/etc/spillway/ring.yaml': it is included already");
	bad("include: [one.yaml, one.yaml]", "it is included already");
}
