/* Tests proxy/spill/round.c and its commands, round_main.c and round_overflow.c: what goes to the
 * server, byte for byte. */
#include "tests/unit/spilling.h"

#include "proxy/base/metrics.h"
#include "proxy/spill/pass.h"
#include "rules/rule/generation.h"

#define NONE SCRIPTED_BATCH("[]")
#define LONG_ARRAY "'f': [1, 2, 3, 4, 5, 6]"
#define FIFTY "01234567890123456789012345678901234567890123456789"
#define LONG_TEXT FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY
#define SEVEN "{'_id': 7, "
#define OPEN(number, position, held) \
	"{'number': " #number ", 'position': " #position ", 'held': " #held ", 'size': 30}"

static struct metrics metrics;

static struct round round_of(struct scripted *script, struct mover_target *target,
			     const struct element *id)
{
	return (struct round){.link = script->link,
			      .target = target,
			      .metrics = &metrics,
			      .id_type = id->type,
			      .id = id->value};
}

static struct element seven(void)
{
	struct element id;

	cr_assert(document_find(made_bson("{'_id': 7}"), "_id", &id));
	return id;
}

static void play(const char *hello, const struct rule *rule, bool hot, const char *const *replies,
		 enum round_end end)
{
	struct mover_target target = spilling_target(rule);
	struct scripted script;
	struct element id;
	struct round round;

	scripted_begin(&script, hello, replies);
	id = seven();
	round = round_of(&script, &target, &id);
	round.hot = hot;
	cr_assert_eq(round_run(&round), end);
	scripted_end(&script);
}

#define expect_round(rule, end, ...) \
	play(SCRIPTED_MEMBER, (rule), false, (const char *const[]){__VA_ARGS__, NULL}, (end))

Test(round, an_array_is_born_and_moved)
{
	expect_round(&plain_rule, ROUND_REST, SCRIPTED_BATCH("[" SEVEN LONG_ARRAY "}]"), NONE,
		     SCRIPTED_DONE(1), SCRIPTED_BATCH("[" SEVEN LONG_ARRAY ", " S(3, 0) "}]"), NONE,
		     SCRIPTED_DONE(2), SCRIPTED_DONE(1));
}

Test(round, a_standalone_gets_other_concerns)
{
	static const char *const replies[] = {
		SCRIPTED_BATCH("[" SEVEN LONG_ARRAY "}]"),
		NONE,
		SCRIPTED_DONE(1),
		SCRIPTED_BATCH("[" SEVEN LONG_ARRAY ", " S(3, 0) "}]"),
		NONE,
		SCRIPTED_DONE(2),
		SCRIPTED_DONE(1),
		NULL};

	play(SCRIPTED_ALONE, &plain_rule, true, replies, ROUND_REST);
}

Test(round, a_rule_with_everything)
{
	expect_round(&full_rule, ROUND_REST, SCRIPTED_BATCH("[" SEVEN "'a': {" LONG_ARRAY "}}]"),
		     NONE, SCRIPTED_DONE(1),
		     SCRIPTED_BATCH("[" SEVEN "'a': {" LONG_ARRAY "}, '_spill': {'a/f': {'g': " G
				    ", 'h': " LONG(3) ", 'n': " LONG(0) "}}}]"),
		     NONE, SCRIPTED_DONE(2), SCRIPTED_DONE(1));
}

Test(round, a_large_document_gets_no_padding_and_a_document_as_id_no_reference)
{
	expect_round(&full_rule, ROUND_RETRY,
		     SCRIPTED_BATCH("[{'_id': {'x': 1}, 'a': {" LONG_ARRAY "}, 'text': '" LONG_TEXT
				    "'}]"),
		     NONE, SCRIPTED_DONE(1),
		     SCRIPTED_BATCH("[{'_id': {'x': 1}, 'a': {" LONG_ARRAY
				    "}, '_spill': {'a/f': {'g': " G
				    ", 'h': " LONG(3) ", 'n': " LONG(4294967296) "}}}]"),
		     SCRIPTED_BATCH("[" OPEN(9, 4294967295, 1) "]"), SCRIPTED_DONE(1),
		     SCRIPTED_DONE(2), SCRIPTED_DONE(0));
}

Test(round, elements_have_documents_of_their_own)
{
	expect_round(&elements_rule, ROUND_REST,
		     SCRIPTED_BATCH("[" SEVEN "'f': [{'x': 1}, 2, {'_id': 3, 'y': 4}, 5]}]"), NONE,
		     SCRIPTED_DONE(1),
		     SCRIPTED_BATCH("[" SEVEN
				    "'f': [{'x': 1}, 2, {'_id': 3, 'y': 4}, 5], " S(0, 0) "}]"),
		     NONE, SCRIPTED_DONE(4), SCRIPTED_DONE(1));
}

Test(round, the_open_batch_is_filled_while_pushes_go_on)
{
	static const char *const replies[] = {
		SCRIPTED_DONE(0),
		SCRIPTED_BATCH("[" SEVEN LONG_ARRAY ", " S(3, 1) "}]"),
		SCRIPTED_BATCH("[" OPEN(1, 0, 1) "]"),
		SCRIPTED_DONE(1),
		SCRIPTED_DONE(1),
		SCRIPTED_DONE(1),
		NULL};

	play(SCRIPTED_MEMBER, &plain_rule, true, replies, ROUND_REST);
}

Test(round, the_batch_that_reaches_furthest_is_looked_for)
{
	expect_round(&full_rule, ROUND_REST,
		     SCRIPTED_BATCH("[" SEVEN "'a': {" LONG_ARRAY "}, '_spill': {'a/f': {'g': " G
				    ", 'h': " LONG(3) ", 'n': " LONG(3) "}}}]"),
		     SCRIPTED_BATCH("[" OPEN(2, 1, 1) ", " OPEN(1, 0, 3) "]"),
		     SCRIPTED_BATCH("[" OPEN(2, 1, 1) ", " OPEN(1, 0, 3) "]"), SCRIPTED_DONE(2),
		     SCRIPTED_DONE(1));
}

Test(round, what_is_stored_already_is_linked)
{
	expect_round(&plain_rule, ROUND_RETRY,
		     SCRIPTED_BATCH("[" SEVEN LONG_ARRAY ", " S(3, 1) "}]"),
		     SCRIPTED_BATCH("[" OPEN(1, 0, 2) "]"),
		     SCRIPTED_BATCH("[{'more': [0, 4], '_spill': {'g': " G ", 'p': 0, 'i': 1}}]"),
		     SCRIPTED_DONE(0));
}

Test(round, places_that_are_taken_are_looked_at)
{
	expect_round(
		&plain_rule, ROUND_LEFT, SCRIPTED_BATCH("[" SEVEN LONG_ARRAY ", " S(3, 0) "}]"),
		NONE,
		"{'ok': 1.0, 'n': 0, 'writeErrors': [{'index': 0, 'code': 11000, 'keyPattern': "
		"{'of': 1, '_spill.i': 1}}]}",
		SCRIPTED_BATCH("[{'_id': 1}]"));
}

Test(round, a_state_that_is_not_needed_is_taken_away)
{
	expect_round(&plain_rule, ROUND_REST, SCRIPTED_BATCH("[" SEVEN "'f': [1], " S(3, 0) "}]"),
		     SCRIPTED_DONE(1), SCRIPTED_BATCH("[" SEVEN "'f': [1]}]"));
}

Test(round, with_what_stood_there_before)
{
	expect_round(&full_rule, ROUND_RETRY,
		     SCRIPTED_BATCH("[" SEVEN "'a': {'f': [1]}, '_spill': {'a/f': {'g': " G
				    ", 'h': " LONG(3) ", 'n': " LONG(
					    0) ", 'a': [], 'b': {'d': 4, 'r': 'x'}}}}]"),
		     SCRIPTED_DONE(0));
	expect_round(&full_rule, ROUND_RETRY,
		     SCRIPTED_BATCH("[" SEVEN "'a': {'f': [1]}, '_spill': {'a/f': {'g': " G
				    ", 'h': " LONG(3) ", 'n': " LONG(
					    0) ", 'a': ['big'], 'b': {'c': true}}}}]"),
		     SCRIPTED_DONE(0));
}

Test(round, an_empty_spill_is_taken_away)
{
	expect_round(&plain_rule, ROUND_REST, SCRIPTED_BATCH("[" SEVEN "'f': [1], '_spill': {}}]"),
		     SCRIPTED_DONE(1));
}

static void adopt(const struct rule *rule, const char *flag)
{
	static const char *const replies[] = {SCRIPTED_DONE(1), NULL};
	struct mover_target target = spilling_target(rule);
	struct scripted script;
	struct element id, value;
	struct round round;
	struct pass_state pass;

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	id = seven();
	round = round_of(&script, &target, &id);
	pass = (struct pass_state){.round = &round,
				   .link = script.link,
				   .rule = rule,
				   .target = &target,
				   .adopted = true,
				   .open = {.number = 2}};
	pass.plan = (struct plan){.id = id, .head = 3, .moved = 4, .elements = 4};
	cr_assert(generation_find(made_bson("{'g': " G "}"), "g", &pass.plan.generation));
	if (flag)
		cr_assert(document_find(made_bson(flag), "f", &value));
	cr_assert_eq(main_adopt(&pass, flag ? &value : NULL), LINK_DONE);
	scripted_end(&script);
}

Test(round, what_was_split_by_hand_is_adopted)
{
	adopt(&plain_rule, NULL);
	adopt(&full_rule, "{'f': true}");
}

#define NAME(letter) "{'$binary': {'base64': '" letter "', 'subType': '00'}}"
#define EDITED \
	"'_spill': {'f': {'e': {'g': " NAME("AQEBAQEBAQEBAQEBAQEBAQ==") ", 'l': " NAME( \
		"AgICAgICAgICAgICAgICAg==") ", 'b': 2, 'h': 2, 'n': 4, 'r': 1, 'v': 3}}}"

Test(round, the_tail_of_an_array_that_was_edited_in_place_moves_in_a_transaction)
{
	expect_round(&plain_rule, ROUND_REST, SCRIPTED_BATCH("[" SEVEN LONG_ARRAY ", " EDITED "}]"),
		     SCRIPTED_DONE(1), SCRIPTED_BATCH("[{'number': 5}]"),
		     SCRIPTED_BATCH("[" OPEN(4, 3, 1) "]"), SCRIPTED_DONE(1), SCRIPTED_DONE(2),
		     SCRIPTED_DONE(1), SCRIPTED_DONE(0));
}

Test(round, an_edit_that_came_first_ends_the_transaction)
{
	expect_round(&plain_rule, ROUND_RETRY,
		     SCRIPTED_BATCH("[" SEVEN LONG_ARRAY ", " EDITED "}]"), SCRIPTED_DONE(0),
		     SCRIPTED_DONE(0));
}
