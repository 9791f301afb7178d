/* Tests proxy/fitness/index_judge.c: what servers told, judged. */
#include "tests/unit/unit.h"

#include "proxy/fitness/index_judge.h"

#include <bson/bson.h>

static struct rule rule = {.array = "a.list",
			   .overflow = {.link = "book", .array = "part", .layout = RULE_BATCHES}};

/* JSON is written with ' for ". */
static bson_t *parse(const char *json)
{
	auto_free char *text = must_strndup(json, strlen(json));
	bson_error_t error;
	bson_t *built;

	for (char *at = text; *at; at++)
		*at = *at == '\'' ? '"' : *at;
	built = bson_new_from_json((const uint8_t *)text, -1, &error);
	cr_assert_not_null(built, "%s: %s", text, error.message);
	return built;
}

static struct bytes view(const bson_t *built)
{
	return (struct bytes){bson_get_data(built), built->len};
}

static bool may(const char *privileges, const char *database, const char *collection,
		const char *action)
{
	bson_t *built = parse(privileges);
	bool result = judge_may(view(built), database, collection, action);

	bson_destroy(built);
	return result;
}

#define ON(resource, actions) "{'0': {'resource': {" resource "}, 'actions': [" actions "]}}"

Test(check_judge, a_right_is_one_on_the_resource)
{
	const char *books = ON("'db': 'shop', 'collection': 'books'", "'find', 'update'");

	cr_assert(may(books, "shop", "books", "find"));
	cr_assert(may(books, "shop", "books", "update"));
	cr_assert_not(may(books, "shop", "books", "remove"));
	cr_assert_not(may(books, "shop", "others", "find"));
	cr_assert_not(may(books, "blog", "books", "find"));
	cr_assert_not(may(books, "shop", "", "find"), "not on the whole database");
	cr_assert_not(may(books, "", "", "find"), "nor on the cluster");
	cr_assert_not(may("{}", "shop", "books", "find"));
}

Test(check_judge, wildcards_of_resources)
{
	cr_assert(may(ON("'db': 'shop', 'collection': ''", "'find'"), "shop", "books", "find"));
	cr_assert(may(ON("'db': '', 'collection': 'books'", "'find'"), "shop", "books", "find"));
	cr_assert(may(ON("'db': '', 'collection': ''", "'find'"), "shop", "", "find"));
	cr_assert(may(ON("'anyResource': true", "'anyAction'"), "shop", "books", "find"));
	cr_assert(may(ON("'anyResource': true", "'anyAction'"), "", "", "listDatabases"));
	cr_assert(may(ON("'cluster': true", "'listDatabases'"), "", "", "listDatabases"));
	cr_assert_not(may(ON("'cluster': true", "'find'"), "shop", "books", "find"));
}

static const char *wanted(const char *keys)
{
	static char path[100];
	bson_t *built = parse(keys);
	bool found = judge_wanted_index(&rule, view(built), path, sizeof(path));

	bson_destroy(built);
	return found ? path : "";
}

Test(check_judge, an_index_on_the_array_has_its_place_in_the_overflow)
{
	cr_assert_str_eq(wanted("{'a.list': 1}"), "part");
	cr_assert_str_eq(wanted("{'a.list.isbn.no': -1}"), "part.isbn.no");
	cr_assert_str_eq(wanted("{'title': 1, 'a.list.isbn': 1}"), "part.isbn");
	cr_assert_str_eq(wanted("{'a': 1}"), "");
	cr_assert_str_eq(wanted("{'a.lists': 1}"), "");
	cr_assert_str_eq(wanted("{'a.list.0': 1}"), "", "a position says nothing of a batch");
	cr_assert_str_eq(wanted("{'a.list': 'text'}"), "");
	rule.overflow.layout = RULE_ELEMENTS;
	cr_assert_str_eq(wanted("{'a.list.author': 1}"), "author");
	cr_assert_str_eq(wanted("{'a.list': 1}"), "");
}

static bool serves(const char *keys)
{
	bson_t *built = parse(keys);
	bool result = judge_index_serves(&rule, view(built), "part.isbn");

	bson_destroy(built);
	return result;
}

Test(check_judge, an_index_serves_in_front_or_behind_the_link)
{
	cr_assert(serves("{'part.isbn': 1}"));
	cr_assert(serves("{'part.isbn': 1, 'x': 1}"));
	cr_assert(serves("{'book': 1, 'part.isbn': 1}"));
	cr_assert_not(serves("{'x': 1, 'part.isbn': 1}"));
	cr_assert_not(serves("{'book': 1, 'x': 1, 'part.isbn': 1}"));
	cr_assert_not(serves("{'part': 1}"));
	cr_assert_not(serves("{}"));
}

Test(check_judge, the_rules_own_indexes_count)
{
	bson_t *indexes = parse("{'0': {'keys': {'x': 1}}, '1': {'keys': {'part.isbn': 1}}}");

	cr_assert_not(judge_rule_has_index(&rule, "part.isbn"));
	rule.overflow.indexes = view(indexes);
	cr_assert(judge_rule_has_index(&rule, "part.isbn"));
	cr_assert_not(judge_rule_has_index(&rule, "part"));
	bson_destroy(indexes);
}

static uint64_t of_rule(uint64_t judge(const struct rule *rule, struct bytes index),
			const char *index)
{
	bson_t *built = parse(index);
	uint64_t found = judge(&rule, view(built));

	bson_destroy(built);
	return found;
}

static void expect_of_rule(const char *index, uint64_t is, uint64_t keeps)
{
	cr_expect_eq(of_rule(judge_rule_indexes, index), is, "%s", index);
	cr_expect_eq(of_rule(judge_rule_indexes_kept, index), keeps, "%s", index);
}

Test(check_judge, an_index_is_the_rules_whatever_it_is_called)
{
	bson_t *indexes = parse("{'0': {'keys': {'x': 1, 'y': -1}}, '1': {'keys': {'t': 'hashed'}},"
				" '2': {'keys': {'book': 1, '_spill.i': 1}}}");

	rule.overflow.indexes = view(indexes);
	expect_of_rule("{'key': {'x': 1, 'y': -1}, 'name': 'x_1_y_-1'}", 1, 0);
	expect_of_rule("{'key': {'x': 1.0, 'y': -1}, 'name': 'mine'}", 1, 0);
	expect_of_rule("{'key': {'t': 'hashed'}, 'name': 'mine'}", 2, 0);
	expect_of_rule("{'key': {'x': 1, 'y': -1}, 'name': 'mine', 'hidden': true}", 0, 1);
	expect_of_rule("{'key': {'x': 1, 'y': -1}, 'name': 'x_1_y_-1', 'sparse': true}", 0, 1);
	expect_of_rule("{'key': {'x': 1, 'y': -1}, 'name': 'mine', 'sparse': true}", 0, 0);
	expect_of_rule("{'key': {'x': 1, 'y': -1}, 'name': 'mine', 'collation': {}}", 0, 0);
	expect_of_rule("{'key': {'z': 1}, 'name': 't_hashed'}", 0, 2);
	expect_of_rule("{'key': {'x': 1, 'y': 1}, 'name': 'mine'}", 0, 0);
	expect_of_rule("{'key': {'book': 1, '_spill.i': 1}, 'name': 'mine', 'hidden': true}", 4, 0);
	rule.overflow.indexes = (struct bytes){0};
	expect_of_rule("{'key': {'x': 1, 'y': -1}, 'name': 'mine'}", 0, 0);
	bson_destroy(indexes);
}

Test(check_judge, servers_own_connections)
{
	cr_assert(judge_is_internal("spillway", "mongoc"));
	cr_assert(judge_is_internal("", "NetworkInterfaceTL-ReplNetwork"));
	cr_assert(judge_is_internal("OplogFetcher", "MongoDB Internal Client"));
	cr_assert_not(judge_is_internal("", "PyMongo"));
	cr_assert_not(judge_is_internal("my spillway", ""));
}

static bool blocks(const char *index)
{
	bson_t *built = parse(index);
	bool result = judge_index_blocks(&rule, view(built)) != NULL;

	bson_destroy(built);
	return result;
}

Test(check_judge, what_stands_where_the_unique_index_has_to_be)
{
	cr_assert_not(blocks("{'key': {'book': 1, '_spill.i': 1}, 'name': 'a', 'unique': true}"));
	cr_assert(blocks("{'key': {'book': 1, '_spill.i': 1}, 'name': 'a', 'unique': true, "
			 "'sparse': true}"));
	cr_assert(blocks("{'key': {'book': 1, '_spill.i': 1}, 'name': 'a', 'unique': true, "
			 "'collation': {'locale': 'de'}}"));
	cr_assert(blocks("{'key': {'book': -1, '_spill.i': 1}, 'name': 'a', 'unique': true}"));
	cr_assert(blocks("{'key': {'book': 1, '_spill.i': 1}, 'name': 'book_1__spill.i_1'}"));
	cr_assert(blocks("{'key': {'other': 1}, 'name': 'book_1__spill.i_1'}"));
	cr_assert_not(blocks("{'key': {'book': 1, '_spill.i': 1}, 'name': 'another'}"));
	cr_assert_not(blocks("{'key': {'book': 1}, 'name': 'book_1'}"));
}
