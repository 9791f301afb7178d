/* Tests rules/rule/overflow_names.c: conditions on the names of collections that are not listed. */
#include "tests/unit/wire_make.h"

#include "protocol/writer.h"
#include "rules/config/config.h"
#include "rules/rule/overflow_names.h"

#define OVERFLOW(name) "overflow: { collection: '" name "', link: of, array: more } }\n"
#define RULE(name, namespace) \
	"  - { name: " name ", namespace: '" namespace "', array: f, threshold: 2, "
#define RULES \
	"listen: [{ address: '127.0.0.1:1', server: '127.0.0.1:2' }]\n" \
	"rules:\n" RULE("one", "shop.books") OVERFLOW("books+1") RULE("two", "shop.t_*") OVERFLOW( \
		"{collection} (tails)") RULE("all", "more.*") OVERFLOW("tails.{collection}") \
		RULE("seen", "shop.seen") "overflow: { collection: seen_more, link: of, array: " \
					  "more, listed: true } }\n"

static struct config *config;

static void open_rules(void)
{
	auto_free char *problems = NULL;

	config = config_parse("f", bytes_of(RULES), NULL, &problems);
	cr_assert(config, "%s", problems);
}

static bool hides(const char *database, const char *collection)
{
	return overflow_names_hide(config->rules, bytes_of(database), bytes_of(collection));
}

Test(overflow_names, only_overflow_collections_of_rules_that_do_not_list_them_are_hidden)
{
	open_rules();
	cr_assert(hides("shop", "books+1"));
	cr_assert(hides("shop", "t_5 (tails)"));
	cr_assert(hides("tails", "any"));
	cr_assert_not(hides("tails", "system.views"));
	cr_assert_not(hides("shop", "books"));
	cr_assert_not(hides("shop", "seen_more"));
	cr_assert_not(hides("shop", "u_5 (tails)"));
	cr_assert(overflow_names_any(config->rules, bytes_of("shop")));
	cr_assert(overflow_names_any(config->rules, bytes_of("tails")));
	cr_assert_not(overflow_names_any(config->rules, bytes_of("more")));
	cr_assert_not(overflow_names_any(config->rules, bytes_of("admin")));
	config_free(config);
}

/* The text at the path in the conditions. */
static void expect_text(const char *database, const char *path, const char *expected)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), list = writer_open_array(&out, "list"), place = 0;
	struct element conditions;
	struct bytes text;

	overflow_names_splice(&out, &place, config->rules, bytes_of(database));
	cr_assert_eq(place, 2);
	writer_close(&out, list);
	writer_close(&out, start);
	cr_assert(document_find(buffer_view(&out), "list", &conditions));
	cr_assert(document_find_string(conditions.value, path, &text), "%s", path);
	cr_assert(bytes_are(text, expected), "%.*s", (int)text.length, (const char *)text.data);
}

Test(overflow_names, patterns_become_regular_expressions)
{
	open_rules();
	expect_text("shop", "0.type", "collection");
	expect_text("shop", "1.type", "collection");
	expect_text("shop", "1.name.$regex", "\\A(?!system\\.)t\\_.*\\ \\(tails\\)\\z");
	expect_text("shop", "1.name.$options", "s");
	expect_text("tails", "1.name.$regex", "\\A(?!system\\.).*\\z");
	config_free(config);
}

/* The regular expression in condition `number` on this field, the `place`th one of its $or. */
static void expect_other(struct bytes conditions, const char *number, const char *place,
			 const char *field, const char *expected)
{
	const char *const names[] = {number, "$or", place, field, "$not"};
	struct bytes text, at = conditions;
	struct element inner;

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		cr_assert(document_find(at, names[i], &inner), "%s", names[i]);
		at = inner.value;
	}
	cr_assert(document_find_string(at, "$regex", &text));
	cr_assert(bytes_are(text, expected), "%.*s", (int)text.length, (const char *)text.data);
}

Test(overflow_names, events_of_overflow_fail_a_condition)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), place = 0;

	open_rules();
	overflow_names_splice_events(&out, &place, config->rules);
	writer_close(&out, start);
	cr_assert_eq(place, 4);
	expect_other(buffer_view(&out), "0", "0", "ns.db", "\\A(?!system\\.)shop\\z");
	expect_other(buffer_view(&out), "0", "1", "ns.coll", "\\A(?!system\\.)books\\+1\\z");
	expect_other(buffer_view(&out), "2", "0", "ns.db", "\\A(?!system\\.)tails\\z");
	expect_other(buffer_view(&out), "2", "1", "ns.coll", "\\A(?!system\\.).*\\z");
	expect_other(buffer_view(&out), "3", "1", "ns.coll", "\\A(?!system\\.)seen\\_more\\z");
	config_free(config);
}
