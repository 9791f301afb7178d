/* Tests rules/config/config_change.c: what a changed file changes. */
#include "tests/unit/unit.h"

#include "rules/config/config_change.h"
#include "rules/rule/text.h"

#include <stdlib.h>

#define LISTEN "listen: [{address: 'h:1', server: 'h:2'}]\n"
#define RULE(name, threshold, link) \
	"  - {name: " name ", namespace: d." name ", array: a, threshold: " threshold ",\n" \
	"     overflow: {collection: o" name ", link: " link ", array: b}}\n"

static struct config *parse(const char *text)
{
	auto_free char *problems = NULL;
	struct config *config = config_parse("f", bytes_of(text), NULL, &problems);

	cr_assert(config, "%s", problems);
	return config;
}

static void compared(const char *one, const char *other, const char *expected)
{
	struct config *before = parse(one), *after = parse(other);
	struct config_changes changes = {0};
	auto_buffer struct buffer text = {0};

	config_compare(before, after, &changes);
	for (size_t i = 0; i < changes.count; i++)
		text_append(&text, "%s: %s -> %s%s\n", changes.list[i].name,
			    changes.list[i].before ? changes.list[i].before : "none",
			    changes.list[i].after ? changes.list[i].after : "none",
			    changes.list[i].setting->restart ? " (restart)" : "");
	buffer_append(&text, "", 1);
	cr_assert_str_eq((char *)text.data, expected);
	config_changes_fini(&changes);
	config_free(before);
	config_free(after);
}

Test(config_change, equal_files_change_nothing)
{
	compared(LISTEN "rules:\n" RULE("x", "1", "l"), LISTEN "rules:\n" RULE("x", "1", "l"), "");
	compared(LISTEN "limits: {memory: 1GB}\nrules: []\n", LISTEN "rules: []\n", "");
}

Test(config_change, settings_are_named_with_their_values)
{
	compared(LISTEN "workers: 2\nrules: []\n",
		 LISTEN "workers: 3\nlimits: {memory: 2GB, connections_per_address: 5}\n"
			"log: {level: debug}\nadmin: h:3\nrules: []\n",
		 "admin.address: off -> h:3 (restart)\nworkers: 2 -> 3 (restart)\n"
		 "limits.connections_per_address: off -> 5\nlimits.memory: 1GB -> 2GB\n"
		 "log.level: info -> debug\n");
	compared(LISTEN "workers: 1\nrules: []\n",
		 "listen: [{address: 'h:1', server: 'h:9'}, {address: 'h:3', server: 'h:2'}]\n"
		 "workers: 1\nupstream: {uri: 'mongodb://h:2/'}\nrules: []\n",
		 "listen.h:1.server: h:2 -> h:9\nlisten: none -> h:3\n");
}

Test(config_change, a_password_is_not_shown)
{
	compared(LISTEN "workers: 1\nupstream: {uri: 'mongodb://u:one@h:2/'}\nrules: []\n",
		 LISTEN "workers: 1\nupstream: {uri: 'mongodb://u:two@h:2/'}\nrules: []\n",
		 "upstream.uri: mongodb://u:***@h:2/ -> mongodb://u:***@h:2/ (restart)\n");
}

Test(config_change, rules_come_go_and_change_by_name)
{
	compared(LISTEN "rules:\n" RULE("x", "1", "l") RULE("y", "1", "l"),
		 LISTEN "rules:\n" RULE("z", "1", "l") RULE("x", "2", "m"),
		 "rules.x.threshold: 1 -> 2\nrules.x.overflow.link: l -> m\nrules: y -> none\n"
		 "rules: none -> z\n");
}

static void related(const char *one, const char *other, bool finds, bool equals)
{
	struct config *before = parse(one), *after = parse(other);
	const struct rule *first = rule_set_at(before->rules, 0);
	const struct rule *second = rule_set_at(after->rules, 0);

	cr_assert_eq(config_rule_finds(first, second), finds);
	cr_assert_eq(config_rule_equals(first, second), equals);
	config_free(before);
	config_free(after);
}

Test(config_change, a_rule_finds_what_was_split_unless_undo_would_be_needed)
{
	static const char x[] = LISTEN "rules:\n" RULE("x", "1", "l");

	related(x, x, true, true);
	related(x, LISTEN "rules:\n" RULE("x", "2", "l"), true, false);
	related(x, LISTEN "rules:\n" RULE("x", "1", "m"), false, false);
	related(x, LISTEN "rules:\n" RULE("y", "1", "l"), false, false);
}
