/* Tests rules/rule/rules.c: which namespaces and paths the rules concern. */
#include "tests/unit/unit.h"

#include "rules/rule/rules.h"

#include <malloc.h>
#include <stdio.h>

struct sketch {
	const char *database, *collection, *overflow_database, *overflow;
};

static char *copy(const char *text)
{
	return text ? must_strndup(text, strlen(text)) : NULL;
}

static struct rule_set *set_of(const struct sketch *sketches, size_t count)
{
	struct rule *rules = must_calloc(count, sizeof(*rules));

	for (size_t i = 0; i < count; i++) {
		rules[i].name = copy("a rule");
		rules[i].database = copy(sketches[i].database);
		rules[i].collection = copy(sketches[i].collection);
		rules[i].array = copy("tags");
		rules[i].overflow.database = copy(sketches[i].overflow_database);
		rules[i].overflow.collection = copy(sketches[i].overflow);
	}
	return rule_set_new(rules, count);
}

#define SET(...) \
	set_of((const struct sketch[]){__VA_ARGS__}, \
	       ARRAY_LENGTH(((const struct sketch[]){__VA_ARGS__})))

static bool concerns(const struct rule_set *set, const char *collection)
{
	return rule_set_may_concern(set, bytes_of(collection));
}

static const struct ruled_namespace *find(struct namespace_cache *cache, const char *database,
					  const char *collection)
{
	bool full = true;
	const struct ruled_namespace *found =
		namespace_cache_find(cache, bytes_of(database), bytes_of(collection), &full);

	cr_assert_not(full);
	return found;
}

Test(rules, main_and_overflow_names_may_concern_and_no_others)
{
	struct rule_set *set = SET({"shop", "sales", NULL, "extra_sales"},
				   {"blog", "posts.of.2026", NULL, "post_comments"});

	cr_assert(concerns(set, "sales"));
	cr_assert(concerns(set, "extra_sales"));
	cr_assert(concerns(set, "posts.of.2026"));
	cr_assert(concerns(set, "post_comments"));
	cr_assert_not(concerns(set, "sale"));
	cr_assert_not(concerns(set, "saless"));
	cr_assert_not(concerns(set, ""));
	cr_assert_not(concerns(set, "a_long_collection_name_that_is_not_there"));
	cr_assert_not(rule_set_may_concern(set, (struct bytes){0}));
	rule_set_unref(set);
}

Test(rules, no_rules_concern_nothing)
{
	struct rule_set *set = rule_set_new(must_calloc(0, sizeof(struct rule)), 0);
	struct namespace_cache *cache = namespace_cache_new(set);

	cr_assert_not(concerns(set, "sales"));
	cr_assert_null(find(cache, "shop", "sales"));
	cr_assert_null(rule_set_overflow(set, bytes_of("shop"), bytes_of("sales")));
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, many_names_are_all_found)
{
	enum { MANY = 500 };
	struct rule *rules = must_calloc(MANY, sizeof(*rules));
	struct rule_set *set;
	struct namespace_cache *cache;
	char name[32];

	for (int i = 0; i < MANY; i++) {
		rules[i].database = copy("shop");
		snprintf(name, sizeof(name), "c%d", i);
		rules[i].collection = copy(name);
		rules[i].overflow.collection = copy("{collection}_o");
	}
	set = rule_set_new(rules, MANY);
	cache = namespace_cache_new(set);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < MANY; i++) {
			snprintf(name, sizeof(name), "c%zu", i);
			cr_assert(concerns(set, name));
			cr_assert_eq(find(cache, "shop", name)->targets[0].rule->index, i);
			strcat(name, "_o");
			cr_assert(concerns(set, name));
			cr_assert_eq(
				rule_set_overflow(set, bytes_of("shop"), bytes_of(name))->index, i);
		}
	}
	cr_assert_not(concerns(set, "c500"));
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, a_pattern_matches_within_its_part)
{
	struct rule_set *set = SET({"tenant_*", "posts", NULL, "{collection}_more"},
				   {"logs", "day_*_raw", NULL, "{collection}_more"});
	struct namespace_cache *cache = namespace_cache_new(set);

	cr_assert_not_null(find(cache, "tenant_", "posts"));
	cr_assert_not_null(find(cache, "tenant_a", "posts"));
	cr_assert_null(find(cache, "tenant", "posts"));
	cr_assert_null(find(cache, "tenant_a", "post"));
	cr_assert_not_null(find(cache, "logs", "day_1_raw"));
	cr_assert_not_null(find(cache, "logs", "day_a_raw_raw"));
	cr_assert_null(find(cache, "logs", "day_raw"));
	cr_assert(concerns(set, "day_1_raw"));
	cr_assert(concerns(set, "day_1_raw_more"));
	cr_assert_not(concerns(set, "day_1_raw_mor"));
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, a_find_gives_every_rule_with_its_overflow)
{
	struct rule_set *set = SET(
		{"shop", "sales", NULL, "extra_sales"}, {"*", "sales", "aside", "extra"},
		{"shop", "*", NULL, "{collection}_tags_overflow"}, {"shop", "books", NULL, "x"});
	struct namespace_cache *cache = namespace_cache_new(set);
	const struct ruled_namespace *found = find(cache, "shop", "sales");

	cr_assert_eq(found->target_count, 3);
	cr_assert_str_eq(found->database, "shop");
	cr_assert_str_eq(found->collection, "sales");
	cr_assert_str_eq(found->targets[0].overflow_database, "shop");
	cr_assert_str_eq(found->targets[0].overflow_collection, "extra_sales");
	cr_assert_str_eq(found->targets[1].overflow_database, "aside");
	cr_assert_str_eq(found->targets[2].overflow_collection, "sales_tags_overflow");
	cr_assert_eq(found->targets[2].rule, rule_set_at(set, 2));
	cr_assert_eq(find(cache, "shop", "sales"), found, "a second find gives the same object");
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, another_database_is_not_ruled)
{
	struct rule_set *set = SET({"shop", "sales", NULL, "extra_sales"});
	struct namespace_cache *cache = namespace_cache_new(set);

	cr_assert_null(find(cache, "shop2", "sales"));
	cr_assert_null(find(cache, "sho", "psales"));
	cr_assert_null(find(cache, "", "sales"));
	cr_assert_null(rule_set_overflow(set, bytes_of("shop2"), bytes_of("extra_sales")));
	cr_assert_eq(rule_set_overflow(set, bytes_of("shop"), bytes_of("extra_sales")),
		     rule_set_at(set, 0));
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, a_pattern_is_not_on_overflow_or_server_collections)
{
	struct rule_set *set = SET({"*", "*", NULL, "{collection}_tags_overflow"});
	struct namespace_cache *cache = namespace_cache_new(set);

	cr_assert_not_null(find(cache, "shop", "sales"));
	cr_assert_null(find(cache, "shop", "sales_tags_overflow"));
	cr_assert_null(find(cache, "shop", "system.views"));
	cr_assert_null(find(cache, "shop", "$cmd.listCollections"));
	cr_assert_not_null(find(cache, "shop", "systems"));
	cr_assert_null(find(cache, "admin", "people"));
	cr_assert_null(find(cache, "local", "oplog.rs"));
	cr_assert_null(find(cache, "config", "transactions"));
	cr_assert_null(find(cache, "spillway", "rules"));
	namespace_cache_free(cache);
	rule_set_unref(set);
}

static bool has_overflow(const struct rule_set *set, const char *database, const char *collection)
{
	return rule_set_overflow(set, bytes_of(database), bytes_of(collection));
}

Test(rules, nothing_of_the_servers_or_our_own_is_matched_anywhere)
{
	static const char *const databases[] = {"admin", "local", "config", "spillway"};
	struct rule_set *set = SET({"*", "*s", NULL, "{collection}_tags_overflow"});
	const struct rule *rule = rule_set_at(set, 0);

	for (size_t i = 0; i < ARRAY_LENGTH(databases); i++) {
		struct bytes database = bytes_of(databases[i]);

		cr_assert_not(rule_pattern_matches_database("*", database));
		cr_assert_not(rule_matches(rule, database, bytes_of("things")));
		cr_assert_not(rule_set_in_database(set, database));
		cr_assert_not(has_overflow(set, databases[i], "things_tags_overflow"));
	}
	cr_assert(rule_pattern_matches_database("*", bytes_of("configs")));
	cr_assert(rule_matches(rule, bytes_of("shop"), bytes_of("systems")));
	cr_assert_not(rule_matches(rule, bytes_of("shop"), bytes_of("system.things")));
	cr_assert(rule_set_in_database(set, bytes_of("shop")));
	cr_assert(has_overflow(set, "shop", "things_tags_overflow"));
	cr_assert_not(has_overflow(set, "shop", "system.things_tags_overflow"));
	rule_set_unref(set);
}

Test(rules, a_full_cache_says_so_and_still_serves_what_it_knows_and_exact_names)
{
	struct rule_set *set =
		SET({"tenant_*", "posts", NULL, "more"}, {"shop", "sales", NULL, "extra_sales"});
	struct namespace_cache *cache = namespace_cache_new(set);
	char name[32];
	bool full;

	for (int i = 0; i < NAMESPACE_CACHE_MAX; i++) {
		snprintf(name, sizeof(name), "tenant_%d", i);
		cr_assert_not_null(find(cache, name, "posts"));
	}
	cr_assert_null(namespace_cache_find(cache, bytes_of("tenant_x"), bytes_of("posts"), &full));
	cr_assert(full);
	cr_assert_not_null(find(cache, "tenant_0", "posts"));
	cr_assert_not_null(find(cache, "shop", "sales"));
	cr_assert_null(find(cache, "other", "posts"));
	namespace_cache_free(cache);
	rule_set_unref(set);
}

/* The most that the cache held. */
static size_t find_many(struct namespace_cache *cache, int from, int to)
{
	char name[32];
	size_t most = 0;

	for (int i = from; i < to; i++) {
		namespace_cache_trim(cache);
		snprintf(name, sizeof(name), "tenant_%d", i);
		cr_assert_not_null(find(cache, name, "posts"));
		if (namespace_cache_count(cache) > most)
			most = namespace_cache_count(cache);
	}
	return most;
}

Test(rules, a_million_names_are_served_and_few_are_kept)
{
	struct rule_set *set =
		SET({"tenant_*", "posts", NULL, "more"}, {"shop", "sales", NULL, "extra_sales"});
	struct namespace_cache *cache = namespace_cache_new(set);
	const struct ruled_namespace *exact = find(cache, "shop", "sales");
	size_t before = mallinfo2().uordblks,
	       most = find_many(cache, 0, (int)unit_share(1000000, 30000));

	cr_assert_leq(most, NAMESPACE_CACHE_KEPT + 2);
	cr_assert_lt(mallinfo2().uordblks - before, 20u << 20, "%zu bytes",
		     mallinfo2().uordblks - before);
	cr_assert_eq(find(cache, "shop", "sales"), exact);
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, what_is_held_is_not_evicted)
{
	struct rule_set *set = SET({"tenant_*", "posts", NULL, "more"});
	struct namespace_cache *cache = namespace_cache_new(set);
	const struct ruled_namespace *held = find(cache, "tenant_x", "posts");
	uint64_t serial = held->serial;

	namespace_hold(held);
	namespace_hold(held);
	namespace_release(held);
	find_many(cache, 0, 5 * NAMESPACE_CACHE_KEPT);
	cr_assert_eq(find(cache, "tenant_x", "posts"), held);
	cr_assert_str_eq(held->database, "tenant_x");
	cr_assert_eq(held->serial, serial);
	namespace_release(held);
	find_many(cache, 0, 5 * NAMESPACE_CACHE_KEPT);
	cr_assert_neq(find(cache, "tenant_x", "posts")->serial, serial);
	namespace_hold(NULL);
	namespace_release(NULL);
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, what_is_used_again_and_again_is_kept)
{
	struct rule_set *set = SET({"tenant_*", "posts", NULL, "more"});
	struct namespace_cache *cache = namespace_cache_new(set);
	uint64_t serial = find(cache, "tenant_x", "posts")->serial;

	for (int i = 0; i < 1000; i++) {
		find_many(cache, 100 * i, 100 * (i + 1));
		cr_assert_eq(find(cache, "tenant_x", "posts")->serial, serial);
	}
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, every_name_that_stays_is_found_after_others_were_evicted)
{
	struct rule_set *set = SET({"tenant_*", "posts", NULL, "more"});
	struct namespace_cache *cache = namespace_cache_new(set);
	struct held {
		const struct ruled_namespace *namespace;
		char name[32];
	} *all = must_calloc(2000, sizeof(*all));

	for (int i = 0; i < 2000; i++) {
		find_many(cache, 50 * i, 50 * i + 49);
		snprintf(all[i].name, sizeof(all[i].name), "tenant_%d", 50 * i + 49);
		all[i].namespace = find(cache, all[i].name, "posts");
		namespace_hold(all[i].namespace);
	}
	for (int i = 0; i < 2000; i++) {
		cr_assert_eq(find(cache, all[i].name, "posts"), all[i].namespace);
		namespace_release(all[i].namespace);
	}
	free(all);
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, no_rule_is_on_a_name_that_mongod_cannot_have)
{
	struct rule_set *set = SET({"tenant_*", "*", NULL, "{collection}_more"});
	struct namespace_cache *cache = namespace_cache_new(set);
	char name[300];

	memset(name, 'x', sizeof(name));
	name[255 - strlen("tenant_1.")] = '\0';
	cr_assert_not_null(find(cache, "tenant_1", name));
	cr_assert_null(find(cache, "tenant_12", name));
	namespace_cache_free(cache);
	rule_set_unref(set);
}

struct visits {
	size_t entered, left;
};

static void enter(void *context)
{
	((struct visits *)context)->entered++;
}

static void leave(void *context)
{
	((struct visits *)context)->left++;
}

Test(rules, while_a_cache_is_shared_each_look_enters_its_guard)
{
	struct rule_set *set = SET({"tenant_*", "posts", NULL, "extra"});
	struct namespace_cache *cache = namespace_cache_new(set), *after;
	struct visits visits = {0};
	const struct namespace_guard guard = {enter, leave, &visits};

	cr_assert_not_null(find(cache, "tenant_1", "posts"));
	cr_assert_eq(visits.entered, 0);
	namespace_cache_share(cache, &guard);
	cr_assert_not_null(find(cache, "tenant_1", "posts"));
	cr_assert_null(find(cache, "tenant_1", "other"));
	after = namespace_cache_after(cache, set); /* looks at the serials */
	cr_assert_eq(visits.entered, 3);
	cr_assert_eq(visits.left, 3);
	cr_assert_not_null(find(after, "tenant_1", "posts"));
	namespace_cache_share(cache, NULL);
	cr_assert_not_null(find(cache, "tenant_2", "posts"));
	cr_assert_eq(visits.entered, 3);
	namespace_cache_trim(cache);
	namespace_cache_free(after);
	namespace_cache_free(cache);
	rule_set_unref(set);
}

Test(rules, a_set_lives_as_long_as_its_last_reference)
{
	struct rule_set *set = SET({"shop", "sales", NULL, "extra_sales"});
	struct namespace_cache *cache = namespace_cache_new(set);

	rule_set_unref(set);
	cr_assert_eq(namespace_cache_rules(cache), set);
	cr_assert_eq(rule_set_count(set), 1);
	namespace_cache_free(cache);
	namespace_cache_free(NULL);
	rule_set_unref(NULL);
}

Test(rules, paths_relate_by_whole_names)
{
	cr_assert_eq(path_relate(bytes_of("a.b"), "a.b"), PATH_SAME);
	cr_assert_eq(path_relate(bytes_of("a"), "a.b"), PATH_ABOVE);
	cr_assert_eq(path_relate(bytes_of("a.b.c"), "a.b"), PATH_BELOW);
	cr_assert_eq(path_relate(bytes_of("a.b.0.$"), "a.b"), PATH_BELOW);
	cr_assert_eq(path_relate(bytes_of("a.bc"), "a.b"), PATH_APART);
	cr_assert_eq(path_relate(bytes_of("a.b"), "a.bc"), PATH_APART);
	cr_assert_eq(path_relate(bytes_of("ab"), "a.b"), PATH_APART);
	cr_assert_eq(path_relate(bytes_of("b"), "a"), PATH_APART);
	cr_assert_eq(path_relate(bytes_of(""), "a"), PATH_APART);
	cr_assert_eq(path_relate((struct bytes){0}, "a"), PATH_APART);
}
