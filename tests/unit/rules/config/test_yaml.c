/* Tests rules/config/yaml.c: the tree of good YAML, and where bad YAML is bad. */
#include "tests/unit/unit.h"

#include "rules/config/yaml.h"

#include <stdlib.h>

static void expect_bytes(struct bytes text, const char *expected)
{
	struct problems problems = {.name = "f"};
	struct yaml_tree tree = {0};
	auto_free char *found = NULL;

	cr_assert_not(yaml_parse(&tree, text, &problems), "accepted: %s", text.data);
	yaml_tree_fini(&tree);
	found = problems_steal(&problems);
	cr_assert_str_eq(found, expected);
}

static void expect(const char *text, const char *expected)
{
	expect_bytes(bytes_of(text), expected);
}

Test(yaml, a_tree_knows_kinds_quotes_and_places)
{
	struct problems problems = {.name = "f"};
	struct yaml_tree tree = {0};
	const struct yaml_node *key, *value;

	cr_assert(yaml_parse(&tree, bytes_of("# c\na: 1\n\"b\":\n  - 'x'\n  - {c: , d}\n"),
			     &problems));
	cr_assert_eq(tree.root->kind, YAML_MAPPING);
	cr_assert_eq(tree.root->count, 4);
	key = tree.root->first;
	cr_assert(bytes_are(key->text, "a"));
	cr_assert(key->at.line == 2 && key->at.column == 1);
	cr_assert(key->plain && key->next->plain);
	cr_assert(key->next->at.line == 2 && key->next->at.column == 4);
	key = key->next->next;
	cr_assert(bytes_are(key->text, "b"));
	cr_assert_not(key->plain);
	cr_assert(key->at.line == 3 && key->at.column == 1);
	value = key->next;
	cr_assert_eq(value->kind, YAML_LIST);
	cr_assert_eq(value->count, 2);
	cr_assert_not(value->first->plain);
	cr_assert(value->first->at.line == 4 && value->first->at.column == 5);
	value = value->last;
	cr_assert_eq(value->count, 4);
	cr_assert(yaml_is_null(value->first->next));
	cr_assert(yaml_is_null(value->last));
	cr_assert_null(value->last->next);
	yaml_tree_fini(&tree);
}

Test(yaml, nothing_but_comments_is_an_empty_tree)
{
	static const char *const texts[] = {"", "\n", "# nothing\n", "---\n"};

	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
		struct problems problems = {.name = "f"};
		struct yaml_tree tree = {0};

		cr_assert(yaml_parse(&tree, bytes_of(texts[i]), &problems));
		cr_assert(!tree.root || yaml_is_null(tree.root), "%s", texts[i]);
		yaml_tree_fini(&tree);
	}
}

Test(yaml, the_first_syntax_error_has_its_place)
{
	expect("a: [1, 2\n", "f:2:1: not valid YAML: flow sequence without a closing bracket\n");
	expect("a: b: c\n",
	       "f:1:5: not valid YAML: invalid nested block mapping on the same line\n");
	expect("a: 1\n\tb: 2\n", "f:2:1: a tab in the indentation; YAML takes only spaces there\n");
	expect("a:\n  - \"x\n",
	       "f:2:6: not valid YAML: double-quoted scalar without closing quote\n");
	expect("a: 1\n}\nb: 2\n]\n",
	       "f:2:1: not valid YAML: flow mapping with invalid extra closing brace\n");
	expect("%YAML 3.0\n---\na: 1\n", "f:1:1: this is not YAML 1.2\n");
}

#define NO_TEXT " starts no character of a text file; it must be UTF-8 without control characters\n"

Test(yaml, bytes_that_are_no_text_have_their_place)
{
	expect("a: 1\nb\303\244: \377\n", "f:2:5: the byte 0xff" NO_TEXT);
	expect("a: \303", "f:1:4: the byte 0xc3" NO_TEXT);
	expect("a: \001\n", "f:1:4: the byte 0x01" NO_TEXT);
	expect("a: \"\342\200\250\"\n", "f:1:5: the byte 0xe2" NO_TEXT);
	expect("a: \302\205\n", "f:1:4: the byte 0xc2" NO_TEXT);
	expect_bytes((struct bytes){(const uint8_t *)"a: x\0y", 6}, "f:1:5: the byte 0x00" NO_TEXT);
	expect("a: \"\\ud800\"\n",
	       "f:1:5: not valid YAML: double-quoted scalar has invalid UTF8 escape\n");
}

Test(yaml, what_is_not_allowed_is_named_each_time)
{
	expect("a: &x 1\nb: *x\nc: !!str 5\n",
	       "f:1:4: anchors ('&') are not allowed; write the value out where it is needed\n"
	       "f:2:4: aliases are not allowed; put a name that begins with '*' in quotes\n"
	       "f:3:4: tags ('!') are not allowed; put a value in quotes to make it a string\n");
	expect("a: &x {}\nb: !y []\n<<: {}\n",
	       "f:1:4: anchors ('&') are not allowed; write the value out where it is needed\n"
	       "f:2:4: tags ('!') are not allowed; put a value in quotes to make it a string\n"
	       "f:3:1: merge keys ('<<') are not allowed\n");
	expect("? [a]\n: 1\n", "f:1:3: a key must be a single word, not a collection\n");
	expect("%YAML 1.1\n---\na: 1\n", "f:2:1: the file says YAML 1.1; only 1.2 is read\n");
	expect("a: 1\n---\nb: *\n", "f:2:1: a second document starts here; only one is allowed\n");
}

Test(yaml, nesting_is_bounded)
{
	char text[64];

	memset(text, '[', 33);
	text[33] = '\0';
	expect(text, "f:1:33: nested more than 32 deep\n");
}

Test(yaml, a_large_flat_file_is_read_in_linear_time)
{
	enum { PAIRS = 20000 };
	struct problems problems = {.name = "f"};
	struct yaml_tree tree = {0};
	char *text = must_malloc(5 * PAIRS + 1);

	for (size_t i = 0; i < PAIRS; i++)
		memcpy(text + 5 * i, "a: b\n", 6);
	cr_assert(yaml_parse(&tree, bytes_of(text), &problems));
	cr_assert_eq(tree.root->count, 2 * PAIRS);
	yaml_tree_fini(&tree);
	free(text);
}
