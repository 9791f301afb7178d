/* Tests proxy/upstream/target.c: one target for each rule on a concrete namespace, and what is
 * unfit.
 */
#include "tests/unit/unit.h"

#include "proxy/upstream/target.h"

#include <malloc.h>
#include <stdio.h>

static struct rule_set *two_rules(void)
{
	struct rule *rules = must_calloc(2, sizeof(*rules));

	for (int i = 0; i < 2; i++) {
		rules[i].name = must_strndup(i ? "b" : "a", 1);
		rules[i].database = must_strndup("shop*", 5);
		rules[i].collection = must_strndup("books", 5);
		rules[i].array = must_strndup(i ? "g" : "f", 1);
		rules[i].overflow.collection = must_strndup("{collection}_more", 17);
	}
	return rule_set_new(rules, 2);
}

static struct mover_target *get(struct target_set *set, const struct rule *rule,
				const char *database)
{
	struct mover_target *target = target_get(set, rule, bytes_of(database), bytes_of("books"));

	cr_assert_not_null(target);
	return target;
}

Test(mover_target, a_rule_on_a_namespace_is_one_target)
{
	struct rule_set *rules = two_rules();
	struct target_set *set = target_set_new(rules);
	struct mover_target *first = get(set, rule_set_at(rules, 0), "shop1");

	cr_assert_eq(get(set, rule_set_at(rules, 0), "shop1"), first);
	cr_assert_neq(get(set, rule_set_at(rules, 1), "shop1"), first);
	cr_assert_neq(get(set, rule_set_at(rules, 0), "shop2"), first);
	cr_assert_str_eq(first->overflow_database, "shop1");
	cr_assert_str_eq(first->overflow_collection, "books_more");
	cr_assert_eq(target_at(set, 0), first);
	cr_assert_null(target_at(set, 3));
	target_set_free(set);
	rule_set_unref(rules);
}

/* There may be 200,000. */
Test(mover_target, a_target_takes_little_memory)
{
	struct rule_set *rules = two_rules();
	struct target_set *set = target_set_new(rules);
	size_t before = mallinfo2().uordblks, made = 0, taken;
	char name[32];

	for (size_t i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "shop%zu", i);
		made += target_get(set, rule_set_at(rules, 0), bytes_of(name), bytes_of("books")) !=
			NULL;
	}
	taken = mallinfo2().uordblks - before;
	cr_assert_eq(made, 5000);
	cr_assert_lt(taken / made, 1300, "%zu bytes a target", taken / made);
	target_set_free(set);
	rule_set_unref(rules);
}

/* Stored generations name their array so: this may not change. */
Test(mover_target, a_generation_says_for_which_array_it_was_born)
{
	static const uint8_t of_first[8] = {0xd5, 0xce, 0xdf, 0x64, 0x90, 0xdb, 0xaf, 0x63};
	struct rule_set *rules = two_rules();
	struct target_set *set = target_set_new(rules);
	struct mover_target *first = get(set, rule_set_at(rules, 0), "shop1");
	uint8_t generation[GENERATION_BYTES], next[GENERATION_BYTES];

	target_new_generation(first, generation);
	target_new_generation(first, next);
	cr_assert_arr_eq(generation, of_first, 8);
	cr_assert_arr_eq(next, of_first, 8);
	cr_assert_arr_neq(next + 8, generation + 8, 8);
	cr_assert(target_named(first, generation));
	cr_assert_not(target_named(get(set, rule_set_at(rules, 1), "shop1"), generation));
	cr_assert_not(target_named(get(set, rule_set_at(rules, 0), "shop2"), generation));
	target_set_free(set);
	rule_set_unref(rules);
}

Test(mover_target, many_are_found_again)
{
	struct rule_set *rules = two_rules();
	struct target_set *set = target_set_new(rules);
	struct mover_target *made[2000];
	char database[16];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 2000; i++) {
			snprintf(database, sizeof(database), "shop%d", i);
			if (round == 0)
				made[i] = get(set, rule_set_at(rules, 0), database);
			cr_assert_eq(get(set, rule_set_at(rules, 0), database), made[i]);
		}
	}
	target_set_free(set);
	rule_set_unref(rules);
}

Test(mover_target, a_namespace_is_unfit_where_one_of_its_targets_is)
{
	struct rule_set *rules = two_rules();
	struct target_set *set = target_set_new(rules);
	struct mover_target *second;
	char reason[64];

	get(set, rule_set_at(rules, 0), "shop1");
	second = get(set, rule_set_at(rules, 1), "shop1");
	cr_assert_not(
		target_unfit(set, bytes_of("shop1"), bytes_of("books"), reason, sizeof(reason)));
	target_judge(set, second, FITNESS_UNFIT, "it is a view");
	cr_assert(target_unfit(set, bytes_of("shop1"), bytes_of("books"), reason, sizeof(reason)));
	cr_assert_str_eq(reason, "it is a view");
	cr_assert_not(
		target_unfit(set, bytes_of("shop2"), bytes_of("books"), reason, sizeof(reason)));
	target_judge(set, second, FITNESS_UNFIT, "it is a view");
	target_judge(set, second, FITNESS_FIT, "");
	cr_assert_not(
		target_unfit(set, bytes_of("shop1"), bytes_of("books"), reason, sizeof(reason)));
	target_set_free(set);
	rule_set_unref(rules);
}

static void meet(struct target_set *set, const char *id, int64_t elements)
{
	target_met(set, target_at(set, 0), 2, bytes_of(id), elements);
}

static void expect_longest(struct target_set *set, const char *ids)
{
	struct target_view view;
	char found[32] = "";

	cr_assert(target_view(set, 0, &view));
	for (size_t i = 0; i < TARGET_LONG_COUNT && view.longest[i].id; i++)
		strncat(found, (const char *)view.longest[i].id, view.longest[i].id_length);
	cr_assert_str_eq(found, ids);
	target_view_fini(&view);
}

Test(mover_target, the_longest_are_remembered)
{
	struct rule_set *rules = two_rules();
	struct target_set *set = target_set_new(rules);
	struct target_view view;

	cr_assert_not(target_view(set, 0, &view));
	get(set, rule_set_at(rules, 0), "shop1");
	expect_longest(set, "");
	meet(set, "a", 10);
	meet(set, "b", 30);
	meet(set, "c", 20);
	expect_longest(set, "bca");
	meet(set, "a", 40);
	expect_longest(set, "abc");
	meet(set, "d", 50);
	meet(set, "e", 5);
	expect_longest(set, "dabce");
	meet(set, "f", 6);
	expect_longest(set, "dabcf");
	meet(set, "g", 1);
	expect_longest(set, "dabcf");
	meet(set, "d", 2);
	expect_longest(set, "abcfd");
	target_set_free(set);
	rule_set_unref(rules);
}
