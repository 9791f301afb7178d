/* Tests protocol/template.c. */
#include "tests/unit/wire_make.h"

#include "protocol/template.h"

#include <signal.h>

#define expect_written(json, ...) \
	do { \
		auto_buffer struct buffer expected_out = {0}; \
		template_write_document(&expected_out, __VA_ARGS__); \
		made_expect(buffer_view(&expected_out), json); \
	} while (0)

static struct element first_of(const char *json)
{
	struct cursor cursor;
	struct element element;

	cr_assert(cursor_open(&cursor, made_bson(json)));
	cr_assert_eq(cursor_next(&cursor, &element), CURSOR_ELEMENT);
	return element;
}

Test(template, the_text_is_the_shells_json)
{
	expect_written("{}", "{}");
	expect_written("{'a': 1, '$b': [1, -2, 'x', '', {}, []], 'c.d': {'e': null}}",
		       "{a: 1, $b: [1, -2, 'x', '', {}, []], 'c.d': {e: null}}");
	expect_written("{'a': true, 'b': false, 'c': {'$numberLong': '5'}, 'true': 'a b'}",
		       " {a : true,\n\tb: false, c: 5L, 'true': 'a b', } ");
	expect_written("{'': 1}", "{'': 1}");
	expect_written("{'it\\u0027s': 'a \\u0027 b'}", "{\"it's\": \"a ' b\"}");
	expect_written("{'a': {'$undefined': true}, 'b': {'$minKey': 1}}",
		       "{a: undefined, b: MinKey}");
	expect_written("{'a': {'$binary': {'base64': 'AP8=', 'subType': '00'}}, 'b': {'$binary': "
		       "{'base64': '', 'subType': '00'}}}",
		       "{a: HexData(0, '00ff'), b: HexData(0, '')}");
}

Test(template, places_are_filled_by_what_the_values_type_says)
{
	const struct element element = first_of("{'x': {'$numberDecimal': '1.5'}}");
	char text[] = "y";

	expect_written("{'a': {'$numberDecimal': '1.5'}, 'b': 'y', 'c': 7, 'd': {'$numberLong': "
		       "'8'}, 'e': true, 'f': 'z'}",
		       "{a: @x, b: @text, c: @small, d: @large, e: @truth, f: @words}",
		       fill("x", &element), fill("text", text), fill("small", (int32_t)7),
		       fill("large", (int64_t)8), fill("truth", (bool)true), fill("words", "z"));
}

Test(template, texts_are_filled_inside_strings_and_names)
{
	expect_written("{'x.y.n': '$_spill.x.g', 'a': 'xy', '@': 1}",
		       "{@key.@other.n: '$_spill.@key.g', a: '@key@other', @at: 1}",
		       fill("key", "x"), fill("other", "y"), fill("at", "@"));
	/* What fills a place is not read itself. */
	expect_written("{'a': '$@key', 'b': 'it\\u0027s'}", "{a: '$@key', b: @quote}",
		       fill("key", "@key"), fill("quote", "it's"));
}

static void write_twice(struct buffer *out, const char *name, const void *context)
{
	writer_int32(out, name, 2 * *(const int *)context);
}

Test(template, documents_arrays_and_functions_fill_places)
{
	const int number = 21;

	expect_written("{'a': {'x': 1}, 'b': [2, 3], 'c': [0, 42]}",
		       "{a: @document, b: @array, c: [0, @twice]}",
		       fill_document("document", made_bson("{'x': 1}")),
		       fill_array("array", made_bson("{'0': 2, '1': 3}")),
		       fill_with("twice", write_twice, &number));
	expect_written("{'a': {'$binary': {'base64': 'eHk=', 'subType': '00'}}}", "{a: @bytes}",
		       fill_binary("bytes", bytes_of("xy")));
	expect_written("{'a': 1, 'x': 1, 'y': 2, 'l': [0, 2, 3, 4]}",
		       "{a: 1, ..@fields, l: [0, ..@array, 4]}",
		       fill_document("fields", made_bson("{'x': 1, 'y': 2}")),
		       fill_array("array", made_bson("{'0': 2, '1': 3}")));
	expect_written("{'l': []}", "{l: [..@array]}", fill_array("array", made_bson("{}")));
}

Test(template, a_view_fills_as_a_text_does)
{
	const struct bytes view = {(const uint8_t *)"abc", 2};
	const struct bytes with_nul = {(const uint8_t *)"a\0c", 3};
	auto_buffer struct buffer out = {0};

	expect_written("{'xab': '$ab', 'a': 'ab'}", "{x@name: '$@name', a: @name}",
		       fill("name", view));
	expect_written("{'a': '$a'}", "{@name: '$@name'}", fill("name", with_nul));
	template_write_document(&out, "{a: @name}", fill("name", with_nul));
	cr_assert(bytes_equal(buffer_view(&out), (struct bytes){(const uint8_t *)"\x10\0\0\0"
										 "\x02"
										 "a\0\x04\0\0\0"
										 "a\0c\0",
								16}));
}

Test(template, a_template_fills_a_place_by_the_same_fills)
{
	expect_written("{'a': {'b': [7, 'x']}, 'c': 7}", "{a: @inner, c: @number}",
		       fill_template("inner", "{b: [@number, '@text']}"), fill("text", "x"),
		       fill("number", (int32_t)7));
	expect_written("{'a': 7}", "{a: @first}", fill_template("first", "@second"),
		       fill_template("second", "@number"), fill("number", (int32_t)7));
	expect_written("{'a': 1, 'b': 2, 'l': [0, 3, 4, 5]}",
		       "{a: 1, ..@fields, ..@none, l: [0, ..@elements, 5]}",
		       fill_template("fields", "{b: 2}"), fill_template("none", "{}"),
		       fill_template("elements", "[3, 4]"));
}

static void write_nothing(struct buffer *out, const char *name, const void *context)
{
	(void)out, (void)name, (void)context;
}

Test(template, what_is_not_there_is_left_out)
{
	const struct element none = {.type = 0};

	expect_written("{'a': 1, 'l': [2, 3]}",
		       "{a: 1, x: @none, y: @empty, l: [@none, 2, @nothing, 3, @no_text]}",
		       fill("none", &none), fill("no_text", (const char *)NULL),
		       fill_binary("empty", (struct bytes){0}),
		       fill_with("nothing", write_nothing, NULL));
}

static void splice_two(struct buffer *out, size_t *place, const void *context)
{
	char name[12];

	for (int32_t i = 0; i < 2; i++)
		writer_int32(out,
			     place ? writer_index(name, (*place)++)
			     : i   ? "z"
				   : "y",
			     *(const int *)context + i);
}

Test(template, a_function_puts_several_in_a_place)
{
	const int number = 7;

	expect_written("{'x': 1, 'y': 7, 'z': 8, 'l': [1, 7, 8, 2]}",
		       "{x: 1, ..@two, l: [1, ..@two, 2]}",
		       fill_spliced("two", splice_two, &number));
}

Test(template, documents_one_behind_the_other_become_elements)
{
	auto_buffer struct buffer documents = {0};

	template_write_document(&documents, "{a: 1}");
	template_write_document(&documents, "{b: 2}");
	expect_written("{'l': [0, {'a': 1}, {'b': 2}, 3]}", "{l: [0, ..@documents, 3]}",
		       fill_documents("documents", buffer_view(&documents)));
}

Test(template, it_is_written_into_what_is_open)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	template_write(&out, "first", "['@a', 1]", fill("a", "x"));
	template_write_fields(&out, "{b: 2, c: 3}");
	writer_close(&out, start);
	made_expect(buffer_view(&out), "{'first': ['x', 1], 'b': 2, 'c': 3}");
}

Test(template, elements_are_appended_one_by_one)
{
	const struct element none = {.type = 0};
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), place = 9;

	template_append(&out, &place, "{a: @a}", fill("a", "x"));
	template_append(&out, &place, "@none", fill("none", &none));
	template_append(&out, &place, "2");
	writer_close(&out, start);
	cr_assert_eq(place, 11);
	made_expect(buffer_view(&out), "{'9': {'a': 'x'}, '10': 2}");
}

static void write_bad(const char *text)
{
	auto_buffer struct buffer out = {0};

	template_write_document(&out, text, fill("number", (int32_t)1),
				fill_template("more", "1 2"));
}

#define BAD(name, text) \
	Test(template, name, .signal = SIGABRT) \
	{ \
		write_bad(text); \
	}

BAD(a_place_that_nothing_fills_ends_the_program, "{a: @other}")
BAD(a_number_inside_a_text_ends_it, "{a: 'x@number'}")
BAD(so_does_a_text_that_is_not_closed, "{a: 'x}")
BAD(and_a_document_that_is_not, "{a: 1")
BAD(and_an_array_that_is_not, "{a: [1}")
BAD(and_what_is_no_value, "{a: x}")
BAD(and_what_follows, "{a: 1} b")
BAD(and_what_can_not_be_spliced, "{..@number}")
BAD(and_a_number_that_does_not_fit, "{a: 3000000000}")
BAD(and_bytes_that_are_not_whole, "{a: HexData(0, '0')}")
BAD(and_a_template_with_something_behind_it, "{a: @more}")
