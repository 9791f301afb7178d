/* Tests rules/rule/counts.c: which overflow documents count of an array that was edited in place.
 */
#include "tests/unit/wire_make.h"

#include "rules/rule/counts.h"

#include <stdio.h>

#define OLDER "{'$binary': {'base64': 'AQEBAQEBAQEBAQEBAQEBAQ==', 'subType': '00'}}"
#define LATER "{'$binary': {'base64': 'AgICAgICAgICAgICAgICAg==', 'subType': '00'}}"
#define OTHER "{'$binary': {'base64': 'AwMDAwMDAwMDAwMDAwMDAw==', 'subType': '00'}}"

/* Nine positions, six of them of before the first edit; edition 2. */
static struct state state_now(void)
{
	struct element field;
	struct state state;

	cr_assert(document_find(made_bson("{'s': {'e': {'g': " OLDER ", 'l': " LATER
					  ", 'b': 6, 'h': 2, 'n': 9, 'r': 1, 'v': 2}}}"),
				"s", &field));
	cr_assert_null(state_read_any(&field, true, &state));
	return state;
}

static struct placed placed_of(const char *json)
{
	struct placed placed;

	cr_assert(placed_find(made_bson(made_text("{'_spill': %s}", json)), &placed), "%s", json);
	return placed;
}

static void expect_counting(const char *json, bool counts)
{
	const struct state state = state_now();
	const struct placed placed = placed_of(json);

	cr_assert_eq(placed_counts(&placed, &state), counts, "%s", json);
}

Test(counts, a_batch_counts_from_one_edition_to_before_another)
{
	expect_counting("{'g': " OLDER ", 'p': 0}", true);
	expect_counting("{'g': " OLDER ", 'p': 0, 'u': 3}", true);
	expect_counting("{'g': " OLDER ", 'p': 0, 'u': 2}", false);
	expect_counting("{'g': " LATER ", 'p': 0, 'e': 2, 'w': 3}", true);
	expect_counting("{'g': " LATER ", 'p': 0, 'e': 3, 'w': 3}", false);
	expect_counting("{'g': " LATER ", 'p': 0, 'e': 1, 'u': 2, 'w': 3}", false);
	expect_counting("{'g': " OTHER ", 'p': 0}", false);
}

Test(counts, older_batches_count_up_to_the_first_edit_and_later_ones_up_to_the_end)
{
	expect_counting("{'g': " OLDER ", 'p': 5}", true);
	expect_counting("{'g': " OLDER ", 'p': 6}", false);
	expect_counting("{'g': " LATER ", 'p': 8}", true);
	expect_counting("{'g': " LATER ", 'p': 9}", false);
}

Test(counts, what_no_spillway_writes_is_told)
{
	static const char *const broken[] = {
		"{'g': " OLDER "}",
		"{'p': 1}",
		"{'g': " OLDER ", 'p': -1}",
		"{'g': " OLDER ", 'p': 'x'}",
		"{'g': " OLDER ", 'p': 0, 'e': -1}",
		"{'g': " OLDER ", 'p': 0, 'u': 'x'}",
		"{'g': " OLDER ", 'p': 0, 'w': -1}",
		"{'g': " OLDER ", 'p': {'$numberLong': '9223372036854775807'}}",
		"[]",
	};
	struct placed placed;

	for (size_t i = 0; i < ARRAY_LENGTH(broken); i++)
		cr_assert_not(
			placed_find(made_bson(made_text("{'_spill': %s}", broken[i])), &placed),
			"%s", broken[i]);
	cr_assert_not(placed_find(made_bson("{'a': 1}"), &placed));
}

/* A document of the table: its `_spill`, and how many elements it holds. */
struct stored {
	const char *json;
	int64_t held;
};

/* What is taken: "<which>+<skip>x<elements> ...", then how it ends. */
static void expect_pieces(const struct stored *stored, size_t count, const char *expected)
{
	const struct state state = state_now();
	struct counted all[8];
	const struct counted *of;
	struct counts counts;
	enum counts_step step;
	int64_t skip, take;
	char text[200] = "";

	cr_assert(count <= ARRAY_LENGTH(all));
	for (size_t i = 0; i < count; i++)
		all[i] = (struct counted){placed_of(stored[i].json), stored[i].held, i};
	counts_open(&counts, &state, all, count);
	while ((step = counts_next(&counts, &of, &skip, &take)) == COUNTS_PIECE)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%zu+%lldx%lld ",
			 of->index, (long long)skip, (long long)take);
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s",
		 step == COUNTS_END ? "end" : "hole");
	cr_assert_str_eq(text, expected);
}

#define EXPECT_PIECES(expected, ...) \
	do { \
		static const struct stored stored[] = {__VA_ARGS__}; \
		expect_pieces(stored, ARRAY_LENGTH(stored), expected); \
	} while (0)

Test(counts, pieces_come_by_their_positions_and_a_copy_stands_for_its_width)
{
	EXPECT_PIECES("2+0x2 0+0x3 1+0x3 end", {"{'g': " OLDER ", 'p': 3}", 3},
		      {"{'g': " LATER ", 'p': 6, 'e': 1}", 3},
		      {"{'g': " LATER ", 'p': 0, 'e': 2, 'w': 3}", 2});
	EXPECT_PIECES("0+0x0 1+0x3 2+0x3 end", {"{'g': " LATER ", 'p': 0, 'e': 2, 'w': 3}", 0},
		      {"{'g': " OLDER ", 'p': 3}", 3}, {"{'g': " LATER ", 'p': 6}", 3});
}

Test(counts, an_older_batch_ends_where_a_later_one_begins_and_at_the_bound)
{
	EXPECT_PIECES("1+0x3 0+0x2 2+0x3 end", {"{'g': " LATER ", 'p': 3, 'e': 1, 'w': 3}", 2},
		      {"{'g': " OLDER ", 'p': 0}", 5}, {"{'g': " LATER ", 'p': 6}", 4});
	EXPECT_PIECES("0+0x6 1+0x3 end", {"{'g': " OLDER ", 'p': 0}", 9},
		      {"{'g': " LATER ", 'p': 6}", 3});
}

Test(counts, older_batches_may_overlap)
{
	EXPECT_PIECES("0+0x4 1+2x2 2+0x3 end", {"{'g': " OLDER ", 'p': 0}", 4},
		      {"{'g': " OLDER ", 'p': 2}", 4}, {"{'g': " LATER ", 'p': 6}", 3});
	EXPECT_PIECES("0+0x5 2+2x1 3+0x3 end", {"{'g': " OLDER ", 'p': 0}", 5},
		      {"{'g': " OLDER ", 'p': 1}", 2}, {"{'g': " OLDER ", 'p': 3}", 3},
		      {"{'g': " LATER ", 'p': 6}", 3});
}

Test(counts, a_copy_that_was_met_twice_counts_once)
{
	EXPECT_PIECES("0+0x2 2+0x3 3+0x3 end", {"{'g': " LATER ", 'p': 0, 'e': 1, 'w': 3}", 2},
		      {"{'g': " LATER ", 'p': 0, 'e': 1, 'w': 3}", 2},
		      {"{'g': " OLDER ", 'p': 3}", 3}, {"{'g': " LATER ", 'p': 6}", 3});
}

Test(counts, a_hole_is_told)
{
	EXPECT_PIECES("0+0x3 hole", {"{'g': " OLDER ", 'p': 0}", 3},
		      {"{'g': " LATER ", 'p': 6}", 3});
	EXPECT_PIECES("hole", {"{'g': " LATER ", 'p': 6}", 3});
	EXPECT_PIECES("0+0x6 1+0x2 hole", {"{'g': " OLDER ", 'p': 0}", 6},
		      {"{'g': " LATER ", 'p': 6}", 2});
	/* Which elements of a copy lie behind a position is not known. */
	EXPECT_PIECES("0+0x4 hole", {"{'g': " LATER ", 'p': 0}", 4},
		      {"{'g': " LATER ", 'p': 3, 'e': 1, 'w': 3}", 2},
		      {"{'g': " LATER ", 'p': 6}", 3});
}
