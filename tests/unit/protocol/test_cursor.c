/* Tests protocol/cursor.c: what it takes and refuses is what mongod 6.0.5 takes and refuses. */
#include <math.h>
#include <stdlib.h>

#include "tests/unit/samples.h"

#include "protocol/cursor.h"

struct known_element {
	uint8_t type;
	const char *name;
	size_t length;
};

static const struct known_element every_type[] = {
	{BSON_BYTE_DOUBLE, "double", 8},
	{BSON_BYTE_STRING, "string", 10},
	{BSON_BYTE_DOCUMENT, "document", 21},
	{BSON_BYTE_ARRAY, "array", 16},
	{BSON_BYTE_BINARY, "binary", 8},
	{BSON_BYTE_UNDEFINED, "undefined", 0},
	{BSON_BYTE_OBJECT_ID, "id", 12},
	{BSON_BYTE_BOOL, "bool", 1},
	{BSON_BYTE_DATE, "date", 8},
	{BSON_BYTE_NULL, "null", 0},
	{BSON_BYTE_REGEX, "regex", 6},
	{BSON_BYTE_DB_POINTER, "pointer", 18},
	{BSON_BYTE_CODE, "code", 6},
	{BSON_BYTE_SYMBOL, "symbol", 6},
	{BSON_BYTE_CODE_WITH_SCOPE, "scope", 22},
	{BSON_BYTE_INT32, "int32", 4},
	{BSON_BYTE_TIMESTAMP, "timestamp", 8},
	{BSON_BYTE_INT64, "int64", 8},
	{BSON_BYTE_DECIMAL, "decimal", 16},
	{BSON_BYTE_MIN_KEY, "min", 0},
	{BSON_BYTE_MAX_KEY, "max", 0},
	{BSON_BYTE_BOOL, "last", 1},
};

Test(cursor, every_type_is_read_with_its_own_length)
{
	auto_buffer struct buffer document = sample("cursor/every_type");
	const uint8_t *at = document.data + 4;
	struct cursor cursor;
	struct element element;

	cr_assert(cursor_open(&cursor, buffer_view(&document)));
	for (size_t i = 0; i < ARRAY_LENGTH(every_type); i++) {
		cr_assert_eq(cursor_next(&cursor, &element), CURSOR_ELEMENT);
		cr_assert_eq(element.type, every_type[i].type);
		cr_assert(element_is(&element, every_type[i].name));
		cr_assert_eq(element.value.length, every_type[i].length);
		cr_assert_eq(element_raw(&element).data, at);
		cr_assert_eq(element.name.data, at + 1);
		cr_assert_eq(element.value.data + element.value.length,
			     element_raw(&element).data + element_raw(&element).length);
		at += element_raw(&element).length;
	}
	cr_assert_eq(cursor_next(&cursor, &element), CURSOR_END);
	cr_assert_eq(cursor_next(&cursor, &element), CURSOR_END, "the end stays the end");
	cr_assert(document_valid(buffer_view(&document)));
}

/* Walks the top level of what may be a prefix; how it ended, and how many elements there were. */
static enum cursor_step walk_prefix(struct bytes prefix, size_t *count)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step;

	*count = 0;
	if (!cursor_open_prefix(&cursor, prefix, INT32_MAX))
		return CURSOR_INVALID;
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT) {
		cr_assert(inside(element_raw(&element), prefix));
		(*count)++;
	}
	return step;
}

Test(cursor, a_prefix_has_the_elements_that_are_there_and_is_partial)
{
	auto_buffer struct buffer document = sample("cursor/every_type");
	size_t whole[ARRAY_LENGTH(every_type)] = {0}, complete = 0, count;
	struct cursor cursor;
	struct element element;

	cr_assert(cursor_open(&cursor, buffer_view(&document)));
	for (size_t i = 0; i < ARRAY_LENGTH(every_type); i++) {
		cr_assert_eq(cursor_next(&cursor, &element), CURSOR_ELEMENT);
		whole[i] = (size_t)(cursor.at - document.data);
	}
	for (size_t length = 4; length <= document.length; length++) {
		auto_free uint8_t *copy = exact_copy((struct bytes){document.data, length});
		enum cursor_step step = walk_prefix((struct bytes){copy, length}, &count);

		while (complete < ARRAY_LENGTH(whole) && whole[complete] <= length)
			complete++;
		cr_assert_eq(count, complete, "%zu bytes", length);
		cr_assert_eq(step, length < document.length ? CURSOR_PARTIAL : CURSOR_END);
	}
}

Test(cursor, a_prefix_may_claim_no_more_than_the_limit)
{
	struct cursor cursor;

	cr_assert(cursor_open_prefix(&cursor, LITERAL("\x64\0\0\0"), 100));
	cr_assert_not(cursor_open_prefix(&cursor, LITERAL("\x65\0\0\0"), 100));
	cr_assert_not(cursor_open_prefix(&cursor, LITERAL("\xff\xff\xff\xff"), 100));
	cr_assert_not(cursor_open_prefix(&cursor, LITERAL("\4\0\0\0"), 100));
	cr_assert_not(cursor_open_prefix(&cursor, LITERAL("\5\0\0"), 100));
	cr_assert_not(cursor_open_prefix(&cursor, LITERAL("\5\0\0\0\1"), 100), "no closing NUL");
}

Test(cursor, a_document_is_as_long_as_its_bytes)
{
	struct cursor cursor;

	cr_assert(cursor_open(&cursor, LITERAL("\5\0\0\0\0")));
	cr_assert_not(cursor_open(&cursor, LITERAL("\5\0\0\0\0\0")));
	cr_assert_not(cursor_open(&cursor, LITERAL("\6\0\0\0\0")));
	cr_assert_not(cursor_open(&cursor, (struct bytes){0}));
	cr_assert_eq(document_length(LITERAL("\5\0\0\0\0\0")), 5);
	cr_assert_eq(document_length(LITERAL("\6\0\0\0\0")), 0);
	cr_assert_eq(document_length(LITERAL("\4\0\0\0\0")), 0);
	cr_assert_eq(document_length(LITERAL("\5\0\0\0")), 0);
	cr_assert_eq(document_length((struct bytes){0}), 0);
}

/* {v: <the value>}, checked on memory that ends with it. */
static bool value_valid(uint8_t type, struct bytes value)
{
	auto_buffer struct buffer document = {0};
	size_t start = writer_open(&document);
	struct element element = {.type = type, .value = value};

	writer_renamed(&document, "v", &element);
	writer_close(&document, start);
	return try_exact(buffer_view(&document), document_valid);
}

struct verdict {
	uint8_t type;
	struct bytes value;
};

/* Each was sent to mongod 6.0.5 as {ping: 1, comment: <value>}, which answered ok. */
Test(cursor, what_mongod_takes_is_taken)
{
	const struct verdict taken[] = {
		{BSON_BYTE_STRING, LITERAL("\4\0\0\0a\0b\0")},
		{BSON_BYTE_STRING, LITERAL("\3\0\0\0\xff\xfe\0")},
		{BSON_BYTE_BINARY, LITERAL("\0\0\0\0\0")},
		{BSON_BYTE_BINARY, LITERAL("\7\0\0\0\2\3\0\0\0abc")},
		{BSON_BYTE_BINARY, LITERAL("\7\0\0\0\2\x63\0\0\0abc")}, /* wrong inner length */
		{BSON_BYTE_BINARY, LITERAL("\2\0\0\0\2ab")},
		{BSON_BYTE_BINARY, LITERAL("\2\0\0\0\7ab")},
		{BSON_BYTE_BINARY, LITERAL("\2\0\0\0\xc8"
					   "ab")},
		{BSON_BYTE_REGEX, LITERAL("a\0xi\0")}, /* options that are not sorted */
		{BSON_BYTE_REGEX, LITERAL("a\0q\0")},  /* and not known */
		{BSON_BYTE_REGEX, LITERAL("\0\0")},
		{BSON_BYTE_ARRAY, LITERAL("\x13\0\0\0\x10x\0\1\0\0\0\x10x\0\2\0\0\0\0")},
		{BSON_BYTE_DOCUMENT, LITERAL("\5\0\0\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\xf\0\0\0\2\0\0\0a\0\5\0\0\0\0")},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(taken); i++)
		cr_assert(value_valid(taken[i].type, taken[i].value), "row %zu", i);
}

/* Each was sent to mongod 6.0.5 in the same way, which answered InvalidBSON. */
Test(cursor, what_mongod_refuses_is_refused)
{
	const struct verdict refused[] = {
		{BSON_BYTE_BOOL, LITERAL("\2")},
		{BSON_BYTE_BOOL, LITERAL("\xff")},
		{BSON_BYTE_STRING, LITERAL("\2\0\0\0ab")},
		{BSON_BYTE_STRING, LITERAL("\0\0\0\0")},
		{BSON_BYTE_STRING, LITERAL("\0\0\0\0\0")},
		{BSON_BYTE_STRING, LITERAL("\xff\xff\xff\xff\0")},
		{BSON_BYTE_CODE, LITERAL("\2\0\0\0ab")},
		{BSON_BYTE_SYMBOL, LITERAL("\2\0\0\0ab")},
		{BSON_BYTE_DB_POINTER, LITERAL("\2\0\0\0abxxxxxxxxxxxx")},
		{BSON_BYTE_DB_POINTER, LITERAL("\0\0\0\0xxxxxxxxxxxx")},
		{0x14, LITERAL("")},
		{0x7e, LITERAL("")},
		{0x80, LITERAL("")},
		{0xfe, LITERAL("")},
		{BSON_BYTE_BINARY, LITERAL("\xff\xff\xff\xff\0abc")},
		{BSON_BYTE_DOCUMENT, LITERAL("\4\0\0\0")},
		{BSON_BYTE_DOCUMENT, LITERAL("\5\0\0\0\1")},
		{BSON_BYTE_DOCUMENT, LITERAL("\6\0\0\0\0\0")},
		{BSON_BYTE_DOCUMENT, LITERAL("\x0d\0\0\0\0\x10"
					     "a\0\1\0\0\0\0")},
		{BSON_BYTE_DOCUMENT, LITERAL("\x0d\0\0\0\x10"
					     "a\0\1\0\0\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\xe\0\0\0\2\0\0\0a\0\5\0\0\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\x10\0\0\0\2\0\0\0a\0\5\0\0\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\x10\0\0\0\2\0\0\0a\0\5\0\0\0\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\xd\0\0\0\0\0\0\0\5\0\0\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\x10\0\0\0\0\0\0\0\x8\0\0\0\xax\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\xf\0\0\0\2\0\0\0ab\5\0\0\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\xf\0\0\0\x63\0\0\0a\0\5\0\0\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\xe\0\0\0\2\0\0\0a\0\4\0\0\0")},
		{BSON_BYTE_CODE_WITH_SCOPE, LITERAL("\x13\0\0\0\2\0\0\0a\0\x9\0\0\0\x8x\0\2\0")},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(refused); i++)
		cr_assert_not(value_valid(refused[i].type, refused[i].value), "row %zu", i);
}

static bool top_level_valid(struct bytes bytes)
{
	size_t count;
	struct cursor cursor;

	return cursor_open(&cursor, bytes) && walk_prefix(bytes, &count) == CURSOR_END;
}

Test(cursor, no_beginning_of_a_document_is_a_document)
{
	auto_buffer struct buffer document = sample("cursor/every_type");

	cr_assert_eq(prefixes_taken(buffer_view(&document), document_valid), 0);
	cr_assert_eq(prefixes_taken(buffer_view(&document), top_level_valid), 0);
}

Test(cursor, a_document_with_a_changed_byte_is_read_within_its_bounds)
{
	auto_buffer struct buffer document = sample("cursor/every_type");
	size_t all = changes_taken(buffer_view(&document), document_valid);
	size_t top = changes_taken(buffer_view(&document), top_level_valid);

	cr_assert_gt(all, 0);
	cr_assert_gt(top, all, "what is wrong deep inside is not seen from above");
}

struct counted_type {
	uint8_t type;
	int32_t behind; /* bytes of the value that its length does not count */
};

Test(cursor, a_claim_near_the_largest_number_does_not_wrap)
{
	static const struct counted_type types[] = {
		{BSON_BYTE_STRING, 4}, {BSON_BYTE_CODE, 4},   {BSON_BYTE_SYMBOL, 4},
		{BSON_BYTE_ARRAY, 0},  {BSON_BYTE_BINARY, 5}, {BSON_BYTE_DB_POINTER, 16},
	};
	uint8_t text[32] = "\x20\0\0\0\2a\0____________________";
	size_t count;

	for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
		for (int32_t less = 0; less < 40; less++) {
			/* seven bytes stand before the value, and one has to come after it */
			bool room = less > types[i].behind + 7;

			text[4] = types[i].type;
			store_int32(text + 7, INT32_MAX - less);
			store_int32(text, 32);
			cr_assert_not(top_level_valid((struct bytes){text, 32}));
			store_int32(text, INT32_MAX);
			cr_assert_eq(walk_prefix((struct bytes){text, 32}, &count),
				     room ? CURSOR_PARTIAL : CURSOR_INVALID);
		}
	}
}

/* {<length letters>: null, <filler bytes in a binary>} */
static void one_long_name(struct buffer *document, size_t length, size_t filler)
{
	static const uint8_t zeros[32] = {0};
	size_t start = writer_open(document);

	buffer_append(document, &(uint8_t){BSON_BYTE_NULL}, 1);
	for (size_t i = 0; i < length; i++)
		buffer_append(document, &(uint8_t){(uint8_t)(i % 2 ? 0x80 : 0x01)}, 1);
	buffer_append(document, "", 1);
	writer_binary(document, "b", (struct bytes){zeros, filler});
	writer_close(document, start);
}

Test(cursor, a_name_of_any_length_is_found_at_any_distance_from_the_end)
{
	for (size_t length = 0; length < 40; length++) {
		for (size_t filler = 0; filler < 20; filler++) {
			auto_buffer struct buffer document = {0};
			auto_free uint8_t *copy = NULL;
			struct cursor cursor;
			struct element element;

			one_long_name(&document, length, filler);
			copy = exact_copy(buffer_view(&document));
			cr_assert(cursor_open(&cursor, (struct bytes){copy, document.length}));
			cr_assert_eq(cursor_next(&cursor, &element), CURSOR_ELEMENT);
			cr_assert_eq(element.name.length, length);
			cr_assert_eq(cursor_next(&cursor, &element), CURSOR_ELEMENT);
			cr_assert_eq(element.value.length, 5 + filler);
			cr_assert_eq(cursor_next(&cursor, &element), CURSOR_END);
		}
	}
}

/* `depth` documents, each but the innermost holding the next. */
static void nest(struct buffer *document, size_t depth)
{
	for (size_t left = depth; left > 0; left--) {
		int32_t length = (int32_t)(left * 8 - 3);

		buffer_append(document, &length, 4);
		if (left > 1)
			buffer_append(document, "\3a", 3);
	}
	for (size_t i = 0; i < depth; i++)
		buffer_append(document, "", 1);
}

Test(cursor, nesting_is_taken_to_the_depth_that_mongod_can_be_set_to)
{
	auto_buffer struct buffer deepest = {0};
	auto_buffer struct buffer too_deep = {0};

	nest(&deepest, CURSOR_MAX_DEPTH);
	cr_assert(document_valid(buffer_view(&deepest)));
	nest(&too_deep, CURSOR_MAX_DEPTH + 1);
	cr_assert_not(document_valid(buffer_view(&too_deep)));
}

Test(cursor, a_million_levels_take_no_stack)
{
	auto_buffer struct buffer document = {0};

	nest(&document, 1000000);
	cr_assert_not(document_valid(buffer_view(&document)));
	cr_assert(top_level_valid(buffer_view(&document)));
}

Test(cursor, what_looks_like_a_document_in_binary_data_is_not_read)
{
	cr_assert(value_valid(BSON_BYTE_BINARY, LITERAL("\6\0\0\0\0\4\0\0\0\xff\xff")));
}

Test(cursor, the_first_field_of_a_name_is_found)
{
	auto_buffer struct buffer document = {0};
	size_t start = writer_open(&document);
	struct element element = {0};
	int64_t value = 0;

	writer_int32(&document, "ab", 1);
	writer_int32(&document, "a", 2);
	writer_int32(&document, "a", 3);
	writer_int32(&document, "", 4);
	writer_close(&document, start);
	cr_assert(document_find(buffer_view(&document), "a", &element));
	cr_assert(element_integer(&element, &value));
	cr_assert_eq(value, 2);
	cr_assert(document_find(buffer_view(&document), "", &element));
	cr_assert_not(document_find(buffer_view(&document), "b", &element));
	cr_assert_not(document_find((struct bytes){0}, "a", &element));
}

Test(cursor, nothing_is_found_behind_broken_bytes)
{
	struct element element = {.type = 77};

	cr_assert_not(document_find(LITERAL("\x0b\0\0\0\x8x\0\2\xa"
					    "a\0\0"),
				    "a", &element));
	cr_assert_eq(element.type, 77, "nothing is written on failure");
}

Test(cursor, a_path_goes_through_documents_and_not_through_arrays)
{
	auto_buffer struct buffer document = sample("cursor/every_type");
	struct bytes view = buffer_view(&document);
	struct element element;

	cr_assert(document_find_path(view, "document.x", &element));
	cr_assert(document_find_path(view, "double", &element));
	cr_assert_not(document_find_path(view, "document.x.y", &element));
	cr_assert_not(document_find_path(view, "document.z", &element));
	cr_assert_not(document_find_path(view, "array.0", &element));
	cr_assert_not(document_find_path(view, "scope.x", &element));
	cr_assert_not(document_find_path(view, "document.", &element));
	cr_assert_not(document_find_path(view, ".x", &element));
}

static struct element number(const double *value)
{
	return (struct element){.type = BSON_BYTE_DOUBLE,
				.value = {(const uint8_t *)value, sizeof(*value)}};
}

Test(cursor, whole_numbers_of_three_types_are_integers)
{
	static const double whole[] = {0, -0.0, 5, -7, 9e15, -9e15};
	static const double others[] = {0.5, 9.1e15, 1e300, NAN, INFINITY, -INFINITY};
	struct element int64 = {.type = BSON_BYTE_INT64, .value = LITERAL("\0\0\0\0\0\0\0\x80")};
	struct element int32 = {.type = BSON_BYTE_INT32, .value = LITERAL("\xff\xff\xff\xff")};
	struct element yes = {.type = BSON_BYTE_BOOL, .value = LITERAL("\1")};
	int64_t value = 0;

	cr_assert(element_integer(&int64, &value));
	cr_assert_eq(value, INT64_MIN);
	cr_assert(element_integer(&int32, &value));
	cr_assert_eq(value, -1);
	for (size_t i = 0; i < ARRAY_LENGTH(whole); i++) {
		struct element element = number(&whole[i]);

		cr_assert(element_integer(&element, &value));
		cr_assert_eq((double)value, whole[i]);
	}
	value = 3;
	for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
		struct element element = number(&others[i]);

		cr_assert_not(element_integer(&element, &value));
	}
	cr_assert_not(element_integer(&yes, &value));
	cr_assert_eq(value, 3, "nothing is written on failure");
}

static bool decimal_truth(uint64_t high, uint64_t low)
{
	uint64_t words[2] = {low, high};
	struct element element = {.type = BSON_BYTE_DECIMAL,
				  .value = {(const uint8_t *)words, sizeof(words)}};

	return element_truth(&element);
}

/* Asked of mongod 6.0.5 by findAndModify with new: <decimal>. */
Test(cursor, a_decimal_is_true_where_mongod_says_so)
{
	cr_assert(decimal_truth(0x3040000000000000, 1));
	cr_assert(decimal_truth(0x7c00000000000000, 0), "NaN");
	cr_assert(decimal_truth(0x7800000000000000, 0), "infinity");
	cr_assert(decimal_truth(0xf800000000000000, 0), "minus infinity");
	cr_assert(decimal_truth(0x3041ed09bead87c0, 0x378d8e63ffffffff), "the largest");
	cr_assert_not(decimal_truth(0x3041ed09bead87c0, 0x378d8e6400000000), "beyond it");
	cr_assert_not(decimal_truth(0x3041ffffffffffff, 5));
	cr_assert_not(decimal_truth(0x6c10000000000000, 5), "the long form");
	cr_assert_not(decimal_truth(0x3040000000000000, 0));
	cr_assert_not(decimal_truth(0xb046000000000000, 0), "minus zero");
}

Test(cursor, bools_and_numbers_are_true_and_nothing_else)
{
	static const double numbers[] = {0.5, NAN, -INFINITY, 0, -0.0};
	struct element null = {.type = BSON_BYTE_NULL};
	struct element text = {.type = BSON_BYTE_STRING, .value = LITERAL("\2\0\0\0x\0")};
	struct element yes = {.type = BSON_BYTE_BOOL, .value = LITERAL("\1")};
	struct element no = {.type = BSON_BYTE_BOOL, .value = LITERAL("\0")};
	struct element int64 = {.type = BSON_BYTE_INT64, .value = LITERAL("\0\0\0\0\1\0\0\0")};

	for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
		struct element element = number(&numbers[i]);

		cr_assert_eq(element_truth(&element), i < 3);
	}
	cr_assert(element_truth(&yes));
	cr_assert(element_truth(&int64));
	cr_assert_not(element_truth(&no));
	cr_assert_not(element_truth(&null));
	cr_assert_not(element_truth(&text));
}

Test(cursor, strings_and_documents_are_asked_for_by_type)
{
	auto_buffer struct buffer document = sample("cursor/every_type");
	struct cursor cursor;
	struct element element;

	cr_assert(cursor_open(&cursor, buffer_view(&document)));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		struct bytes text = {0}, nested = {0};

		cr_assert_eq(element_string(&element, &text), element.type == BSON_BYTE_STRING);
		cr_assert_eq(element_document(&element, &nested),
			     element.type == BSON_BYTE_DOCUMENT || element.type == BSON_BYTE_ARRAY);
		if (text.data)
			assert_bytes(text, bytes_of("hello"));
		if (nested.data)
			cr_assert(document_valid(nested));
	}
}
