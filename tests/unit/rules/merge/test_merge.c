/* Tests rules/merge/merge.c, merge_ask.c, merge_fill.c: what becomes of a reply's documents and
 * their overflow. */
#include "tests/unit/unit.h"

#include "protocol/writer.h"
#include "rules/merge/merge.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

/* JSON is written with ' for ". Two generations: 16 bytes of 1 and of 2; and what is none. */
#define G1 "{'$binary': {'base64': 'AQEBAQEBAQEBAQEBAQEBAQ==', 'subType': '00'}}"
#define G2 "{'$binary': {'base64': 'AgICAgICAgICAgICAgICAg==', 'subType': '00'}}"
#define SHORT_G "{'$binary': {'base64': 'AgICAgICAgICAgICAgIC', 'subType': '00'}}"
#define UUID_G "{'$binary': {'base64': 'AgICAgICAgICAgICAgICAg==', 'subType': '04'}}"

#define STATE(key, g, h, n) "'" key "': {'g': " g ", 'h': " #h ", 'n': " #n "}"

/* shop.books: `f` and `a.f`; the first rule's names are hidden, the second's exposed. */
static struct rule rules[] = {
	{
		.name = "plain",
		.array = "f",
		.key = "f",
		.flag = {.field = "has_extras"},
		.counters = {.total = "total", .documents = "documents"},
		.reference = {.field = "reference"},
		.overflow = {.link = "book", .array = "more"},
	},
	{
		.name = "dotted",
		.array = "a.f",
		.key = "a/f",
		.flag = {.field = "flag"},
		.counters = {.total = "seen_total", .documents = "seen_documents"},
		.reference = {.field = "seen_reference"},
		.expose = {.flag = true, .counters = true, .reference = true},
		.overflow = {.link = "link", .array = "rest", .batch_field = "number"},
	},
	{
		.name = "neighbour",
		.array = "a.g",
		.key = "a/g",
		.overflow = {.link = "link", .array = "rest"},
	},
	{
		.name = "elements",
		.array = "c",
		.key = "c",
		.overflow = {.link = "post", .layout = RULE_ELEMENTS},
	},
};

static struct target targets[] = {
	{.rule = &rules[0]},
	{.rule = &rules[1]},
	{.rule = &rules[2]},
	{.rule = &rules[3]},
};

static const struct ruled_namespace books = {
	.database = "shop",
	.collection = "books",
	.target_count = ARRAY_LENGTH(targets),
	.targets = targets,
};

/* Memory that views need: of exactly their size, so that ASan sees each step beyond it. */
static void **all_kept;

static uint8_t *kept_copy(struct bytes document)
{
	void **memory = malloc(sizeof(*memory) + document.length);

	*memory = (void *)all_kept;
	all_kept = memory;
	if (document.length > 0)
		memcpy(memory + 1, document.data, document.length);
	return (uint8_t *)(memory + 1);
}

static struct bytes kept(struct bytes document)
{
	return (struct bytes){kept_copy(document), document.length};
}

static void drop_kept(void)
{
	while (all_kept) {
		void **memory = all_kept;

		all_kept = *memory;
		free(memory);
	}
}

static struct bytes bson(const char *json)
{
	bson_error_t error;
	char *text = bson_strdup(json);
	struct bytes copy;
	bson_t *made;

	for (char *quote = text; (quote = strchr(quote, '\''));)
		*quote = '"';
	made = bson_new_from_json((const uint8_t *)text, -1, &error);
	cr_assert(made, "%s: %s", json, error.message);
	copy = kept((struct bytes){bson_get_data(made), made->len});
	bson_destroy(made);
	bson_free(text);
	return copy;
}

static bool equals_json(struct bytes document, const char *json)
{
	struct bytes expected = bson(json);

	return bytes_equal(document, expected);
}

static char *json_of(struct bytes document)
{
	bson_t view;

	cr_assert(bson_init_static(&view, document.data, document.length));
	return bson_as_relaxed_extended_json(&view, NULL);
}

/* Document `index`, written, is this. */
static void expect(const struct merge *merge, size_t index, const char *json)
{
	auto_buffer struct buffer out = {0};
	char *text;

	buffer_append(&out, "before", 6);
	cr_assert(merge_write_document(merge, index, &out));
	buffer_consume(&out, 6);
	text = json_of(buffer_view(&out));
	cr_assert(equals_json(buffer_view(&out), json), "is %s\nnot %s", text, json);
	bson_free(text);
}

static void expect_dead(const struct merge *merge, size_t index)
{
	auto_buffer struct buffer out = {0};

	buffer_append(&out, "before", 6);
	cr_assert_not(merge_write_document(merge, index, &out));
	cr_assert_eq(out.length, 6);
}

static struct merge *merge_of(const char *json)
{
	struct merge *merge = merge_new(&books);

	cr_assert_eq(merge_add_document(merge, bson(json)), MERGE_TAKEN);
	return merge;
}

static void ask(struct merge *merge, size_t target)
{
	auto_buffer struct buffer out = {0};

	cr_assert(merge_wants(merge, target));
	merge_write_filter(merge, target, &out, "filter");
	cr_assert_not(merge_wants(merge, target));
}

static void answer(struct merge *merge, size_t target, const char *json)
{
	cr_assert(merge_add_overflow(merge, target, bson(json)));
}

Test(merge_read, a_document_without_state_goes_on_as_it_is)
{
	struct merge *merge = merge_of("{'_id': 1, 'f': [1, 2], 'a': 5}");

	cr_assert(merge_clean(merge));
	cr_assert_not(merge_wants(merge, 0));
	cr_assert_eq(merge_spilled_count(merge), 0);
	expect(merge, 0, "{'_id': 1, 'f': [1, 2], 'a': 5}");
	merge_free(merge);
}

Test(merge_read, overflow_comes_between_head_and_tail)
{
	struct merge *merge = merge_of("{'_id': 7, 'x': 1, 'f': [1, 2, 6], 'y': 2, "
				       "'_spill': {" STATE("f", G1, 2, 3) "}, 'z': 3}");

	cr_assert_not(merge_clean(merge));
	cr_assert_eq(merge_spilled_count(merge), 1);
	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [3, 4], '_spill': {'g': " G1 ", 'p': 0}}");
	expect_dead(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [5], '_spill': {'g': " G1 ", 'p': 2}}");
	expect(merge, 0, "{'_id': 7, 'x': 1, 'f': [1, 2, 3, 4, 5, 6], 'y': 2, 'z': 3}");
	merge_free(merge);
}

Test(merge_read, numbers_of_the_state_may_be_of_any_type)
{
	struct merge *merge =
		merge_of("{'_id': 1, 'f': [1, 3], '_spill': {'f': {'n': 1.0, 't': 5, 'a': [], "
			 "'h': {'$numberLong': '1'}, 'g': " G1 "}}}");

	ask(merge, 0);
	answer(merge, 0,
	       "{'book': 1, '_spill': {'p': {'$numberLong': '0'}, 'g': " G1 "}, 'more': [2]}");
	expect(merge, 0, "{'_id': 1, 'f': [1, 2, 3]}");
	merge_free(merge);
}

Test(merge_read, the_state_and_names_that_a_rule_hides_are_taken_out)
{
	struct merge *merge = merge_of("{'_id': 1, 'has_extras': true, 'f': [1], '_spill': {}, "
				       "'total': 1, 'sub': {'total': 2, '_spill': 3}, "
				       "'documents': 5, 'reference': 'r', 'last': 1}");

	cr_assert_not(merge_clean(merge));
	cr_assert_eq(merge_spilled_count(merge), 0);
	expect(merge, 0, "{'_id': 1, 'f': [1], 'sub': {'total': 2, '_spill': 3}, 'last': 1}");
	merge_free(merge);
}

Test(merge_read, a_document_that_was_computed_loses_its_mark_alone)
{
	struct merge *merge = merge_of("{'_spill/0': 1, 'f': [1], '_spill': {" STATE(
		"f", G1, 1, 2) "}, 'total': 1, 'has_extras': true, '_spill/computed': true}");

	cr_assert_not(merge_clean(merge));
	cr_assert_not(merge_wants(merge, 0));
	expect(merge, 0,
	       "{'_spill/0': 1, 'f': [1], '_spill': {" STATE(
		       "f", G1, 1, 2) "}, 'total': 1, 'has_extras': true}");
	merge_free(merge);
}

Test(merge_read, the_mark_counts_as_the_last_field_alone)
{
	struct merge *merge = merge_new(&books);

	cr_assert_eq(merge_add_document(merge, bson("{'_spill/computed': true, 'total': 1}")),
		     MERGE_SPARE);
	merge_free(merge);
}

Test(merge_read, a_batch_in_which_nothing_is_ours_is_untouched)
{
	static const char *const untouched[] = {
		"{}", "{'0': {'_id': 1, 'f': [1], 'a': {'f': [2]}}, '1': {}}",
		"{'0': {'flag': true, 'seen_total': 1, 'sub': {'_spill': 1, 'total': 2}}}"};
	static const char *const touched[] = {"{'0': {'_id': 1}, '1': {'x': 1, '_spill': {}}}",
					      "{'0': {'_spill/0': 1}}",
					      "{'0': {'has_extras': false}}",
					      "{'0': {'total': 1}}",
					      "{'0': {'documents': 1}}",
					      "{'0': {'reference': 1}}",
					      "{'0': {'_spill/computed': true}}",
					      "{'0': {'_id': 1}, '1': 5}"};

	for (size_t i = 0; i < ARRAY_LENGTH(untouched); i++)
		cr_assert(merge_untouched(&books, bson(untouched[i])), "%s", untouched[i]);
	for (size_t i = 0; i < ARRAY_LENGTH(touched); i++)
		cr_assert_not(merge_untouched(&books, bson(touched[i])), "%s", touched[i]);
	cr_assert_not(merge_untouched(&books, (struct bytes){0}));
}

Test(merge_read, names_that_a_rule_exposes_stay)
{
	const char *text = "{'_id': 1, 'flag': true, 'seen_total': 1, 'seen_documents': 2, "
			   "'seen_reference': 'r', 'app_total': 3}";
	struct merge *merge = merge_of(text);

	cr_assert(merge_clean(merge));
	expect(merge, 0, text);
	merge_free(merge);
}

Test(merge_read, a_document_from_which_nothing_was_taken_needs_no_overflow)
{
	struct merge *merge = merge_of("{'f': [1, 2], '_spill': {" STATE("f", G1, 1, 0) "}}");

	cr_assert_not(merge_wants(merge, 0));
	cr_assert_not(merge_clean(merge));
	expect(merge, 0, "{'f': [1, 2]}");
	merge_free(merge);
}

Test(merge_read, a_document_without_the_array_needs_no_overflow)
{
	static const char *const rest[] = {"'x': 1", "'f': 5", "'f': {'0': 1}", "'f': null",
					   "'sub': {'f': [1]}"};

	for (size_t i = 0; i < ARRAY_LENGTH(rest); i++) {
		char text[256], whole[64];
		struct merge *merge;

		snprintf(text, sizeof(text), "{'_id': 1, %s, '_spill': {" STATE("f", G1, 1, 3) "}}",
			 rest[i]);
		snprintf(whole, sizeof(whole), "{'_id': 1, %s}", rest[i]);
		merge = merge_of(text);
		cr_assert_not(merge_wants(merge, 0));
		cr_assert_eq(merge_spilled_count(merge), 0);
		expect(merge, 0, whole);
		merge_free(merge);
	}
}

Test(merge_read, two_arrays_with_one_parent_are_merged_in_one_pass)
{
	struct merge *merge =
		merge_of("{'a': {'w': 1, 'g': [1], 'x': {'f': [8]}, 'f': [5], 'total': 1}, '_id': "
			 "3, 'f': [0], "
			 "'_spill': {" STATE("a/g", G1, 1, 1) ", " STATE("a/f", G2, 0, 2) "}}");

	cr_assert_eq(merge_spilled_count(merge), 1);
	cr_assert_not(merge_wants(merge, 0));
	ask(merge, 1);
	ask(merge, 2);
	answer(merge, 2, "{'link': 3, 'rest': [2], '_spill': {'g': " G1 ", 'p': 0}}");
	expect_dead(merge, 0);
	answer(merge, 1, "{'link': 3, 'rest': [3, 4], '_spill': {'g': " G2 ", 'p': 0}}");
	expect(merge, 0,
	       "{'a': {'w': 1, 'g': [1, 2], 'x': {'f': [8]}, 'f': [3, 4, 5], 'total': 1}, '_id': "
	       "3, "
	       "'f': [0]}");
	merge_free(merge);
}

Test(merge_read, a_path_leads_through_documents_only)
{
	struct merge *merge = merge_of("{'_id': 3, 'a': [{'f': [1]}], '_spill': {" STATE(
		"a/f", G1, 1, 1) ", " STATE("a/g", G2, 1, 1) "}}");

	cr_assert_not(merge_wants(merge, 1));
	expect(merge, 0, "{'_id': 3, 'a': [{'f': [1]}]}");
	merge_free(merge);
}

Test(merge_read, an_id_that_the_client_hides_links_and_is_taken_out)
{
	auto_buffer struct buffer filter = {0};
	size_t start = writer_open(&filter);
	struct merge *merge = merge_of(
		"{'_id': 'x', 'f': [1], '_spill': {" STATE("f", G1, 1, 1) ", '/id': {'b': 1}}}");

	merge_write_filter(merge, 0, &filter, "q");
	writer_close(&filter, start);
	cr_assert(equals_json(buffer_view(&filter), "{'q': {'book': {'$in': ['x']}, "
						    "'_spill.g': {'$in': [" G1 "]}}}"));
	answer(merge, 0, "{'book': 'x', 'more': [2], '_spill': {'g': " G1 ", 'p': 0}}");
	expect(merge, 0, "{'f': [1, 2]}");
	merge_free(merge);
}

Test(merge_read, an_id_that_the_client_hides_is_taken_out_of_ordinary_documents_too)
{
	struct merge *merge =
		merge_of("{'_id': 1, 'f': [1], 'x': {'_id': 2}, '_spill': {'/id': 5}}");

	cr_assert_not(merge_clean(merge));
	cr_assert_not(merge_wants(merge, 0));
	expect(merge, 0, "{'f': [1], 'x': {'_id': 2}}");
	merge_free(merge);
}

Test(merge_read, the_query_names_links_and_generations_and_the_order_of_batches)
{
	auto_buffer struct buffer query = {0};
	size_t start = writer_open(&query);
	struct merge *merge = merge_of("{'_id': 1, 'f': [], '_spill': {" STATE("f", G1, 0, 1) "}}");

	cr_assert_eq(merge_add_document(merge, bson("{'_id': 2, 'f': []}")), MERGE_TAKEN);
	cr_assert_eq(merge_add_document(merge, bson("{'f': [], '_id': 2.5, '_spill': {" STATE(
						       "f", G2, 0, 1) "}}")),
		     MERGE_TAKEN);
	cr_assert_eq(merge_spilled_count(merge), 2);
	cr_assert_eq(merge_document_count(merge), 3);
	cr_assert(equals_json(merge_document(merge, 1), "{'_id': 2, 'f': []}"));
	merge_write_filter(merge, 0, &query, "filter");
	for (size_t target = 0; target < 4; target++)
		merge_write_sort(merge, target, &query, "sort");
	writer_close(&query, start);
	cr_assert(
		equals_json(buffer_view(&query),
			    "{'filter': {'book': {'$in': [1, 2.5]}, "
			    "'_spill.g': {'$in': [" G1 ", " G2 "]}}, "
			    "'sort': {'book': 1, '_spill.i': 1}, 'sort': {'link': 1, 'number': 1}, "
			    "'sort': {'link': 1, '_spill.i': 1}, "
			    "'sort': {'post': 1, '_spill.p': 1}}"));
	merge_free(merge);
}

Test(merge_read, a_filter_stays_within_a_command_and_the_rest_is_asked_for_next)
{
	static char id[2000001];
	struct merge *merge = merge_new(&books);
	size_t queries = 0;

	memset(id, 'x', sizeof(id) - 1);
	for (uint8_t i = 0; i < 9; i++) {
		auto_buffer struct buffer document = {0};
		size_t start = writer_open(&document), state, one;
		uint8_t g[16] = {i};

		writer_string(&document, "_id", id);
		writer_close(&document, writer_open_array(&document, "f"));
		state = writer_open_document(&document, "_spill");
		one = writer_open_document(&document, "f");
		writer_binary(&document, "g", (struct bytes){g, 16});
		writer_int32(&document, "h", 0);
		writer_int32(&document, "n", 1);
		writer_close(&document, one);
		writer_close(&document, state);
		writer_close(&document, start);
		cr_assert_eq(merge_add_document(merge, kept(buffer_view(&document))), MERGE_TAKEN);
	}
	while (merge_wants(merge, 0)) {
		auto_buffer struct buffer out = {0};

		merge_write_filter(merge, 0, &out, "filter");
		cr_assert_lt(out.length, 12 << 20);
		queries++;
	}
	cr_assert_eq(queries, 2);
	merge_free(merge);
}

Test(merge_read, stored_elements_that_are_not_linked_yet_are_not_shown)
{
	struct merge *merge =
		merge_of("{'_id': 7, 'f': [1, 3], '_spill': {" STATE("f", G1, 1, 1) "}}");

	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2, 3], '_spill': {'g': " G1 ", 'p': 0}}");
	answer(merge, 0, "{'book': 7, 'more': [4], '_spill': {'g': " G1 ", 'p': 2}}");
	answer(merge, 0, "{'book': 7, 'more': [5], '_spill': {'g': " G1 ", 'p': 9}}");
	expect(merge, 0, "{'_id': 7, 'f': [1, 2, 3]}");
	merge_free(merge);
}

Test(merge_read, positions_that_two_batches_hold_are_taken_once)
{
	struct merge *merge =
		merge_of("{'_id': 7, 'f': [1], '_spill': {" STATE("f", G1, 1, 5) "}}");

	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2, 3, 4], '_spill': {'g': " G1 ", 'p': 0}}");
	answer(merge, 0, "{'book': 7, 'more': [3], '_spill': {'g': " G1 ", 'p': 1}}");
	answer(merge, 0, "{'book': 7, 'more': [], '_spill': {'g': " G1 ", 'p': 3}}");
	answer(merge, 0, "{'book': 7, 'more': [3, 4, 5, 6], '_spill': {'g': " G1 ", 'p': 1}}");
	expect(merge, 0, "{'_id': 7, 'f': [1, 2, 3, 4, 5, 6]}");
	merge_free(merge);
}

Test(merge_read, a_hole_means_that_the_generation_died)
{
	struct merge *merge =
		merge_of("{'_id': 7, 'f': [1], '_spill': {" STATE("f", G1, 1, 3) "}}");

	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2], '_spill': {'g': " G1 ", 'p': 0}}");
	answer(merge, 0, "{'book': 7, 'more': [4], '_spill': {'g': " G1 ", 'p': 2}}");
	answer(merge, 0, "{'book': 7, 'more': [3, 4], '_spill': {'g': " G1 ", 'p': 1}}");
	expect_dead(merge, 0);
	merge_free(merge);
}

Test(merge_read, batches_of_no_wanted_generation_are_ignored)
{
	struct merge *merge =
		merge_of("{'_id': 7, 'f': [1], '_spill': {" STATE("f", G1, 1, 1) "}}");

	answer(merge, 0,
	       "{'book': 7, 'more': [8], '_spill': {'g': " G1 ", 'p': 0}}"); /* not asked for yet */
	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [9], '_spill': {'g': " G2 ", 'p': 0}}");
	answer(merge, 1, "{'link': 7, 'rest': [9], '_spill': {'g': " G1 ", 'p': 0}}");
	expect_dead(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2], '_spill': {'g': " G1 ", 'p': 0}}");
	expect(merge, 0, "{'_id': 7, 'f': [1, 2]}");
	merge_free(merge);
}

Test(merge_read, a_document_read_again_starts_anew)
{
	struct merge *merge =
		merge_of("{'_id': 7, 'f': [1], '_spill': {" STATE("f", G1, 1, 2) "}}");

	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2], '_spill': {'g': " G1 ", 'p': 0}}");
	expect_dead(merge, 0);
	cr_assert_eq(merge_replace_document(merge, 0, bson("{'f': 1, '_spill': 4}")), MERGE_BROKEN);
	expect_dead(merge, 0);
	cr_assert_eq(merge_replace_document(
			     merge, 0,
			     bson("{'_id': 7, 'f': [3], '_spill': {" STATE("f", G2, 0, 1) "}}")),
		     MERGE_TAKEN);
	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2], '_spill': {'g': " G1 ", 'p': 0}}");
	expect_dead(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [5], '_spill': {'g': " G2 ", 'p': 0}}");
	expect(merge, 0, "{'_id': 7, 'f': [5, 3]}");
	cr_assert_eq(merge_replace_document(merge, 0, bson("{'_id': 7, 'f': [6]}")), MERGE_TAKEN);
	cr_assert(merge_clean(merge));
	cr_assert_not(merge_wants(merge, 0));
	expect(merge, 0, "{'_id': 7, 'f': [6]}");
	cr_assert_eq(merge_spilled_count(merge), 1);
	merge_free(merge);
}

Test(merge_read, what_only_a_replaced_document_needed_is_not_asked_for)
{
	struct merge *merge =
		merge_of("{'_id': 7, 'f': [1], '_spill': {" STATE("f", G1, 1, 2) "}}");

	cr_assert_eq(merge_replace_document(merge, 0, bson("{'_id': 7, 'f': [1]}")), MERGE_TAKEN);
	cr_assert_not(merge_wants(merge, 0));
	merge_free(merge);
}

Test(merge_read, the_same_generation_read_again_forgets_what_came_for_it)
{
	const char *text = "{'_id': 7, 'f': [1], '_spill': {" STATE("f", G1, 1, 1) "}}";
	struct merge *merge = merge_of(text);

	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2], '_spill': {'g': " G1 ", 'p': 0}}");
	cr_assert_eq(merge_replace_document(merge, 0, bson(text)), MERGE_TAKEN);
	expect_dead(merge, 0);
	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2], '_spill': {'g': " G1 ", 'p': 0}}");
	expect(merge, 0, "{'_id': 7, 'f': [1, 2]}");
	merge_free(merge);
}

Test(merge_read, one_generation_may_fill_two_images_of_a_document)
{
	struct merge *merge =
		merge_of("{'_id': 7, 'f': [1, 3], '_spill': {" STATE("f", G1, 1, 1) "}}");

	cr_assert_eq(merge_add_document(merge, bson("{'_id': 7, 'f': [1], '_spill': {" STATE(
						       "f", G1, 1, 2) "}}")),
		     MERGE_TAKEN);
	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2, 3], '_spill': {'g': " G1 ", 'p': 0}}");
	expect(merge, 0, "{'_id': 7, 'f': [1, 2, 3]}");
	expect(merge, 1, "{'_id': 7, 'f': [1, 2, 3]}");
	merge_free(merge);
}

/* Somebody has given document 8 the state of document 7. */
Test(merge_read, a_generation_fills_the_document_alone_that_its_overflow_links_to)
{
	struct merge *merge =
		merge_of("{'_id': 8, 'f': [0], '_spill': {" STATE("f", G1, 1, 1) "}}");

	cr_assert_eq(merge_add_document(merge, bson("{'_id': 7, 'f': [1], '_spill': {" STATE(
						       "f", G1, 1, 1) "}}")),
		     MERGE_TAKEN);
	cr_assert_eq(merge_add_document(merge, bson("{'_id': 9, 'f': [9], '_spill': {" STATE(
						       "f", G1, 1, 1) "}}")),
		     MERGE_TAKEN);
	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [2], '_spill': {'g': " G1 ", 'p': 0}}");
	expect_dead(merge, 0);
	expect(merge, 1, "{'_id': 7, 'f': [1, 2]}");
	expect_dead(merge, 2);
	merge_free(merge);
}

/* The state names what the other document has left in the overflow. */
Test(merge_read, what_another_document_has_left_fills_nobody)
{
	struct merge *merge =
		merge_of("{'_id': 8, 'f': [0], '_spill': {" STATE("f", G1, 1, 1) "}}");

	cr_assert_eq(merge_add_document(merge, bson("{'_id': 7, 'f': [1], '_spill': {" STATE(
						       "f", G2, 1, 1) "}}")),
		     MERGE_TAKEN);
	ask(merge, 0);
	answer(merge, 0, "{'book': 7, 'more': [5], '_spill': {'g': " G1 ", 'p': 0}}");
	answer(merge, 0, "{'book': 7, 'more': [2], '_spill': {'g': " G2 ", 'p': 0}}");
	expect_dead(merge, 0);
	expect(merge, 1, "{'_id': 7, 'f': [1, 2]}");
	merge_free(merge);
}

/* A pipeline may set 1 to 1.0 while the array is spilled. */
Test(merge_read, a_link_may_be_an_equal_number_of_another_type)
{
	static const char *const pairs[][2] = {
		{"7", "7.0"},
		{"7.0", "{'$numberLong': '7'}"},
		{"{'$numberDecimal': '7.0'}", "7"},
		{"{'a': [1]}", "{'a': [1.0]}"},
		{"7.5", "{'$numberDecimal': '7.5'}"},
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++) {
		struct merge *merge;

		snprintf(text, sizeof(text),
			 "{'_id': %s, 'f': [1], '_spill': {" STATE("f", G1, 1, 1) "}}",
			 pairs[i][0]);
		merge = merge_of(text);
		ask(merge, 0);
		snprintf(text, sizeof(text),
			 "{'book': %s, 'more': [2], '_spill': {'g': " G1 ", 'p': 0}}", pairs[i][1]);
		answer(merge, 0, text);
		snprintf(text, sizeof(text), "{'_id': %s, 'f': [1, 2]}", pairs[i][0]);
		expect(merge, 0, text);
		merge_free(merge);
	}
}

Test(merge_read, a_document_in_the_layout_of_elements_is_one_element)
{
	struct merge *merge =
		merge_of("{'_id': 1, 'c': [{'n': 0}], '_spill': {" STATE("c", G1, 1, 4) "}}");

	ask(merge, 3);
	answer(merge, 3,
	       "{'_id': 9, 'post': 1, 'n': 1, '_spill': {'g': " G1 ", 'p': 0}, 's': {'post': 2}}");
	answer(merge, 3, "{'_id': 9, 'post': 1, 'n': 5, '_spill': {'g': " G1 ", 'p': 0}}");
	answer(merge, 3, "{'_id': 9, 'post': 1, '_spill': {'g': " G1 ", 'p': 1, 'v': {'_id': 4}}}");
	answer(merge, 3,
	       "{'_id': 9, 'post': 1, '_spill': {'g': " G1 ", 'p': 2, 'v': null}, 'x': 1}");
	expect_dead(merge, 0);
	answer(merge, 3, "{'_id': 9, '_spill': {'v': 'text', 'g': " G1 ", 'p': 3}, 'post': 1}");
	expect(merge, 0,
	       "{'_id': 1, 'c': [{'n': 0}, {'n': 1, 's': {'post': 2}}, {'_id': 4}, null, 'text']}");
	merge_free(merge);
}

Test(merge_read, a_document_spilled_under_a_rule_that_is_gone_is_not_shown_as_whole)
{
	struct merge *merge = merge_new(&books);

	cr_assert_eq(
		merge_add_document(merge, bson("{'_id': 1, 'f': [], 'old': [1], '_spill': {" STATE(
						  "f", G1, 0, 1) ", " STATE("old", G2, 1, 1) "}}")),
		MERGE_FOREIGN);
	cr_assert_eq(merge_document_count(merge), 0);
	cr_assert_not(merge_wants(merge, 0));
	cr_assert_eq(merge_add_document(merge, bson("{'_id': 1, 'old': [1], '_spill': {" STATE(
						       "old", G2, 1, 0) "}}")),
		     MERGE_TAKEN);
	expect(merge, 0, "{'_id': 1, 'old': [1]}");
	merge_free(merge);
}

Test(merge_read, states_that_no_spillway_writes_are_broken)
{
	static const char *const documents[] = {
		"{'_id': 1, 'f': [1], '_spill': 5}",
		"{'_id': 1, 'f': [1], '_spill': []}",
		"{'_id': 1, 'f': [1], '_spill': {'f': 5}}",
		"{'_id': 1, 'f': [1], '_spill': {'f': {}}}",
		"{'_id': 1, 'f': [1], '_spill': {'old': {}}}",
		"{'_id': 1, 'f': [1], '_spill': {'old': [1]}}",
		"{'_id': 1, 'f': [1], '_spill': {'old': {'n': 'x'}}}",
		"{'_id': 1, 'f': [1], '_spill': {'f': {'g': 'x', 'h': 1, 'n': 1}}}",
		"{'_id': 1, 'f': [1], '_spill': {'f': {'h': 1, 'n': 1}}}",
		"{'_id': 1, 'f': [1], '_spill': {'f': {'g': " G1 ", 'n': 1}}}",
		"{'_id': 1, 'f': [1], '_spill': {'f': {'g': " G1 ", 'h': 1}}}",
		"{'_id': 1, 'f': [1], '_spill': {'f': {'g': " G1 ", 'h': 0.5, 'n': 1}}}",
		"{'_id': 1, 'f': [1], '_spill': {" STATE("f", G1, 2, 1) "}}",
		"{'_id': 1, 'f': [1], '_spill': {" STATE("f", G1, -1, 1) "}}",
		"{'_id': 1, 'f': [1], '_spill': {" STATE("f", G1, 1, -1) "}}",
		"{'_id': 1, 'f': [1], '_spill': {" STATE("f", SHORT_G, 1, 1) "}}",
		"{'_id': 1, 'f': [1], '_spill': {" STATE("f", UUID_G, 1, 1) "}}",
		"{'f': [1], '_spill': {" STATE("f", G1, 1, 1) "}}",
		"{'f': [1], '_spill': {" STATE("f", G1, 1, 1) ", '/id': 1}}",
	};
	struct merge *merge = merge_new(&books);

	for (size_t i = 0; i < ARRAY_LENGTH(documents); i++)
		cr_assert_eq(merge_add_document(merge, bson(documents[i])), MERGE_BROKEN, "%s",
			     documents[i]);
	cr_assert_eq(merge_add_document(merge, (struct bytes){0}), MERGE_BROKEN);
	cr_assert_eq(merge_document_count(merge), 0);
	cr_assert(merge_clean(merge));
	merge_free(merge);
}

Test(merge_read, overflow_that_no_spillway_writes_is_broken)
{
	static const char *const documents[] = {
		"{'more': [1], '_spill': {'g': " G1 ", 'p': 0}}",
		"{'book': 7, 'more': [1]}",
		"{'book': 7, 'more': [1], '_spill': 1}",
		"{'book': 7, 'more': [1], '_spill': {'p': 0}}",
		"{'book': 7, 'more': [1], '_spill': {'g': " G1 "}}",
		"{'book': 7, 'more': [1], '_spill': {'g': " G1 ", 'p': -1}}",
		"{'book': 7, 'more': [1], '_spill': {'g': " G1 ", 'p': 'x'}}",
		"{'book': 7, 'more': [1], '_spill': {'g': " SHORT_G ", 'p': 0}}",
		"{'book': 7, 'more': {'0': 1}, '_spill': {'g': " G1 ", 'p': 0}}",
		"{'less': [1], '_spill': {'g': " G1 ", 'p': 0}}",
	};
	struct merge *merge =
		merge_of("{'_id': 7, 'f': [1], '_spill': {" STATE("f", G1, 1, 1) "}}");

	ask(merge, 0);
	for (size_t i = 0; i < ARRAY_LENGTH(documents); i++)
		cr_assert_not(merge_add_overflow(merge, 0, bson(documents[i])), "%s", documents[i]);
	expect_dead(merge, 0);
	merge_free(merge);
}

Test(merge_read, a_total_that_the_application_keeps_is_shown)
{
	struct rule rule = {
		.array = "f",
		.key = "f",
		.counters = {.total = "total", .documents = "documents", .owned_by_app = true}};
	struct target target = {.rule = &rule};
	struct ruled_namespace namespace = {.target_count = 1, .targets = &target};
	struct merge *merge = merge_new(&namespace);

	cr_assert_eq(merge_add_document(merge, bson("{'total': 1, 'documents': 2}")), MERGE_TAKEN);
	expect(merge, 0, "{'total': 1}");
	merge_free(merge);
}

Test(merge_read, many_generations_find_their_parts)
{
	struct merge *merge = merge_new(&books);
	char text[256], whole[64];

	for (int i = 1000; i < 4000; i++) {
		snprintf(text, sizeof(text),
			 "{'_id': %d, 'f': [], '_spill': {'f': {'h': 0, 'n': 1, 'g': {'$binary': "
			 "{'base64': 'AQEBAQEBAQEBAQEBA%dg==', 'subType': '00'}}}}}",
			 i, i);
		cr_assert_eq(merge_add_document(merge, bson(text)), MERGE_TAKEN);
	}
	ask(merge, 0);
	for (int i = 3999; i >= 1000; i--) {
		snprintf(text, sizeof(text),
			 "{'book': %d, 'more': [%d], '_spill': {'p': 0, 'g': {'$binary': "
			 "{'base64': 'AQEBAQEBAQEBAQEBA%dg==', 'subType': '00'}}}}",
			 i, i, i);
		answer(merge, 0, text);
	}
	for (int i = 1000; i < 4000; i++) {
		snprintf(whole, sizeof(whole), "{'_id': %d, 'f': [%d]}", i, i);
		expect(merge, (size_t)i - 1000, whole);
	}
	merge_free(merge);
}

/* The model: arrays whose elements are known by their position, spilled in all ways that the
 * protocol allows. */
struct model {
	uint32_t random; /* the next number to draw */
	uint32_t seed;
	struct model_array {
		bool spilled;
		size_t length, head, count;
		uint8_t id[16];
	} arrays[ARRAY_LENGTH(targets)];
};

#define MODEL_TEXT \
	"a text from which pieces are taken that are now and then longer than one hundred bytes, " \
	"now and then shorter, so that all ways of copying them are gone"

static uint32_t mixed(uint32_t value)
{
	value ^= value >> 16;
	value *= 0x7feb352d;
	value ^= value >> 15;
	value *= 0x846ca68b;
	return value ^ value >> 16;
}

/* A number below `limit`. */
static uint32_t draw(struct model *model, uint32_t limit)
{
	return mixed(model->random++) % limit;
}

/* The fields of an element that is a document. */
static void put_model_fields(struct buffer *out, uint32_t value)
{
	writer_int32(out, "n", (int32_t)value);
	if (value % 3 == 0)
		writer_binary(out, "b", (struct bytes){(const uint8_t *)&value, value % 4});
	writer_string(out, "", &MODEL_TEXT[value % sizeof(MODEL_TEXT)]);
}

static uint32_t model_value(const struct model *model, size_t array, size_t position)
{
	return mixed(model->seed * 31 + (uint32_t)(array * 100003 + position));
}

static void put_model_element(const struct model *model, size_t array, size_t position,
			      struct buffer *out, const char *name)
{
	uint32_t value = model_value(model, array, position);
	size_t start;

	switch (value % 16) {
	case 0:
		writer_bool(out, name, value % 32 == 0);
		break;
	case 1:
		writer_binary(out, name, (struct bytes){(const uint8_t *)&value, value % 5});
		break;
	case 2:
		writer_string(out, name, &MODEL_TEXT[value / 16 % sizeof(MODEL_TEXT)]);
		break;
	case 3:
		writer_close(out, writer_open_array(out, name));
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		start = writer_open_document(out, name);
		put_model_fields(out, value);
		writer_close(out, start);
		break;
	default:
		writer_int32(out, name, (int32_t)value);
		break;
	}
}

/* Elements from..to, numbered from 0; now and then under odd names. */
static void put_model_elements(struct model *model, size_t array, size_t from, size_t to,
			       struct buffer *out)
{
	bool odd = draw(model, 8) == 0;
	char name[16];

	for (size_t position = from; position < to; position++) {
		writer_index(name, position - from);
		if (odd)
			snprintf(name, sizeof(name), "%x",
				 draw(model, UINT32_MAX) >> draw(model, 32));
		put_model_element(model, array, position, out, name);
	}
}

static void put_whole_array(const struct model *model, size_t array, struct buffer *out,
			    const char *name)
{
	size_t start = writer_open_array(out, name);
	char index[12];

	for (size_t position = 0; position < model->arrays[array].length; position++)
		put_model_element(model, array, position, out, writer_index(index, position));
	writer_close(out, start);
}

static void put_stored_array(struct model *model, size_t array, struct buffer *out,
			     const char *name)
{
	const struct model_array *known = &model->arrays[array];
	size_t start = writer_open_array(out, name);

	put_model_elements(model, array, 0, known->head, out);
	put_model_elements(model, array, known->head + known->count, known->length, out);
	writer_close(out, start);
}

static void put_model_array(struct model *model, bool whole, size_t array, struct buffer *out,
			    const char *name)
{
	if (whole || !model->arrays[array].spilled)
		put_whole_array(model, array, out, name);
	else
		put_stored_array(model, array, out, name);
}

static void put_model_states(const struct model *model, struct buffer *out)
{
	size_t states = writer_open_document(out, "_spill");

	for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
		const struct model_array *array = &model->arrays[i];
		size_t state;

		if (!array->spilled)
			continue;
		state = writer_open_document(out, rules[i].key);
		writer_binary(out, "g", (struct bytes){array->id, 16});
		writer_int32(out, "h", (int32_t)array->head);
		writer_int64(out, "n", (int64_t)array->count);
		writer_close(out, state);
	}
	writer_close(out, states);
}

/* The document as it is stored, or as clients are to see it. */
static struct bytes model_document(struct model *model, bool whole)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), parent;

	writer_int32(&out, "_id", (int32_t)model->seed);
	put_model_array(model, whole, 0, &out, "f");
	if (!whole)
		writer_bool(&out, "has_extras", true);
	parent = writer_open_document(&out, "a");
	writer_string(&out, "before", "f");
	put_model_array(model, whole, 2, &out, "g");
	put_model_array(model, whole, 1, &out, "f");
	writer_int32(&out, "after", 1);
	writer_close(&out, parent);
	if (!whole)
		put_model_states(model, &out);
	put_model_array(model, whole, 3, &out, "c");
	writer_int32(&out, "flag", 1);
	if (!whole)
		writer_int32(&out, "total", 1);
	writer_close(&out, start);
	return kept(buffer_view(&out));
}

static void put_part_state(struct buffer *out, const uint8_t *id, size_t position)
{
	writer_binary(out, "g", (struct bytes){id, 16});
	writer_int32(out, "p", (int32_t)position);
}

/* The batch that holds the overflow's positions from..to. */
static struct bytes model_batch(struct model *model, size_t array, const uint8_t *id, size_t from,
				size_t to)
{
	size_t head = model->arrays[array].head;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), inner;

	writer_int32(&out, rules[array].overflow.link, (int32_t)model->seed);
	inner = writer_open_array(&out, rules[array].overflow.array);
	put_model_elements(model, array, head + from, head + to, &out);
	writer_close(&out, inner);
	inner = writer_open_document(&out, "_spill");
	put_part_state(&out, id, from);
	writer_close(&out, inner);
	writer_close(&out, start);
	return kept(buffer_view(&out));
}

/* The element at this position of the overflow as a document of its own. */
static struct bytes model_element(struct model *model, size_t array, const uint8_t *id,
				  size_t position)
{
	size_t place = model->arrays[array].head + position, state;
	uint32_t value = model_value(model, array, place);
	bool document = value % 16 >= 4 && value % 16 <= 7;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_int32(&out, rules[array].overflow.link, (int32_t)model->seed);
	state = writer_open_document(&out, "_spill");
	put_part_state(&out, id, position);
	if (!document)
		put_model_element(model, array, place, &out, "v");
	writer_close(&out, state);
	if (document)
		put_model_fields(&out, value);
	writer_close(&out, start);
	return kept(buffer_view(&out));
}

/* Overflow of the array from position `from` on; returns the position behind it. */
static size_t feed_part(struct model *model, struct merge *merge, size_t array, const uint8_t *id,
			size_t from)
{
	size_t stored = model->arrays[array].length - model->arrays[array].head;
	size_t to = from + draw(model, 9);
	struct bytes part;

	to = to < stored ? to : stored;
	if (rules[array].overflow.layout == RULE_BATCHES) {
		part = model_batch(model, array, id, from, to);
	} else {
		to = from < stored ? from + 1 : from;
		if (to == from)
			return to;
		part = model_element(model, array, id, from);
	}
	cr_assert(merge_add_overflow(merge, array, part));
	return to;
}

/* All overflow of an array, with overlaps, garbage, and elements beyond those that are linked. */
static void feed_array(struct model *model, struct merge *merge, size_t array)
{
	const struct model_array *known = &model->arrays[array];
	uint8_t dead[16] = {0xde, 0xad};
	size_t done = 0;

	ask(merge, array);
	while (done < known->count) {
		size_t back = draw(model, 4) == 0 ? draw(model, 5) : 0, to;

		if (draw(model, 16) == 0)
			expect_dead(merge, 0);
		if (draw(model, 8) == 0)
			(void)feed_part(model, merge, array, dead, draw(model, 3));
		to = feed_part(model, merge, array, known->id, done > back ? done - back : 0);
		done = to > done ? to : done;
	}
	(void)feed_part(model, merge, array, known->id, done);
}

static void model_init(struct model *model, uint32_t seed)
{
	*model = (struct model){.seed = seed, .random = mixed(seed)};
	for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
		struct model_array *array = &model->arrays[i];

		array->length = draw(model, draw(model, 40) == 0 ? 3000 : 40);
		array->head = draw(model, (uint32_t)array->length + 1);
		if (array->length > array->head && draw(model, 4) > 0) {
			array->spilled = true;
			array->count = 1 + draw(model, (uint32_t)(array->length - array->head));
		}
		for (size_t k = 0; k < sizeof(array->id); k++)
			array->id[k] = (uint8_t)draw(model, 256);
	}
}

Test(merge_read, what_is_merged_is_the_logical_array_byte_for_byte)
{
	for (uint32_t seed = 1; seed <= 1500; seed++) {
		auto_buffer struct buffer out = {0};
		struct merge *merge = merge_new(&books);
		struct bytes expected;
		struct model model;

		model_init(&model, seed);
		expected = model_document(&model, true);
		cr_assert_eq(merge_add_document(merge, model_document(&model, false)), MERGE_TAKEN);
		for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
			cr_assert_eq(merge_wants(merge, i), model.arrays[i].spilled);
			if (model.arrays[i].spilled)
				feed_array(&model, merge, i);
		}
		cr_assert(merge_write_document(merge, 0, &out), "seed %u", seed);
		cr_assert(bytes_equal(buffer_view(&out), expected), "seed %u", seed);
		merge_free(merge);
		drop_kept();
	}
}

/* Takes in a document and its overflow, one of which may be broken. */
static void merge_anything(struct bytes document, struct bytes overflow)
{
	auto_buffer struct buffer out = {0};
	struct merge *merge = merge_new(&books);

	if (merge_add_document(merge, document) == MERGE_TAKEN) {
		for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
			merge_write_filter(merge, i, &out, "filter");
			(void)!merge_add_overflow(merge, i, overflow);
		}
		(void)!merge_write_document(merge, 0, &out);
	}
	merge_free(merge);
}

Test(merge_read, any_byte_may_be_any_other)
{
	static const uint8_t values[] = {0, 1, 4, 5, 0x7f, 0x80, 0xff};
	struct bytes document =
		bson("{'_id': 1, 'a': {'g': [1], 'f': [[2], 'x']}, 'f': [1, 'abc'], "
		     "'has_extras': 1, '_spill': {" STATE("f", G1, 1, 2) ", " STATE(
			     "a/f", G1, 1, 2) ", '/id': 1}}");
	struct bytes overflow = bson("{'book': 1, 'link': 1, 'more': [1, {'x': [2, 'abc']}], "
				     "'rest': ['x', 2], '_spill': {"
				     "'g': " G1 ", 'p': 0, 'v': 'text'}, 'c': 1}");

	for (size_t v = 0; v < ARRAY_LENGTH(values); v++) {
		for (size_t at = 0; at < document.length; at++) {
			uint8_t *changed = kept_copy(document);

			changed[at] = values[v];
			merge_anything((struct bytes){changed, document.length}, overflow);
		}
		for (size_t at = 0; at < overflow.length; at++) {
			uint8_t *changed = kept_copy(overflow);

			changed[at] = values[v];
			merge_anything(document, (struct bytes){changed, overflow.length});
		}
	}
}

Test(merge_read, any_part_of_a_document_is_read_within_its_bounds)
{
	struct bytes document =
		bson("{'_id': 1, 'a': {'f': ['x']}, 'f': [1, 'abc'], '_spill': {" STATE(
			"f", G1, 1, 2) ", " STATE("a/f", G1, 1, 2) "}}");
	struct bytes overflow = bson("{'_spill': {'g': " G1 ", 'p': 0, 'v': 'text'}, "
				     "'book': 1, 'link': 1, "
				     "'more': [1, {'x': [2, 'abc']}], 'rest': ['x', 2]}");

	for (size_t length = 0; length < document.length; length++)
		merge_anything(kept((struct bytes){document.data, length}), overflow);
	for (size_t length = 0; length < overflow.length; length++)
		merge_anything(document, kept((struct bytes){overflow.data, length}));
	for (size_t length = 5; length < overflow.length; length++) {
		uint8_t *cut = kept_copy((struct bytes){overflow.data, length});

		store_int32(cut, (int32_t)length);
		cut[length - 1] = 0;
		merge_anything(document, (struct bytes){cut, length});
	}
}

/* An array of one element, as deep as mongod stores it, and deeper. */
static void put_deep_array(struct buffer *out, const char *name, size_t depth)
{
	size_t starts[400], level = 0;

	starts[level++] = writer_open_array(out, name);
	while (level < depth) {
		starts[level] = writer_open_document(out, "0");
		level++;
	}
	while (level > 0)
		writer_close(out, starts[--level]);
}

Test(merge_read, elements_may_be_of_any_depth)
{
	auto_buffer struct buffer part = {0}, out = {0};
	struct merge *merge = merge_of("{'_id': 7, 'f': [], '_spill': {" STATE("f", G1, 0, 1) "}}");
	size_t start = writer_open(&part);
	struct element whole, stored;

	writer_int32(&part, "book", 7);
	put_deep_array(&part, "more", 399);
	writer_document(&part, "_spill", bson("{'g': " G1 ", 'p': 0}"));
	writer_close(&part, start);
	ask(merge, 0);
	cr_assert(merge_add_overflow(merge, 0, buffer_view(&part)));
	cr_assert(merge_write_document(merge, 0, &out));
	cr_assert(document_find(buffer_view(&out), "f", &whole));
	cr_assert(document_find(buffer_view(&part), "more", &stored));
	cr_assert(bytes_equal(whole.value, stored.value));
	merge_free(merge);
}
