/* Tests proxy/spill/fold.c and twins.c: what goes to the server, byte for byte. */
#include "tests/unit/spilling.h"

#include "proxy/spill/fold.h"
#include "proxy/spill/twins.h"

#define NONE SCRIPTED_BATCH("[]")
#define MAIN(state) \
	SCRIPTED_BATCH("[{'_id': 7, 'a': {'f': [1, 2, 3]}, 'f': [1, 2, 3], '_spill': {" state "}}" \
		       "]")
#define PLAIN_STATE "'f': {'g': " G ", 'h': 3, 'n': 2}"
#define FULL_STATE(b) "'a/f': {'g': " G ", 'h': 3, 'n': 2, 'a': ['big'], 'b': " b "}"
#define BATCH SCRIPTED_BATCH("[{'of': 7, 'more': [4, 5], '_spill': {'g': " G ", 'p': 0}}]")

static void fold(const struct rule *rule, struct fold_how how, enum fold wanted,
		 const char *const *replies)
{
	struct mover_target target = spilling_target(rule);
	struct scripted script;
	struct element id;
	enum fold end;
	int64_t elements;

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	cr_assert(document_find(made_bson("{'_id': 7}"), "_id", &id));
	cr_assert_eq(fold_document(script.link, &target, &id, &how, &end, &elements), LINK_DONE);
	cr_assert_eq(end, wanted);
	scripted_end(&script);
}

#define expect_fold(rule, what, end, ...) \
	fold((rule), (struct fold_how){.purpose = (what)}, (end), \
	     (const char *const[]){__VA_ARGS__, NULL})

Test(fold, the_elements_go_back_and_the_state_goes)
{
	expect_fold(&plain_rule, FOLD_BACK, FOLD_DONE, MAIN(PLAIN_STATE), BATCH, SCRIPTED_DONE(1));
	expect_fold(&plain_rule, FOLD_BACK, FOLD_DONE, MAIN(PLAIN_STATE ", 'other': 1"), BATCH,
		    SCRIPTED_DONE(1));
	expect_fold(&plain_rule, FOLD_BACK, FOLD_DONE, MAIN("'f': {'g': " G ", 'h': 3, 'n': 0}"),
		    SCRIPTED_DONE(1));
}

Test(fold, what_was_written_beside_the_array_returns_or_goes)
{
	expect_fold(&full_rule, FOLD_BACK, FOLD_DONE, MAIN(FULL_STATE("{'d': 4, 'f': 1}")), BATCH,
		    SCRIPTED_DONE(1));
	expect_fold(&full_rule, FOLD_LEAVES, FOLD_DONE, MAIN(FULL_STATE("{'c': true, 'r': 'x'}")),
		    BATCH, SCRIPTED_DONE(1));
}

Test(fold, the_next_generation_comes_at_once)
{
	expect_fold(&full_rule, FOLD_ANEW, FOLD_DONE, MAIN(FULL_STATE("{'d': 4}")), BATCH,
		    SCRIPTED_DONE(1));
	expect_fold(&plain_rule, FOLD_ANEW, FOLD_DONE, MAIN(PLAIN_STATE), BATCH, SCRIPTED_DONE(1));
}

Test(fold, an_empty_spill_goes)
{
	expect_fold(&plain_rule, FOLD_BACK, FOLD_DONE, MAIN(""), SCRIPTED_DONE(1));
}

#define NAME(letter) "{'$binary': {'base64': '" letter "', 'subType': '00'}}"
#define LATER NAME("AgICAgICAgICAgICAgICAg==")
#define EDITED "'f': {'e': {'g': " G ", 'l': " LATER ", 'b': 0, 'h': 3, 'n': 2, 'r': 0, 'v': 1}}"
#define PART(at) "{'of': 7, 'more': [4], '_spill': {'g': " LATER ", 'p': " at "}}"

/* The second part passes the limit, the first one does not. */
Test(fold, an_array_edited_in_place_is_measured_to_its_last_part)
{
	fold(&plain_rule, (struct fold_how){.purpose = FOLD_ANEW, .most = 310}, FOLD_TOO_LARGE,
	     (const char *const[]){MAIN(EDITED), SCRIPTED_BATCH("[" PART("0") ", " PART("1") "]"),
				   NULL});
	fold(&plain_rule, (struct fold_how){.purpose = FOLD_ANEW, .most = 1000}, FOLD_DONE,
	     (const char *const[]){MAIN(EDITED), SCRIPTED_BATCH("[" PART("0") ", " PART("1") "]"),
				   SCRIPTED_DONE(1), NULL});
}

/* Folded, each element would be the last one: their views would look into one scratch buffer. */
Test(fold, an_array_of_elements_that_is_said_to_be_edited_in_place_stays)
{
	expect_fold(&elements_rule, FOLD_LEAVES, FOLD_BROKEN, MAIN(EDITED));
}

static void find_twins(const struct rule *rule, bool foreign)
{
	static const char *const replies[] = {SCRIPTED_BATCH("[{'_id': 5}, {'link': 6}]"), NULL};
	struct mover_target target = spilling_target(rule);
	struct buffer links = {0};
	struct scripted script;

	scripted_begin(&script, SCRIPTED_MEMBER, replies);
	cr_assert_eq(twins_find(script.link, &target, foreign, 5, &links), LINK_DONE);
	cr_assert(bytes_equal(buffer_view(&links), made_bson("{'_id': 5}")));
	buffer_fini(&links);
	scripted_end(&script);
}

Test(fold, twins_are_grouped_by_link_and_place)
{
	find_twins(&plain_rule, false);
	find_twins(&full_rule, true);
}
