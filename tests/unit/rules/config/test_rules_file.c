/* Tests rules/config/rules_file.c and rules/config/rules_check.c: good rules, and each mistake with
 * its line and column. */
#include "tests/unit/unit.h"

#include "rules/config/config.h"
#include "rules/rule/text.h"

#include <stdio.h>
#include <time.h>

/* A good file, line by line; cases replace one of its parts. */
#define HEAD "listen: [{ address: '127.0.0.1:1', server: '127.0.0.1:2' }]\nrules:\n" /* 1, 2 */
#define NAME "  - name: one\n"                                                       /* 3 */
#define NAMESPACE "    namespace: shop.sales\n"                                      /* 4 */
#define ARRAY "    array: tags\n"                                                    /* 5 */
#define THRESHOLD "    threshold: 3\n"                                               /* 6 */
#define OVERFLOW "    overflow: { layout: batches, link: of, array: more }\n"        /* 7 */
#define RULE NAME NAMESPACE ARRAY THRESHOLD OVERFLOW

/* One rule in five lines; the first stands in lines 3 to 7, the second in 8 to 12. */
#define RULE_OF(name, namespace, array, extra, overflow) \
	"  - name: " name \
	"\n    namespace: " namespace "\n    array: " array "\n    threshold: 3" extra \
				      "\n    overflow: { " overflow \
				      "layout: batches, link: of, array: more }\n"

struct bad {
	const char *text;
	const char *line; /* LINE:COLUMN: and how the message begins */
};

static struct config *parse(const char *text, char **problems)
{
	return config_parse("f", bytes_of(text), NULL, problems);
}

/* Each file has just one mistake. */
static void expect(const struct bad *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		auto_free char *problems = NULL;
		struct config *config = parse(cases[i].text, &problems);
		size_t length = strlen(cases[i].line);

		cr_assert_null(config, "accepted:\n%s", cases[i].text);
		cr_assert_eq(strncmp(problems, "f:", 2), 0);
		cr_assert_eq(strncmp(problems + 2, cases[i].line, length), 0,
			     "expected f:%s\n     got %s", cases[i].line, problems);
		cr_assert_eq(strchr(problems, '\n') + 1, problems + strlen(problems),
			     "one line expected, got:\n%s", problems);
	}
}

static struct config *good(const char *text)
{
	auto_free char *problems = NULL;
	struct config *config = parse(text, &problems);

	cr_assert(config, "refused:\n%s\n%s", text, problems);
	return config;
}

static void accept(const char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		config_free(good(texts[i]));
}

#define EXPECT(...) \
	do { \
		static const struct bad cases[] = {__VA_ARGS__}; \
		expect(cases, ARRAY_LENGTH(cases)); \
	} while (0)

#define ACCEPT(...) \
	do { \
		static const char *const texts[] = {__VA_ARGS__}; \
		accept(texts, ARRAY_LENGTH(texts)); \
	} while (0)

Test(rules_file, a_good_rule_is_good)
{
	ACCEPT(HEAD RULE);
}

Test(rules_file, keys)
{
	EXPECT({HEAD NAME NAMESPACE ARRAY "    treshold: 3\n" THRESHOLD OVERFLOW,
		"6:5: unknown key 'treshold'; did you mean 'threshold'?"},
	       {HEAD RULE "    maxBytes: 3\n",
		"8:5: unknown key 'maxBytes'; did you mean 'max_bytes'?"},
	       {HEAD RULE "    array: b\n",
		"8:5: 'array' stands here a second time; it is already in line 5"},
	       {HEAD "  - 5\n", "3:5: keys with values must stand here: name, ..."},
	       {HEAD "  - []\n", "3:5: keys with values must stand here: name, ..."},
	       {HEAD "    x: 1\n", "3:5: 'rules' must be a list"},
	       {HEAD NAME NAMESPACE ARRAY THRESHOLD
		"    overflow: { layout: batches, link: of, array: more, indices: [] }\n",
		"7:57: unknown key 'indices'; did you mean 'indexes'?"},
	       {HEAD RULE "    flag: { field: a, value: 1, other: 2 }\n",
		"8:33: unknown key 'other'; did you mean 'otherwise'?"});
}

Test(rules_file, what_has_no_default_is_required)
{
	EXPECT({HEAD "  - namespace: shop.sales\n" ARRAY THRESHOLD OVERFLOW,
		"3:5: 'name' is missing here"},
	       {HEAD NAME ARRAY THRESHOLD OVERFLOW, "3:5: 'namespace' is missing here"},
	       {HEAD NAME NAMESPACE THRESHOLD OVERFLOW, "3:5: 'array' is missing here"},
	       {HEAD NAME NAMESPACE ARRAY OVERFLOW, "3:5: 'threshold' is missing here"},
	       {HEAD NAME NAMESPACE ARRAY THRESHOLD, "3:5: 'overflow' is missing here"},
	       {HEAD NAME NAMESPACE ARRAY THRESHOLD
		"    overflow:\n      layout: batches\n      array: b\n",
		"8:7: 'link' is missing here"},
	       {HEAD NAME NAMESPACE ARRAY THRESHOLD "    overflow: { link: a, layout: batches }\n",
		"7:15: 'array' is missing here"},
	       {HEAD NAME NAMESPACE ARRAY THRESHOLD
		"    overflow: { link: a, array: b, layout: pages }\n",
		"7:44: 'layout' must be 'batches' or 'elements', not 'pages'"},
	       {HEAD RULE "    flag: { value: 1 }\n", "8:11: 'field' is missing here"},
	       {HEAD RULE "    flag: { field: a }\n", "8:11: 'value' is missing here"});
}

Test(rules_file, values_of_the_wrong_kind)
{
	EXPECT({HEAD NAME NAMESPACE "    array:\n" THRESHOLD OVERFLOW, "5:5: 'array' has no value"},
	       {HEAD NAME NAMESPACE "    array: ~\n" THRESHOLD OVERFLOW,
		"5:12: 'array' has no value"},
	       {HEAD NAME NAMESPACE "    array: [a]\n" THRESHOLD OVERFLOW,
		"5:12: 'array' must be a single value"},
	       {HEAD NAME NAMESPACE "    array: ''\n" THRESHOLD OVERFLOW, "5:12: 'array' is empty"},
	       {HEAD NAME NAMESPACE "    array: \"a\\0b\"\n" THRESHOLD OVERFLOW,
		"5:12: 'array' must be without control characters"},
	       {HEAD NAME NAMESPACE ARRAY "    threshold: 1.5\n" OVERFLOW,
		"6:16: 'threshold' must be a whole number from 0 to 1000000000, not '1.5'"},
	       {HEAD NAME NAMESPACE ARRAY "    threshold: \"50\"\n" OVERFLOW,
		"6:16: 'threshold' must be a whole number from 0 to 1000000000, without quotes, "
		"not '50'"},
	       {HEAD NAME NAMESPACE ARRAY "    threshold: -1\n" OVERFLOW,
		"6:16: 'threshold' must be a whole number from 0 to"},
	       {HEAD NAME NAMESPACE ARRAY "    threshold: 99999999999999999999\n" OVERFLOW,
		"6:16: 'threshold' must be a whole number from 0 to"},
	       {HEAD RULE "    access: none\n",
		"8:13: 'access' must be 'full' or 'read-only', not 'none'"},
	       {HEAD RULE "    damaged: hide\n",
		"8:14: 'damaged' must be 'fail' or 'skip', not 'hide'"},
	       {HEAD RULE "    change_streams: all\n",
		"8:21: 'change_streams' must be 'exact', 'as_stored' or 'refuse', not 'all'"},
	       {HEAD NAME NAMESPACE ARRAY THRESHOLD
		"    overflow: { link: of, array: more, listed: 1 }\n",
		"7:48: 'listed' must be 'false' or 'true', not '1'"},
	       {HEAD RULE "    when_outlier: drop\n",
		"8:19: 'when_outlier' must be 'keep' or 'empty', not 'drop'"},
	       {HEAD RULE "    gather: 0\n", "8:13: 'gather' must be a whole number from 1 to"},
	       {HEAD RULE "    flag: yes\n", "8:11: keys with values must stand here: field, ..."},
	       {HEAD RULE "    expose: flag\n", "8:13: 'expose' must be a list"});
}

Test(rules_file, units)
{
	EXPECT({HEAD RULE "    settle: 5\n",
		"8:13: 'settle' needs a unit: ms, s, m or h, as in 5s"},
	       {HEAD RULE "    gc_delay: 0\n",
		"8:15: 'gc_delay' needs a unit: ms, s, m or h, as in 0s"},
	       {HEAD RULE "    quiet: 5 s\n",
		"8:12: 'quiet' must be a whole number of ms, s, m or h, as in 10s, not '5 s'"},
	       {HEAD RULE "    quiet: 1.5s\n", "8:12: 'quiet' must be a whole number of ms"},
	       {HEAD RULE "    quiet: -1s\n", "8:12: 'quiet' must be a whole number of ms"},
	       {HEAD RULE "    quiet: 1d\n", "8:12: 'quiet' must be a whole number of ms"},
	       {HEAD RULE "    quiet: 61m\n", "8:12: 'quiet' must be from 0s to 1h, not '61m'"},
	       {HEAD RULE "    sweep: 0s\n",
		"8:12: 'sweep' must be from 1ms to 720h, or off, not '0s'"},
	       {HEAD RULE "    sweep: on\n", "8:12: 'sweep' must be a whole number of ms"},
	       {HEAD RULE "    max_bytes: 1mb\n",
		"8:16: 'max_bytes' must be a whole number of B, KB, MB or GB, as in 1MB, not "
		"'1mb'"},
	       {HEAD RULE "    max_bytes: 0\n",
		"8:16: 'max_bytes' must be from 1B to 15MB, not '0'"},
	       {HEAD RULE "    max_bytes: 16MB\n",
		"8:16: 'max_bytes' must be from 1B to 15MB, not '16MB'"},
	       {HEAD RULE "    max_bytes: 99999999999999999999GB\n",
		"8:16: 'max_bytes' must be from 1B to 15MB"});
}

Test(rules_file, units_and_bounds_that_are_allowed)
{
	ACCEPT(HEAD RULE "    settle: 0s\n    quiet: 60m\n    gc_delay: 0ms\n    sweep: off\n",
	       HEAD RULE "    max_bytes: 15MB\n    sweep: 720h\n    gather: 1000000\n",
	       HEAD RULE "    max_bytes: 1B\n    settle: '250ms'\n", HEAD RULE "    access: full\n",
	       HEAD RULE "    access: read-only\n", HEAD RULE "    change_streams: exact\n",
	       HEAD RULE "    change_streams: as_stored\n",
	       HEAD NAME NAMESPACE ARRAY "    threshold: 0\n" OVERFLOW);
}

Test(rules_file, names)
{
	EXPECT({HEAD "  - name: my rule\n" NAMESPACE ARRAY THRESHOLD OVERFLOW,
		"3:11: 'name' must be up to 64 letters, digits, '.', '_' and '-', not 'my rule'"},
	       {HEAD RULE RULE_OF("one", "shop.books", "tags", "", ""),
		"8:11: the name 'one' is taken by the rule in line 3"});
}

Test(rules_file, namespaces)
{
	EXPECT({HEAD RULE_OF("one", "sales", "tags", "", ""),
		"4:16: 'namespace' must be database.collection, not 'sales'"},
	       {HEAD RULE_OF("one", "shop.", "tags", "", ""),
		"4:16: 'namespace' 'shop.' has an empty part"},
	       {HEAD RULE_OF("one", ".sales", "tags", "", ""),
		"4:16: 'namespace' '.sales' has an empty part"},
	       {HEAD RULE_OF("one", "admin.sales", "tags", "", ""),
		"4:16: 'namespace' 'admin.sales' is in a database of the server's"},
	       {HEAD RULE_OF("one", "local.sales", "tags", "", ""), "4:16: 'namespace' 'local"},
	       {HEAD RULE_OF("one", "config.sales", "tags", "", ""), "4:16: 'namespace' 'config"},
	       {HEAD RULE_OF("one", "spillway.rules", "tags", "", ""), "4:16: 'namespace' 'spill"},
	       {HEAD RULE_OF("one", "shop.system.views", "tags", "", ""),
		"4:16: 'namespace' 'shop.system.views' is one of the server's own collections"},
	       {HEAD RULE_OF("one", "sh/op.sales", "tags", "", ""),
		"4:16: 'namespace' 'sh/op.sales' has a character that"},
	       {HEAD RULE_OF("one", "shop.sa$les", "tags", "", ""), "4:16: 'namespace' 'shop.sa$"},
	       {HEAD RULE_OF("one",
			     "d123456789012345678901234567890123456789012345678901234567890123.a",
			     "tags", "", ""),
		"4:16: 'namespace' "
		"'d123456789012345678901234567890123456789012345678901234567890123.a' "
		"is longer than the server allows"});
	ACCEPT(HEAD RULE_OF("one", "shop.sales.of.2026", "tags", "", ""),
	       HEAD RULE_OF("one", "tenant_*.posts", "tags", "", ""),
	       HEAD RULE_OF("one", "'*.*'", "tags", "", ""));
}

Test(rules_file, array_paths)
{
	EXPECT({HEAD RULE_OF("one", "a.b", "a..b", "", ""),
		"5:12: 'array' 'a..b' has an empty part"},
	       {HEAD RULE_OF("one", "a.b", ".a", "", ""), "5:12: 'array' '.a' has an empty part"},
	       {HEAD RULE_OF("one", "a.b", "a.", "", ""), "5:12: 'array' 'a.' has an empty part"},
	       {HEAD RULE_OF("one", "a.b", "a.$[]", "", ""),
		"5:12: 'array' 'a.$[]' has a '$' in it"},
	       {HEAD RULE_OF("one", "a.b", "a.0.b", "", ""),
		"5:12: 'array' 'a.0.b' has a number as a part: a path through an array"},
	       {HEAD RULE_OF("one", "a.b", "17", "", ""), "5:12: 'array' '17' has a number"},
	       {HEAD RULE_OF("one", "a.b", "_id.x", "", ""), "5:12: 'array' '_id.x' is in '_id'"},
	       {HEAD RULE_OF("one", "a.b", "_spill", "", ""),
		"5:12: 'array' '_spill' is in '_spill'"});
	ACCEPT(HEAD RULE_OF("one", "a.b", "a._id.b2.3c", "", ""));
}

#define PARTS "a234567890a234567890.a23456789a.a2345678"
#define LONGEST PARTS PARTS PARTS PARTS PARTS PARTS PARTS PARTS PARTS PARTS PARTS PARTS

Test(rules_file, a_path_has_to_leave_room_for_the_names_of_the_states_fields)
{
	EXPECT({HEAD RULE_OF("one", "a.b", LONGEST "a", "", "collection: c, "),
		"5:12: 'array' is a path of 481 bytes, 480 are the most"});
	ACCEPT(HEAD RULE_OF("one", "a.b", LONGEST, "", "collection: c, "));
}

Test(rules_file, two_rules_on_one_namespace)
{
	EXPECT({HEAD RULE RULE_OF("two", "shop.sales", "tags", "", "collection: c, "),
		"10:12: 'tags' is the array of the rule 'one' in line 3"},
	       {HEAD RULE RULE_OF("two", "shop.sales", "tags.x", "", ""),
		"10:12: 'tags.x' lies in the array of the rule 'one' in line 3"},
	       {HEAD RULE_OF("one", "shop.*", "a.b.c", "", "")
			RULE_OF("two", "'*.sales'", "a.b", "", ""),
		"10:12: 'a.b' holds the array of the rule 'one' in line 3"},
	       {HEAD RULE_OF("one", "shop.sales", "a.b", "", "")
			RULE_OF("two", "shop.sales", "a/b", "", ""),
		"10:12: 'a/b' and 'a.b' of the rule 'one' would be one key in '_spill'"},
	       {HEAD RULE_OF("one", "shop.sales", "a", "\n    flag: { field: b, value: 1 }", "")
			RULE_OF("two", "shop.sales", "b.c", "", ""),
		"7:20: the flag's field 'b' is or holds the array of the rule 'two' in line 9"},
	       {HEAD RULE_OF("one", "shop.sales", "b.c", "", "")
			RULE_OF("two", "shop.sales", "a", "\n    flag: { field: b, value: 1 }", ""),
		"12:20: the flag's field 'b' is or holds the array of the rule 'one' in line 3"},
	       {HEAD RULE_OF("one", "shop.sales", "a", "\n    flag: { field: f, value: 1 }", "")
			RULE_OF("two", "shop.s*", "b", "\n    flag: { field: f, value: 1 }", ""),
		"13:20: the flag's field 'f' is the flag of the rule 'one' in line 3, too"});
	ACCEPT(HEAD RULE RULE_OF("two", "shop.sales", "tagsx", "", ""),
	       HEAD RULE RULE_OF("two", "shop.books", "tags", "", ""),
	       HEAD RULE_OF("one", "shop.a*b", "tags", "", "")
		       RULE_OF("two", "shop.b*", "tags", "", ""));
}

Test(rules_file, flags)
{
	EXPECT({HEAD RULE "    flag: { field: a.b, value: 1 }\n",
		"8:20: 'field' must be a field on the top level, without dots, not 'a.b'"},
	       {HEAD RULE "    flag: { field: $a, value: 1 }\n",
		"8:20: 'field' must be a field's name, without '$', not '$a'"},
	       {HEAD RULE "    flag: { field: _id, value: 1 }\n",
		"8:20: 'field' must be another field than '_id' and '_spill'"},
	       {HEAD RULE "    flag: { field: _spill, value: 1 }\n",
		"8:20: 'field' must be another"},
	       {HEAD RULE "    flag: { field: tags, value: 1 }\n",
		"8:20: the flag's field 'tags' is the array 'tags'"},
	       {HEAD NAME NAMESPACE "    array: a.b\n" THRESHOLD OVERFLOW
				    "    flag: { field: a, value: 1 }\n",
		"8:20: the flag's field 'a' holds the array 'a.b'"},
	       {HEAD RULE "    flag: { field: a, value: absent }\n",
		"8:30: 'value' cannot be absent; put it in quotes if you mean the word"},
	       {HEAD RULE "    flag: { field: a, value: [1] }\n",
		"8:30: 'value' must be a single value"},
	       {HEAD RULE "    flag: { field: a, value: 9223372036854775808 }\n",
		"8:30: 'value' is a number beyond 64 bits; put it in quotes"},
	       {HEAD RULE "    flag: { field: a, value: 1, otherwise: 1 }\n",
		"8:44: 'otherwise' must differ from 'value'"},
	       {HEAD RULE "    expose: [flag]\n",
		"8:14: 'expose' names 'flag', which the rule does not have"},
	       {HEAD RULE "    expose: [flags]\n",
		"8:14: 'expose' must name 'flag', 'counters' or 'reference', not 'flags'"},
	       {HEAD RULE "    expose: [[]]\n",
		"8:14: 'expose' must name 'flag', 'counters' or 'reference'"});
	ACCEPT(HEAD RULE "    flag: { field: a, value: 1, otherwise: '1' }\n    expose: [flag]\n",
	       HEAD RULE "    flag: { field: a, value: 1, otherwise: 1.0 }\n    expose: []\n",
	       HEAD RULE "    flag: { field: a, value: null, otherwise: absent }\n",
	       HEAD RULE "    flag: { field: a, value: 'absent', otherwise: absent }\n");
}

Test(rules_file, counters)
{
	EXPECT({HEAD RULE "    counters: {}\n",
		"8:15: 'counters' must name 'total', 'documents' or both"},
	       {HEAD RULE "    counters: { owner: app }\n",
		"8:15: 'counters' must name 'total', 'documents' or both"},
	       {HEAD RULE "    counters: { documents: a, owner: app }\n",
		"8:38: 'owner' says who keeps 'total', which is missing here"},
	       {HEAD RULE "    counters: { total: a, owner: me }\n",
		"8:34: 'owner' must be 'spillway' or 'app', not 'me'"},
	       {HEAD RULE "    counters: { documents: b, totals: a }\n",
		"8:31: unknown key 'totals'; did you mean 'total'?"},
	       {HEAD RULE "    counters: { total: a.b }\n",
		"8:24: 'total' must be a field on the top level, without dots, not 'a.b'"},
	       {HEAD RULE "    counters: { total: tags }\n",
		"8:24: the counter 'tags' is the array 'tags'"},
	       {HEAD RULE "    counters: { total: a, documents: a }\n",
		"8:38: the counter 'a' is the counter of elements, too"},
	       {HEAD RULE "    flag: { field: a, value: 1 }\n    counters: { documents: a }\n",
		"9:28: the counter 'a' is the flag, too"},
	       {HEAD RULE "    expose: [counters]\n",
		"8:14: 'expose' names 'counters', which the rule does not have"},
	       {HEAD RULE_OF("one", "shop.sales", "a", "\n    counters: { total: b }", "")
			RULE_OF("two", "shop.sales", "b.c", "", ""),
		"7:24: the counter 'b' is or holds the array of the rule 'two' in line 9"},
	       {HEAD RULE_OF("one", "shop.sales", "a", "\n    counters: { total: f }", "")
			RULE_OF("two", "shop.s*", "b", "\n    flag: { field: f, value: 1 }", ""),
		"13:20: the flag's field 'f' is the counter of elements of the rule 'one' in line "
		"3, too"});
	ACCEPT(HEAD RULE "    counters: { total: a }\n    expose: [counters]\n",
	       HEAD RULE "    counters: { documents: a, owner: spillway }\n",
	       HEAD RULE "    counters: { total: a, documents: b, owner: app }\n");
}

Test(rules_file, references)
{
	EXPECT({HEAD RULE "    reference: { field: a }\n", "8:16: 'format' is missing here"},
	       {HEAD RULE "    reference: { format: '{_id}' }\n", "8:16: 'field' is missing here"},
	       {HEAD RULE "    reference: { field: a, format: plain }\n",
		"8:36: 'format' must hold {_id} once, and no other braces, not 'plain'"},
	       {HEAD RULE "    reference: { field: a, format: '{_id}{_id}' }\n",
		"8:36: 'format' must hold {_id} once"},
	       {HEAD RULE "    reference: { field: a, format: '{x}{_id}' }\n",
		"8:36: 'format' must hold {_id} once"},
	       {HEAD RULE "    reference: { field: tags, format: '{_id}' }\n",
		"8:25: the reference's field 'tags' is the array 'tags'"},
	       {HEAD RULE "    counters: { total: a }\n"
			  "    reference: { field: a, format: '{_id}' }\n",
		"9:25: the reference's field 'a' is the counter of elements, too"},
	       {HEAD RULE "    expose: [reference]\n",
		"8:14: 'expose' names 'reference', which the rule does not have"});
	ACCEPT(HEAD RULE "    reference: { field: a, format: '$of {_id}.comments' }\n",
	       HEAD RULE "    reference: { field: a, format: '{_id}' }\n    expose: [reference]\n");
}

#define ELEMENTS(more) \
	HEAD NAME NAMESPACE ARRAY THRESHOLD "    overflow: { link: a, layout: elements" more " }" \
					    "\n"

Test(rules_file, what_only_batches_have)
{
	EXPECT({ELEMENTS(", array: b"), "7:51: 'array' goes with 'layout: batches'"},
	       {ELEMENTS(", batch: { size: 5 }"), "7:51: 'batch' goes with 'layout: batches'"},
	       {ELEMENTS(", created: a"), "7:53: 'link' and 'created' are the same field, 'a'"},
	       {HEAD NAME NAMESPACE ARRAY THRESHOLD "    overflow: { layout: elements }\n",
		"7:15: 'link' is missing here"});
	ACCEPT(ELEMENTS(""), ELEMENTS(", created: c"),
	       ELEMENTS(", indexes: [{ keys: { a: 1, b: -1 } }]"));
}

#define COLLECTION(name) HEAD RULE_OF("one", "shop.sales", "tags", "", "collection: " name ", ")

Test(rules_file, overflow_collections)
{
	EXPECT({COLLECTION("shop."), "7:29: 'collection' 'shop.' has an empty part"},
	       {COLLECTION("admin.x"), "7:29: 'collection' 'admin.x' is in a database of the"},
	       {COLLECTION("spillway.x"), "7:29: 'collection' 'spillway.x' is in a database of"},
	       {COLLECTION("a.system.x"), "7:29: 'collection' 'a.system.x' is one of the"},
	       {COLLECTION("a$b"), "7:29: 'collection' 'a$b' has a character that"},
	       {COLLECTION("a*"), "7:29: 'collection' 'a*' has a '*'; write {collection} where"},
	       {COLLECTION("'{collection}.x'"),
		"7:29: 'collection' '{collection}.x' has {collection} in the database's part"},
	       {COLLECTION("'{collection}{collection}'"),
		"7:29: 'collection' '{collection}{collection}' has {collection} twice"},
	       {COLLECTION("'{database}_x'"),
		"7:29: 'collection' '{database}_x' has braces; only {collection} is known"},
	       {COLLECTION("'{collection}_}'"),
		"7:29: 'collection' '{collection}_}' has braces; only {collection} is known"},
	       {COLLECTION("sales"), "7:29: the overflow collection 'shop.sales' is itself under "
				     "the rule 'one' in line 3"},
	       {COLLECTION("shop.sales"), "7:29: the overflow collection 'shop.sales' is itself"},
	       {COLLECTION("'{collection}'"), "7:29: the overflow collection 'shop.sales' is"});
	ACCEPT(COLLECTION("other.sales"), COLLECTION("'a.{collection}.b'"), COLLECTION("x"));
}

Test(rules_file, overflow_collections_that_are_called_by_the_array)
{
	EXPECT({HEAD RULE_OF("one", "shop.sales", "'a*b'", "", ""),
		"7:15: 'collection' has to be given: '{collection}_a*b_overflow', which it is "
		"called "
		"without, has a '*'"},
	       {HEAD RULE_OF("one", "shop.sales", "'a}b'", "", ""),
		"7:15: 'collection' has to be given: '{collection}_a}b_overflow', which it is "
		"called "
		"without, has braces"},
	       {HEAD RULE_OF("one", "shop.sales", "'{collection}'", "", ""),
		"7:15: 'collection' has to be given: '{collection}_{collection}_overflow', which "
		"it is "
		"called without, has {collection} twice"});
	ACCEPT(HEAD RULE_OF("one", "shop.sales", "'a*b'", "", "collection: extra, "),
	       HEAD RULE_OF("one", "shop.sales", "'a}b'", "", "collection: extra, "));
}

Test(rules_file, overflow_collections_of_patterns)
{
	EXPECT({HEAD RULE_OF("one", "shop.*", "tags", "", "collection: extra, "),
		"7:29: the rule matches several collections, so that their overflow would mix in "
		"one; write {collection} in 'collection'"},
	       {HEAD RULE_OF("one", "t_*.sales", "tags", "", "collection: shop.extra, "),
		"7:29: the rule matches several databases, so that their overflow would mix in "
		"one; leave the database out of 'collection'"},
	       {HEAD RULE_OF("one", "t_*.sales", "tags", "", "collection: sales, "),
		"7:29: the overflow collection 't_*.sales' is itself under the rule 'one'"});
	ACCEPT(HEAD RULE_OF("one", "shop.*", "tags", "", ""),
	       HEAD RULE_OF("one", "t_*.sales", "tags", "", "collection: extra, "),
	       HEAD RULE_OF("one", "shop.*", "tags", "", "collection: 'aside.{collection}', "));
}

Test(rules_file, overflow_collections_of_two_rules)
{
	EXPECT({HEAD RULE_OF("one", "shop.sales", "a", "", "collection: extra, ")
			RULE_OF("two", "shop.books", "a", "", "collection: extra, "),
		"12:29: the overflow collection 'shop.extra' is also that of the rule 'one' in "
		"line 3"},
	       {HEAD RULE_OF("one", "shop.x*", "a", "", "")
			RULE_OF("two", "shop.*y", "b_a", "", ""),
		"12:15: the overflow collection 'shop.*y_b_a_overflow' is also that of the rule"},
	       {HEAD RULE_OF("one", "shop.sales", "a", "", "collection: books, ")
			RULE_OF("two", "shop.books", "a", "", ""),
		"7:29: the overflow collection 'shop.books' is itself under the rule 'two' in "
		"line 8"},
	       {HEAD RULE_OF("one", "shop.*", "a", "", "")
			RULE_OF("two", "shop.x_a_overflow", "b", "", ""),
		"7:15: the overflow collection 'shop.*_a_overflow' is itself under the rule "
		"'two'"});
	ACCEPT(HEAD RULE_OF("one", "shop.sales", "a", "", "")
		       RULE_OF("two", "shop.sales", "b", "", ""),
	       HEAD RULE_OF("one", "shop.*", "a", "", "") RULE_OF("two", "shop.*", "b", "", ""),
	       HEAD RULE_OF("one", "a.sales", "a", "", "collection: x, ")
		       RULE_OF("two", "b.sales", "a", "", "collection: x, "));
}

#define FORTY "1234567890123456789012345678901234567890"

Test(rules_file, an_overflow_name_beyond_the_servers_limit)
{
	EXPECT({HEAD RULE_OF("one", "shop." FORTY FORTY FORTY FORTY FORTY FORTY, "tags", "", ""),
		"7:15: the overflow collection's name"});
	ACCEPT(HEAD RULE_OF("one", "shop." FORTY FORTY FORTY FORTY FORTY, "tags", "", ""));
}

#define OVERFLOW_OF(settings) \
	HEAD NAME NAMESPACE ARRAY THRESHOLD "    overflow:\n      layout: batches\n" settings

Test(rules_file, overflow_documents)
{
	EXPECT({OVERFLOW_OF("      link: _id\n      array: a\n"),
		"9:13: 'link' must be another field than '_id' and '_spill'"},
	       {OVERFLOW_OF("      link: a.b\n      array: a\n"),
		"9:13: 'link' must be a field on"},
	       {OVERFLOW_OF("      link: b\n      array: $a\n"),
		"10:14: 'array' must be a field's"},
	       {OVERFLOW_OF("      link: a\n      array: a\n"),
		"10:14: 'link' and 'array' are the same field, 'a'"},
	       {OVERFLOW_OF("      link: a\n      array: b\n      created: b\n"),
		"11:16: 'array' and 'created' are the same field, 'b'"},
	       {OVERFLOW_OF("      link: a\n      array: b\n      batch: { field: a }\n"),
		"11:14: 'link' and 'batch' are the same field, 'a'"},
	       {OVERFLOW_OF("      link: a\n      array: b\n      created: _spill\n"),
		"11:16: 'created' must be another field than"},
	       {OVERFLOW_OF("      link: a\n      array: b\n      batch: { size: 0 }\n"),
		"11:22: 'size' must be a whole number from 1 to 100000, not '0'"},
	       {OVERFLOW_OF("      link: a\n      array: b\n      batch: { max_bytes: 9MB }\n"),
		"11:27: 'max_bytes' must be from 1B to 8MB, not '9MB'"});
	ACCEPT(OVERFLOW_OF("      link: a\n      array: tags\n      created: c\n"
			   "      batch: { field: d, size: 100000, max_bytes: 8MB }\n"));
}

#define INDEXES_OF(indexes) \
	OVERFLOW_OF("      link: a\n      array: b\n      indexes: " indexes "\n")

Test(rules_file, indexes)
{
	EXPECT({INDEXES_OF("{}"), "11:16: 'indexes' must be a list"},
	       {INDEXES_OF("[1]"), "11:17: keys with values must stand here: keys, ..."},
	       {INDEXES_OF("[{}]"), "11:17: 'keys' is missing here"},
	       {INDEXES_OF("[{ keys: { a: 1 }, unique: true }]"), "11:35: unknown key 'unique'"},
	       {INDEXES_OF("[{ keys: [] }]"),
		"11:25: 'keys' must be 1 to 32 fields, each with the kind of its index"},
	       {INDEXES_OF("[{ keys: {} }]"),
		"11:25: 'keys' must be 1 to 32 fields, each with the kind of its index"},
	       {INDEXES_OF("[{ keys: { a: 2 } }]"), "11:30: the index's field 'a' must be 1, -1,"},
	       {INDEXES_OF("[{ keys: { a: '1' } }]"), "11:30: the index's field 'a' must be 1,"},
	       {INDEXES_OF("[{ keys: { $a: 1 } }]"), "11:27: the index's field '$a' begins with"},
	       {INDEXES_OF("[{ keys: { a..b: 1 } }]"),
		"11:27: the index's field 'a..b' has an empty part"},
	       {INDEXES_OF("[{ keys: { a: 1, a: -1 } }]"),
		"11:33: the index's field 'a' stands here a second time"},
	       {INDEXES_OF("[{ keys: { b: hashed } }]"),
		"11:30: the index's field 'b' can't be hashed: it is the overflow's array"},
	       {INDEXES_OF("[{ keys: { a: 1, b.c: hashed } }]"),
		"11:38: the index's field 'b.c' can't be hashed"},
	       {INDEXES_OF("[{ keys: { '': 1 } }]"), "11:27: the index's field '' is no field's"});
	ACCEPT(INDEXES_OF("[]"), INDEXES_OF("[{ keys: { a: 1, b.c: -1, d: text } }, { keys: { e: "
					    "2dsphere } }, { keys: { bc: hashed } }]"));
}

Test(rules_file, all_mistakes_are_reported_in_the_order_of_the_file)
{
	auto_free char *problems = NULL;

	cr_assert_null(parse("listen: [{ address: '127.0.0.1:1', server: nowhere }]\n"
			     "workers: many\n"
			     "rules:\n"
			     "  - name: one\n"
			     "    namespace: sales\n"
			     "    array: 5\n"
			     "    overflow: { link: _id, layout: batches, aray: x }\n"
			     "    settle: 3\n",
			     &problems));
	cr_assert_str_eq(
		problems,
		"f:1:44: 'server' must be host:port or [IPv6]:port, the port from 1 to 65535, not "
		"'nowhere'\n"
		"f:2:10: 'workers' must be a whole number from 0 to 256, not 'many'\n"
		"f:4:5: 'threshold' is missing here\n"
		"f:5:16: 'namespace' must be database.collection, not 'sales'\n"
		"f:6:12: 'array' '5' has a number as a part: a path through an array cannot be "
		"ruled\n"
		"f:7:15: 'array' is missing here\n"
		"f:7:23: 'link' must be another field than '_id' and '_spill', not '_id'\n"
		"f:7:45: unknown key 'aray'; did you mean 'array'?\n"
		"f:8:13: 'settle' needs a unit: ms, s, m or h, as in 3s\n");
}

/* ---- What a good file means. */

static const struct rule *only_rule(const struct config *config)
{
	cr_assert_eq(rule_set_count(config->rules), 1);
	return rule_set_at(config->rules, 0);
}

Test(rules_file, defaults)
{
	struct config *config =
		good(HEAD NAME NAMESPACE "    array: a.b_c.d\n" THRESHOLD
					 "    overflow: { link: of, array: more }\n");
	const struct rule *rule = only_rule(config);

	cr_assert_str_eq(rule->key, "a/b_c/d");
	cr_assert_eq(rule->max_bytes, 1 << 20);
	cr_assert_eq(rule->when_outlier, RULE_KEEP);
	cr_assert_eq(rule->settle_ms, 1000);
	cr_assert_eq(rule->gather, 100);
	cr_assert_eq(rule->quiet_ms, 1000);
	cr_assert_eq(rule->gc_delay_ms, 60000);
	cr_assert_eq(rule->sweep_ms, 3600000);
	cr_assert_not(rule->read_only);
	cr_assert_eq(rule->streams, RULE_STREAMS_EXACT);
	cr_assert_null(rule->flag.field);
	cr_assert_null(rule->counters.total);
	cr_assert_null(rule->reference.field);
	cr_assert_not(rule->expose.flag || rule->expose.counters || rule->expose.reference);
	cr_assert_null(rule->overflow.database);
	cr_assert_str_eq(rule->overflow.collection, "{collection}_a_b_c_d_overflow");
	cr_assert_eq(rule->overflow.layout, RULE_BATCHES);
	cr_assert_null(rule->overflow.batch_field);
	cr_assert_eq(rule->overflow.batch_size, 1000);
	cr_assert_eq(rule->overflow.batch_max_bytes, 256 << 10);
	cr_assert_null(rule->overflow.created);
	cr_assert_eq(rule->overflow.indexes.length, 0);
	config_free(config);
}

Test(rules_file, the_manuals_layout)
{
	struct config *config = good(HEAD "  - name: book-sales\n"
					  "    namespace: shop.sales\n"
					  "    array: customers_purchased\n"
					  "    threshold: 50\n"
					  "    flag: { field: has_extras, value: true }\n"
					  "    overflow:\n"
					  "      collection: extra_sales\n"
					  "      layout: batches\n"
					  "      link: book_id\n"
					  "      array: customers_purchased_extra\n");
	const struct rule *rule = only_rule(config);

	cr_assert_str_eq(rule->database, "shop");
	cr_assert_str_eq(rule->collection, "sales");
	cr_assert_eq(rule->threshold, 50);
	cr_assert_str_eq(rule->flag.field, "has_extras");
	cr_assert_eq(rule->flag.value.type, 0x08);
	cr_assert_eq(rule->flag.value.value.data[0], 1);
	cr_assert_eq(rule->flag.otherwise.type, 0);
	cr_assert_str_eq(rule->overflow.collection, "extra_sales");
	cr_assert_str_eq(rule->overflow.link, "book_id");
	cr_assert_str_eq(rule->overflow.array, "customers_purchased_extra");
	config_free(config);
}

Test(rules_file, the_followers_layout)
{
	struct config *config =
		good(HEAD "  - name: followers\n"
			  "    namespace: social.users\n"
			  "    array: followers\n"
			  "    threshold: 1000\n"
			  "    flag: { field: hasOverflow, value: true, otherwise: false }\n"
			  "    counters: { total: followerCount, documents: overflowCount }\n"
			  "    expose: [flag, counters]\n"
			  "    overflow:\n"
			  "      collection: followerOverflow\n"
			  "      layout: batches\n"
			  "      link: userId\n"
			  "      array: followers\n"
			  "      batch: { field: batchNumber, size: 1000 }\n"
			  "      created: createdAt\n");
	const struct rule *rule = only_rule(config);

	cr_assert_eq(rule->flag.otherwise.type, 0x08);
	cr_assert_eq(rule->flag.otherwise.value.data[0], 0);
	cr_assert_str_eq(rule->counters.total, "followerCount");
	cr_assert_str_eq(rule->counters.documents, "overflowCount");
	cr_assert_not(rule->counters.owned_by_app);
	cr_assert(rule->expose.flag && rule->expose.counters && !rule->expose.reference);
	cr_assert_str_eq(rule->overflow.batch_field, "batchNumber");
	cr_assert_str_eq(rule->overflow.created, "createdAt");
	config_free(config);
}

Test(rules_file, the_legacy_books_layout)
{
	struct config *config = good(HEAD "  - name: books\n"
					  "    namespace: shop.books\n"
					  "    array: customers_purchased\n"
					  "    threshold: 1000\n"
					  "    flag: { field: has_extras, value: \"true\" }\n"
					  "    overflow:\n"
					  "      collection: book_extras\n"
					  "      layout: batches\n"
					  "      link: book_id\n"
					  "      array: customers_purchased_extra\n");
	const struct rule *rule = only_rule(config);

	cr_assert_eq(rule->flag.value.type, 0x02);
	cr_assert(bytes_equal(rule->flag.value.value,
			      (struct bytes){(const uint8_t *)"\5\0\0\0true", 9}));
	config_free(config);
}

Test(rules_file, the_comments_layout)
{
	struct config *config =
		good(HEAD "  - name: comments\n"
			  "    namespace: blog.posts\n"
			  "    array: comments\n"
			  "    threshold: 100\n"
			  "    when_outlier: empty\n"
			  "    flag: { field: outlier, value: true }\n"
			  "    counters: { total: comment_count }\n"
			  "    reference: { field: comments_ref, format: '{_id}_comments' }\n"
			  "    expose: [flag, counters, reference]\n"
			  "    overflow:\n"
			  "      collection: post_comments\n"
			  "      layout: elements\n"
			  "      link: post_id\n");
	const struct rule *rule = only_rule(config);

	cr_assert_eq(rule->when_outlier, RULE_EMPTY);
	cr_assert_eq(rule->overflow.layout, RULE_ELEMENTS);
	cr_assert_eq(rule->overflow.batch_size, 1);
	cr_assert_null(rule->overflow.array);
	cr_assert_str_eq(rule->reference.format, "{_id}_comments");
	config_free(config);
}

Test(rules_file, indexes_become_bson)
{
	static const uint8_t bson[] = {49,  0,   0,   0,   3,   '0', 0, 41, 0,  0,   0,   3,   'k',
				       'e', 'y', 's', 0,   30,  0,   0, 0,  16, 'b', '.', 'c', 0,
				       255, 255, 255, 255, 2,   'd', 0, 9,  0,  0,   0,   '2', 'd',
				       's', 'p', 'h', 'e', 'r', 'e', 0, 0,  0,  0};
	struct config *config = good(INDEXES_OF("[{ keys: { b.c: -1, d: 2dsphere } }]"));

	cr_assert(bytes_equal(only_rule(config)->overflow.indexes,
			      (struct bytes){bson, sizeof(bson)}));
	config_free(config);
}

/* Their collections tell nearly all of them apart; a minute is what comparing patterns in full
 * takes.
 */
Test(rules_file, thousands_of_rules_are_read_in_a_moment)
{
	auto_buffer struct buffer file = {0};
	clock_t began = clock();
	struct config *config;

	text_append(&file, HEAD);
	for (int i = 0; i < 5000; i++)
		text_append(&file,
			    "  - { name: r%d, namespace: 'tenant%d_*.posts%d', array: tags, "
			    "threshold: 3, overflow: { link: of, array: more } }\n",
			    i, i % 100, i);
	buffer_append(&file, "", 1);
	config = good((const char *)file.data);
	cr_assert_eq(rule_set_count(config->rules), 5000);
	config_free(config);
	cr_assert_lt(clock() - began, 8 * CLOCKS_PER_SEC);
}
