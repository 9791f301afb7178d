/* Tests protocol/writer.c: what it builds is what libbson builds. */
#include <bson/bson.h>
#include <signal.h>

#include "tests/unit/samples.h"

static struct bytes bytes_of_bson(const bson_t *bson)
{
	return (struct bytes){bson_get_data(bson), bson->len};
}

Test(writer, every_type_is_written_as_libbson_writes_it)
{
	auto_buffer struct buffer buffer = {0};
	bson_t *bson =
		BCON_NEW("string", BCON_UTF8("text"), "int32", BCON_INT32(-5), "int64",
			 BCON_INT64(INT64_MIN), "double", BCON_DOUBLE(0.1), "true", BCON_BOOL(true),
			 "false", BCON_BOOL(false), "binary",
			 BCON_BIN(BSON_SUBTYPE_BINARY, (const uint8_t *)"\0\1\2", 3), "document",
			 "{", "inner", "{", "}", "}", "array", "[", BCON_INT32(7), "[", "]", "]");
	size_t start = writer_open(&buffer), inner, deepest;

	writer_string(&buffer, "string", "text");
	writer_int32(&buffer, "int32", -5);
	writer_int64(&buffer, "int64", INT64_MIN);
	writer_double(&buffer, "double", 0.1);
	writer_bool(&buffer, "true", true);
	writer_bool(&buffer, "false", false);
	writer_binary(&buffer, "binary", LITERAL("\0\1\2"));
	inner = writer_open_document(&buffer, "document");
	deepest = writer_open_document(&buffer, "inner");
	writer_close(&buffer, deepest);
	writer_close(&buffer, inner);
	inner = writer_open_array(&buffer, "array");
	writer_int32(&buffer, "0", 7);
	deepest = writer_open_array(&buffer, "1");
	writer_close(&buffer, deepest);
	writer_close(&buffer, inner);
	writer_close(&buffer, start);
	assert_bytes(buffer_view(&buffer), bytes_of_bson(bson));
	bson_destroy(bson);
}

Test(writer, a_document_may_begin_behind_other_bytes)
{
	auto_buffer struct buffer buffer = {0};
	size_t start;

	buffer_append(&buffer, "head", 4);
	start = writer_open(&buffer);
	cr_assert_eq(start, 4);
	writer_close(&buffer, start);
	assert_bytes(buffer_view(&buffer), LITERAL("head\5\0\0\0\0"));
}

Test(writer, a_text_keeps_the_NULs_inside_it)
{
	auto_buffer struct buffer buffer = {0};

	writer_text(&buffer, "t", LITERAL("a\0b"));
	assert_bytes(buffer_view(&buffer), LITERAL("\2t\0\4\0\0\0a\0b\0"));
}

Test(writer, documents_and_arrays_go_in_as_they_are)
{
	auto_buffer struct buffer buffer = {0};

	writer_document(&buffer, "d", LITERAL("\5\0\0\0\0"));
	writer_array(&buffer, "a", LITERAL("\5\0\0\0\0"));
	assert_bytes(buffer_view(&buffer), LITERAL("\3d\0\5\0\0\0\0\4a\0\5\0\0\0\0"));
}

Test(writer, an_element_of_any_type_is_copied_and_renamed_byte_for_byte)
{
	auto_buffer struct buffer document = sample("cursor/every_type");
	auto_buffer struct buffer copy = {0};
	auto_buffer struct buffer renamed = {0};
	size_t start = writer_open(&copy), start_renamed = writer_open(&renamed), count = 0;
	struct cursor cursor, other;
	struct element element, twin;

	cr_assert(cursor_open(&cursor, buffer_view(&document)));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		writer_element(&copy, &element);
		writer_renamed(&renamed, "another name", &element);
		count++;
	}
	writer_close(&copy, start);
	writer_close(&renamed, start_renamed);
	assert_bytes(buffer_view(&copy), buffer_view(&document));

	cr_assert(cursor_open(&cursor, buffer_view(&document)));
	cr_assert(cursor_open(&other, buffer_view(&renamed)));
	for (size_t i = 0; i < count; i++) {
		cr_assert_eq(cursor_next(&cursor, &element), CURSOR_ELEMENT);
		cr_assert_eq(cursor_next(&other, &twin), CURSOR_ELEMENT);
		cr_assert(element_is(&twin, "another name"));
		cr_assert_eq(twin.type, element.type);
		assert_bytes(twin.value, element.value);
	}
	cr_assert_eq(cursor_next(&other, &twin), CURSOR_END);
}

Test(writer, array_elements_are_numbered_in_decimal)
{
	static const size_t numbers[] = {0, 1, 9, 10, 99, 100, 123456, 999999999, INT32_MAX};
	char name[12], expected[24];

	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
		snprintf(expected, sizeof(expected), "%zu", numbers[i]);
		cr_assert_str_eq(writer_index(name, numbers[i]), expected);
	}
}

Test(writer, a_text_too_long_for_its_length_field_ends_the_program, .signal = SIGABRT)
{
	auto_buffer struct buffer buffer = {0};

	writer_text(&buffer, "t", (struct bytes){(const uint8_t *)"", INT32_MAX});
}

Test(writer, bytes_too_long_for_their_length_field_end_the_program, .signal = SIGABRT)
{
	auto_buffer struct buffer buffer = {0};

	writer_binary(&buffer, "b", (struct bytes){(const uint8_t *)"", (size_t)INT32_MAX + 1});
}

Test(writer, a_full_buffer_takes_no_more_fields_and_stays_good)
{
	auto_buffer struct buffer out = {0}, chunk = {0};
	size_t outer = writer_open(&out), inner, length, none;

	buffer_reserve(&chunk, 16 << 20);
	memset(chunk.data, 'x', 16 << 20);
	chunk.length = 16 << 20;
	inner = writer_open_document(&out, "inner");
	while (!writer_full(&out))
		writer_text(&out, "text", buffer_view(&chunk));
	length = out.length;
	none = writer_open_array(&out, "array");
	writer_int32(&out, "number", 1);
	writer_string(&out, "string", "text");
	writer_binary(&out, "binary", bytes_of("b"));
	writer_document(&out, "document", (struct bytes){(const uint8_t *)"\5\0\0\0\0", 5});
	writer_close(&out, none);
	none = writer_open(&out);
	writer_close(&out, none);
	cr_assert_eq(out.length, length);
	writer_close(&out, inner);
	writer_close(&out, outer);
	cr_assert_eq(out.length, length + 2);
	cr_assert(document_valid(buffer_view(&out)));
}
