/* Tests proxy/spill/plan.c: what an image of a main document says is to be done. */
#include "tests/unit/unit.h"

#include "protocol/writer.h"
#include "proxy/spill/plan.h"

#include <bson/bson.h>

#define G "{'$binary': {'base64': 'AQEBAQEBAQEBAQEBAQEBAQ==', 'subType': '00'}}"
#define STATE(h, n) "'_spill': {'f': {'g': " G ", 'h': " #h ", 'n': " #n "}}"

static struct rule rule = {
	.array = "f", .key = "f", .threshold = 3, .max_bytes = 1000, .flag = {.field = "flag"}};
static struct rule dotted = {.array = "a.f",
			     .key = "a/f",
			     .threshold = 3,
			     .max_bytes = 1000,
			     .flag = {.field = "b.flag"}};

/* JSON is written with ' for ". The document lives until the test ends. */
static struct bytes document(const char *json)
{
	static uint8_t memory[65536];
	auto_free char *text = must_strndup(json, strlen(json));
	bson_error_t error;
	bson_t *built;
	size_t length;

	for (char *at = text; *at; at++)
		*at = *at == '\'' ? '"' : *at;
	built = bson_new_from_json((const uint8_t *)text, -1, &error);
	cr_assert_not_null(built, "%s: %s", text, error.message);
	length = built->len;
	cr_assert(length <= sizeof(memory));
	memcpy(memory, bson_get_data(built), length);
	bson_destroy(built);
	return (struct bytes){memory, length};
}

static struct plan plan_of(const char *json)
{
	return plan_make(&rule, document(json));
}

static void expect(const struct rule *of, const char *json, enum plan_kind kind)
{
	struct plan plan = plan_make(of, document(json));

	cr_assert_eq(plan.kind, kind, "%s: %d, %s", json, plan.kind, plan.why ? plan.why : "");
	cr_assert_eq(plan.why != NULL, kind == PLAN_LEAVE || kind == PLAN_BROKEN, "%s", json);
}

/* Left alone, for this reason. */
static void expect_left(const struct rule *of, const char *json, const char *why)
{
	struct plan plan = plan_make(of, document(json));

	cr_assert_eq(plan.kind, PLAN_LEAVE, "%s: %d", json, plan.kind);
	cr_assert_str_eq(plan.why, why, "%s", json);
}

Test(mover_plan, a_document_within_its_bounds_rests)
{
	expect(&rule, "{'_id': 1}", PLAN_REST);
	expect(&rule, "{'_id': 1, 'f': []}", PLAN_REST);
	expect(&rule, "{'_id': 1, 'f': [1, 2, 3]}", PLAN_REST);
	expect(&rule, "{'_id': 1, 'f': 'text that is no array'}", PLAN_REST);
	expect(&rule, "{'_id': 1, 'f': {'3': 1}}", PLAN_REST);
	expect(&rule, "{'_id': 1, 'f': [1, 2, 3], " STATE(3, 5) "}", PLAN_REST);
	expect(&rule, "{'_id': 1, 'f': [1], " STATE(3, 5) "}", PLAN_REST);
}

Test(mover_plan, an_outlier_without_state_gets_a_generation)
{
	struct plan plan = plan_of("{'_id': 7, 'f': [10, 11, 12, 13, 14]}");

	cr_assert_eq(plan.kind, PLAN_BIRTH);
	cr_assert_eq(plan.head, 3);
	cr_assert_eq(plan.length, 5);
	cr_assert_eq(load_int32(plan.id.value.data), 7);
	expect(&rule, "{'_id': 1, 'f': [1, 2, 3, 4], '_spill': {}}", PLAN_BIRTH);
	expect(&rule, "{'_id': 1, 'f': [1, 2, 3, 4], '_spill': {'other': {}}}", PLAN_BIRTH);
}

Test(mover_plan, a_tail_beyond_the_head_moves)
{
	struct plan plan = plan_of("{'_id': 7, 'f': [10, 11, 12], " STATE(1, 5) "}");
	struct element element;

	cr_assert_eq(plan.kind, PLAN_MOVE);
	cr_assert_eq(plan.head, 1);
	cr_assert_eq(plan.moved, 5);
	cr_assert_eq(plan.length, 3);
	cr_assert_eq(plan.generation.length, 16);
	cr_assert_eq(plan.generation.data[0], 1);
	cr_assert_eq(cursor_next(&plan.tail, &element), CURSOR_ELEMENT);
	cr_assert_eq(load_int32(element.value.data), 11);
}

Test(mover_plan, a_rule_that_empties_keeps_no_head)
{
	struct rule empty = rule;
	struct plan plan;

	empty.when_outlier = RULE_EMPTY;
	plan = plan_make(&empty, document("{'_id': 7, 'f': [1, 2, 3, 4]}"));
	cr_assert_eq(plan.kind, PLAN_BIRTH);
	cr_assert_eq(plan.head, 0);
	expect(&empty, "{'_id': 7, 'f': [1, 2, 3]}", PLAN_REST);
	expect(&empty, "{'_id': 7, 'f': [1], " STATE(0, 4) "}", PLAN_MOVE);
}

Test(mover_plan, a_threshold_of_0_keeps_nothing)
{
	struct rule none = rule;

	none.threshold = 0;
	expect(&none, "{'_id': 7, 'f': []}", PLAN_REST);
	expect(&none, "{'_id': 7, 'f': [1]}", PLAN_BIRTH);
}

Test(mover_plan, fat_elements_make_a_shorter_head)
{
	struct rule fat = rule;
	struct plan plan;

	/* An array's 5 bytes and 7 for each number. */
	fat.max_bytes = 5 + 2 * 7;
	plan = plan_make(&fat, document("{'_id': 7, 'f': [1, 2, 3]}"));
	cr_assert_eq(plan.kind, PLAN_BIRTH);
	cr_assert_eq(plan.head, 2);
	expect(&fat, "{'_id': 7, 'f': [1, 2]}", PLAN_REST);
	fat.max_bytes = 1;
	plan = plan_make(&fat, document("{'_id': 7, 'f': [1, 2, 3]}"));
	cr_assert_eq(plan.kind, PLAN_BIRTH);
	cr_assert_eq(plan.head, 0);
}

Test(mover_plan, a_state_that_holds_nothing_is_taken_away)
{
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3], " STATE(3, 0) "}", PLAN_UNDO);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], " STATE(3, 0) "}", PLAN_MOVE);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3], '_spill': {}}", PLAN_TIDY);
	expect(&rule, "{'_id': 7, '_spill': {}}", PLAN_TIDY);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3], '_spill': {'other': {}}}", PLAN_REST);
}

/* The array was set between the look and M1. */
Test(mover_plan, a_state_born_of_another_array_is_taken_away)
{
	struct rule fat = rule;

	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], " STATE(0, 0) "}", PLAN_UNDO);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3], " STATE(0, 0) "}", PLAN_UNDO);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], " STATE(0, 1) "}", PLAN_MOVE);
	fat.max_bytes = 5 + 2 * 7;
	expect(&fat, "{'_id': 7, 'f': [1, 2, 3, 4], " STATE(3, 0) "}", PLAN_UNDO);
	expect(&fat, "{'_id': 7, 'f': [1, 2, 3, 4], " STATE(2, 0) "}", PLAN_MOVE);
}

/* A pipeline update of such a document aborts mongod 6.0. */
Test(mover_plan, a_document_in_which_a_name_stands_twice_is_left_alone)
{
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], 'f': 1}", PLAN_LEAVE);
	expect_left(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], 'flag': 1, 'flag': 2}",
		    "the flag's name stands twice in it");
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], '_spill': {}, '_spill': {}}", PLAN_LEAVE);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], 'other': 1, 'other': 2}", PLAN_BIRTH);
	expect(&dotted, "{'_id': 7, 'a': {'f': [1, 2, 3, 4], 'f': 1}}", PLAN_LEAVE);
	expect(&dotted, "{'_id': 7, 'a': {'f': [1, 2, 3, 4]}, 'a': 1}", PLAN_LEAVE);
	expect_left(&dotted, "{'_id': 7, 'a': {'f': [1, 2, 3, 4]}, 'b': {'flag': 1, 'flag': 1}}",
		    "the flag's name stands twice in it");
	expect_left(&dotted, "{'_id': 7, 'a': {'f': [1, 2, 3, 4]}, 'b': 1, 'b': 2}",
		    "the flag's name stands twice in it");
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3], 'flag': 1, 'flag': 2}", PLAN_REST);
}

/* An inclusion finds the state behind eight of them. */
Test(mover_plan, a_document_with_many_repeated_names_is_left_alone)
{
	static const char *const names = "'a': 1, 'a': 1, 'a': 1, 'a': 1, 'a': 1, 'a': 1, "
					 "'a': 1, 'a': 1, 'a': 1";
	char json[256];

	snprintf(json, sizeof(json), "{'_id': 7, 'f': [1, 2, 3, 4], %s}", names);
	expect(&rule, json, PLAN_BIRTH);
	snprintf(json, sizeof(json), "{'_id': 7, 'a': 1, 'f': [1, 2, 3, 4], %s}", names);
	expect_left(&rule, json, "names stand twice in it too often");
}

Test(mover_plan, elements_in_which_a_name_stands_twice_stay)
{
	expect_left(&rule, "{'_id': 7, 'f': [1, 2, 3, {'a': 1, 'b': 2, 'a': 3}]}",
		    "a name stands twice in an element of the array");
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, {'a': {'b': [1, {'c': 1, 'd': {}, 'c': 1}]}}]}",
	       PLAN_LEAVE);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, [[{'': 1, '': 1}]]]}", PLAN_LEAVE);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4, {'a': 1, 'a': 1}], " STATE(3, 1) "}",
	       PLAN_LEAVE);
	expect(&rule, "{'_id': 7, 'f': [{'a': 1, 'a': 2}, 2, 3, 4]}", PLAN_BIRTH);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, {'a': {'a': {'a': 1}}}, {'a': 1}]}", PLAN_BIRTH);
}

Test(mover_plan, many_names_that_differ_are_told_apart)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), array, inner;
	char name[12];

	writer_int32(&out, "_id", 1);
	array = writer_open_array(&out, "f");
	for (size_t i = 0; i < 4; i++) {
		inner = writer_open_document(&out, writer_index(name, i));
		for (size_t field = 0; field < 1000; field++)
			writer_bool(&out, writer_index(name, field), true);
		writer_close(&out, inner);
	}
	writer_close(&out, array);
	writer_close(&out, start);
	rule.max_bytes = 1 << 20;
	cr_assert_eq(plan_make(&rule, buffer_view(&out)).kind, PLAN_BIRTH);
	out.data[out.length - 6] ^= 1; /* the last name, "999", is now "998" */
	cr_assert_eq(plan_make(&rule, buffer_view(&out)).kind, PLAN_LEAVE);
}

/* What stood there before comes back when the array does, and M4 takes no more than a value along.
 */
Test(mover_plan, a_counter_or_reference_of_another_kind_leaves_it_alone)
{
	static struct rule counted = {.array = "f",
				      .key = "f",
				      .threshold = 3,
				      .max_bytes = 1000,
				      .counters = {.total = "total", .documents = "documents"},
				      .reference = {.field = "ref", .format = "{_id}"}};
	struct rule of_app = counted;

	of_app.counters.owned_by_app = true;
	expect(&counted, "{'_id': 7, 'f': [1, 2, 3, 4]}", PLAN_BIRTH);
	expect(&counted, "{'_id': 7, 'f': [1, 2, 3, 4], 'total': 5, 'documents': 0.5}", PLAN_BIRTH);
	expect(&counted, "{'_id': 7, 'f': [1, 2, 3, 4], 'total': null, 'ref': null}", PLAN_BIRTH);
	expect(&counted, "{'_id': 7, 'f': [1, 2, 3, 4], 'ref': 'text'}", PLAN_BIRTH);
	expect_left(&counted, "{'_id': 7, 'f': [1, 2, 3, 4], 'ref': 1}",
		    "what stands in the reference's place is no text");
	expect_left(&counted, "{'_id': 7, 'f': [1, 2, 3, 4], 'ref': 'a', 'ref': 'b'}",
		    "the reference's name stands twice in it");
	expect_left(&counted, "{'_id': 7, 'f': [1, 2, 3, 4], 'total': {'a': 1}}",
		    "what stands in a counter's place is no number");
	expect_left(&counted, "{'_id': 7, 'f': [1, 2, 3, 4], 'documents': '1'}",
		    "what stands in a counter's place is no number");
	expect_left(&counted, "{'_id': 7, 'f': [1, 2, 3, 4], 'documents': 1, 'documents': 1}",
		    "a counter's name stands twice in it");
	expect(&counted, "{'_id': 7, 'f': [1, 2, 3, 4, 5], 'total': 'x', " STATE(3, 1) "}",
	       PLAN_LEAVE);
	expect(&counted, "{'_id': 7, 'f': [1, 2, 3], 'total': 'x'}", PLAN_REST);
	expect(&of_app, "{'_id': 7, 'f': [1, 2, 3, 4], 'total': 'x'}", PLAN_BIRTH);
}

Test(mover_plan, a_flag_below_something_that_is_no_document_leaves_it_alone)
{
	expect_left(&dotted, "{'_id': 7, 'a': {'f': [1, 2, 3, 4]}, 'b': 1}",
		    "a parent of the flag is no document");
	expect(&dotted, "{'_id': 7, 'a': {'f': [1, 2, 3, 4]}, 'b': []}", PLAN_LEAVE);
	expect(&dotted, "{'_id': 7, 'a': {'f': [1, 2, 3, 4]}, 'b': {}}", PLAN_BIRTH);
}

/* mongod would store another timestamp as the link. */
Test(mover_plan, a_timestamp_of_zero_as_id_leaves_it_alone)
{
	expect_left(&rule, "{'_id': {'$timestamp': {'t': 0, 'i': 0}}, 'f': [1, 2, 3, 4]}",
		    "its _id is the Timestamp (0, 0)");
	expect(&rule, "{'_id': {'$timestamp': {'t': 0, 'i': 1}}, 'f': [1, 2, 3, 4]}", PLAN_BIRTH);
	expect(&rule, "{'_id': {'$timestamp': {'t': 0, 'i': 0}}, 'f': [1, 2, 3]}", PLAN_REST);
}

Test(mover_plan, a_parent_that_is_no_document_stops)
{
	expect(&dotted, "{'_id': 7, 'a': [{'f': [1, 2, 3, 4]}]}", PLAN_REST);
	expect(&dotted, "{'_id': 7, 'a': 1}", PLAN_REST);
	expect(&dotted, "{'_id': 7, 'a': {'f': [1, 2, 3, 4]}}", PLAN_BIRTH);
	expect(&dotted, "{'_id': 7, 'a.f': [1, 2, 3, 4]}", PLAN_REST);
}

Test(mover_plan, a_state_that_no_spillway_wrote_is_left_alone)
{
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], '_spill': 1}", PLAN_BROKEN);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], '_spill': []}", PLAN_BROKEN);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], '_spill': {'f': 1}}", PLAN_BROKEN);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], '_spill': {'f': {'g': 1, 'h': 1, 'n': 1}}}",
	       PLAN_BROKEN);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], '_spill': {'f': {'g': " G ", 'n': 1}}}",
	       PLAN_BROKEN);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], " STATE(-1, 1) "}", PLAN_BROKEN);
	expect(&rule, "{'_id': 7, 'f': [1, 2, 3, 4], " STATE(1, -1) "}", PLAN_BROKEN);
	expect(&rule, "{'f': [1, 2, 3, 4]}", PLAN_BROKEN);
}

Test(mover_plan, bytes_that_end_early_are_no_document)
{
	struct bytes whole = document("{'_id': 7, 'f': [1, 2, 3, 4], " STATE(1, 1) "}");

	for (size_t length = 0; length < whole.length; length++) {
		auto_free uint8_t *copy = must_malloc(length + 1);

		memcpy(copy, whole.data, length);
		cr_assert_eq(plan_make(&rule, (struct bytes){copy, length}).kind, PLAN_BROKEN,
			     "%zu bytes", length);
	}
}

/* The image that comes behind another. */

static bool follows(const char *old_json, const char *json, struct plan *plan, struct plan *made)
{
	struct bytes second = document(old_json);
	auto_free uint8_t *old = must_malloc(second.length);
	struct plan before;
	size_t length = second.length;

	memcpy(old, second.data, length);
	before = plan_make(&rule, (struct bytes){old, length});
	second = document(json);
	*made = plan_make(&rule, second);
	return plan_follow(&rule, &before, (struct bytes){old, length}, second, plan);
}

static void expect_following(const char *old, const char *json)
{
	struct plan plan, made;

	cr_assert(follows(old, json, &plan, &made), "%s", json);
	cr_assert_eq(plan.kind, PLAN_MOVE);
	cr_assert_eq(made.kind, PLAN_MOVE);
	cr_assert_null(plan.why);
	cr_assert_eq(plan.id.value.data, made.id.value.data);
	cr_assert_eq(plan.id.name.data, made.id.name.data);
	cr_assert_eq(plan.generation.data, made.generation.data);
	cr_assert_eq(plan.state.value.data, made.state.value.data);
	cr_assert_eq(plan.array.data, made.array.data);
	cr_assert_eq(plan.array.length, made.array.length);
	cr_assert_eq(plan.tail.at, made.tail.at);
	cr_assert_eq(plan.tail.end, made.tail.end);
	cr_assert_eq(plan.head, made.head);
	cr_assert_eq(plan.moved, made.moved);
	cr_assert_eq(plan.length, made.length);
	cr_assert_eq(plan.size, made.size);
}

static void expect_other(const char *old, const char *json)
{
	struct plan plan, made;

	cr_assert_not(follows(old, json, &plan, &made), "%s", json);
}

Test(mover_plan, what_was_found_in_an_image_holds_behind_the_birth)
{
	expect_following("{'_id': 7, 'f': [1, 2, 3, 4]}",
			 "{'_id': 7, 'f': [1, 2, 3, 4], " STATE(3, 0) "}");
	expect_following(
		"{'_id': 7, 'f': [1, 2, 'x', 4, 5], 'other': {'_spill': 1}}",
		"{'_id': 7, 'f': [1, 2, 'x', 4, 5], 'other': {'_spill': 1}, " STATE(3, 0) "}");
}

Test(mover_plan, behind_another_image_it_is_found_anew)
{
	static const char old[] = "{'_id': 7, 'f': [1, 2, 3, 4], 'x': 1}";

	expect_other(old, old);
	expect_other(old, "{'_id': 7, 'f': [1, 2, 9, 4], 'x': 1, " STATE(3, 0) "}");
	expect_other(old, "{'_id': 7, 'f': [1, 2, 3, 4], 'x': 2, " STATE(3, 0) "}");
	expect_other(old, "{'_id': 7, 'f': [1, 2, 3, 4, 5], 'x': 1, " STATE(3, 0) "}");
	expect_other(old, "{'_id': 7, 'f': [1, 2, 3, 4], 'x': 1, " STATE(2, 0) "}");
	expect_other(old, "{'_id': 7, 'f': [1, 2, 3, 4], 'x': 1, " STATE(3, 1) "}");
	expect_other(old, "{'_id': 7, 'f': [1, 2, 3, 4], 'x': 1, " STATE(3, 0) ", 'y': 1}");
	expect_other(old, "{'_id': 7, 'f': [1, 2, 3, 4], 'x': 1, 'y': 1, " STATE(3, 0) "}");
	expect_other(old, "{'_id': 7, 'f': [1, 2, 3, 4], 'x': 1, '_spill': {}}");
	expect_other(old, "{'_id': 7, 'f': [1, 2, 3, 4], 'x': 1, '_spill': {'other': 1}}");
	expect_other(old, "{'_id': 7, 'f': [1, 2, 3, 4], 'x': 1, 'y': " G "}");
}

Test(mover_plan, nothing_is_carried_over_where_nothing_was_to_be_born)
{
	expect_other("{'_id': 7, 'f': [1, 2, 3]}", "{'_id': 7, 'f': [1, 2, 3], " STATE(3, 0) "}");
	expect_other("{'_id': 7, 'f': [1, 2, 3, 4], '_spill': {}}",
		     "{'_id': 7, 'f': [1, 2, 3, 4], '_spill': {}, " STATE(3, 0) "}");
	expect_other(
		"{'_id': 7, 'f': [1, 2, 3, 4], 'g': 1, 'flag': 1, 'flag': 2}",
		"{'_id': 7, 'f': [1, 2, 3, 4], 'g': 1, 'flag': 1, 'flag': 2, " STATE(3, 0) "}");
}

/* Batches. */

static int64_t take(struct cursor *tail, int64_t held, int64_t count, int64_t size, size_t *bytes)
{
	auto_buffer struct buffer out = {0};
	int64_t taken = plan_take(tail, held, count, size, &out);

	*bytes = out.length;
	return taken;
}

Test(mover_plan, a_batch_takes_what_fits)
{
	struct plan plan = plan_of("{'_id': 7, 'f': [0, 1, 2, 3, 4, 5, 6], " STATE(2, 0) "}");
	size_t bytes;

	cr_assert_eq(take(&plan.tail, 0, 2, 1000, &bytes), 2);
	cr_assert_eq(bytes, 14);
	cr_assert_eq(take(&plan.tail, 0, 10, 13, &bytes), 1);
	cr_assert_eq(take(&plan.tail, 0, 10, 14, &bytes), 2);
	cr_assert_eq(take(&plan.tail, 0, 10, 14, &bytes), 0);
	cr_assert_eq(bytes, 0);
}

Test(mover_plan, a_large_element_has_an_empty_batch_to_itself)
{
	struct plan plan = plan_of("{'_id': 7, 'f': ['a text', 'another'], " STATE(0, 0) "}");
	size_t bytes;

	cr_assert_eq(take(&plan.tail, 1, 10, 5, &bytes), 0);
	cr_assert_eq(take(&plan.tail, 0, 10, 5, &bytes), 1);
	cr_assert_eq(take(&plan.tail, 0, 10, 5, &bytes), 1);
}

Test(mover_plan, elements_are_numbered_from_what_the_batch_holds)
{
	struct plan plan = plan_of("{'_id': 7, 'f': [0, 1], " STATE(0, 0) "}");
	auto_buffer struct buffer out = {0};

	/* "9" and "10": 7 bytes and 8. */
	cr_assert_eq(plan_take(&plan.tail, 9, 10, 15, &out), 2);
	cr_assert_str_eq((const char *)out.data + 1, "9");
	cr_assert_str_eq((const char *)out.data + 8, "10");
}
