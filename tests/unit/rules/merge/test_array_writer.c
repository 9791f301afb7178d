/* Tests rules/merge/array_writer.c: arrays behind one another, numbered anew. */
#include "tests/unit/samples.h"
#include "tests/unit/unit.h"

#include "protocol/writer.h"
#include "rules/merge/array_writer.h"

#include <stdlib.h>

static const uint8_t types[] = {
	BSON_BYTE_DOUBLE,    BSON_BYTE_STRING,    BSON_BYTE_DOCUMENT,        BSON_BYTE_ARRAY,
	BSON_BYTE_BINARY,    BSON_BYTE_UNDEFINED, BSON_BYTE_OBJECT_ID,       BSON_BYTE_BOOL,
	BSON_BYTE_DATE,      BSON_BYTE_NULL,      BSON_BYTE_REGEX,           BSON_BYTE_DB_POINTER,
	BSON_BYTE_CODE,      BSON_BYTE_SYMBOL,    BSON_BYTE_CODE_WITH_SCOPE, BSON_BYTE_INT32,
	BSON_BYTE_TIMESTAMP, BSON_BYTE_INT64,     BSON_BYTE_DECIMAL,         BSON_BYTE_MIN_KEY,
	BSON_BYTE_MAX_KEY,
};

static void put_filler(struct buffer *out, size_t length)
{
	for (size_t i = 0; i < length; i++)
		buffer_append(out, &(uint8_t){(uint8_t)(1 + (i * 7 + length) % 255)}, 1);
}

static void put_counted(struct buffer *out, int32_t length)
{
	buffer_append(out, &length, sizeof(length));
}

/* A sound value of this type; where the type leaves it open, `size` says how long. */
static void put_value(struct buffer *out, uint8_t type, size_t size)
{
	size_t start;

	switch (type) {
	case BSON_BYTE_STRING:
	case BSON_BYTE_CODE:
	case BSON_BYTE_SYMBOL:
	case BSON_BYTE_DB_POINTER:
		put_counted(out, (int32_t)size + 1);
		put_filler(out, size);
		buffer_append(out, "", 1);
		put_filler(out, type == BSON_BYTE_DB_POINTER ? 12 : 0);
		break;
	case BSON_BYTE_DOCUMENT:
	case BSON_BYTE_ARRAY:
		start = writer_open(out);
		for (size_t i = 0; i < size / 16; i++)
			writer_int32(out, "a name", (int32_t)i);
		writer_close(out, start);
		break;
	case BSON_BYTE_BINARY:
		put_counted(out, (int32_t)size);
		put_filler(out, size + 1);
		break;
	case BSON_BYTE_CODE_WITH_SCOPE:
		put_counted(out, (int32_t)size + 14);
		put_counted(out, (int32_t)size + 1);
		put_filler(out, size);
		buffer_append(out, "\0\5\0\0\0\0", 6);
		break;
	case BSON_BYTE_REGEX:
		put_filler(out, size);
		buffer_append(out, "\0i\0", 3);
		break;
	case BSON_BYTE_BOOL:
		buffer_append(out, &(uint8_t){size % 2}, 1);
		break;
	case BSON_BYTE_INT32:
		put_filler(out, 4);
		break;
	case BSON_BYTE_OBJECT_ID:
		put_filler(out, 12);
		break;
	case BSON_BYTE_DECIMAL:
		put_filler(out, 16);
		break;
	case BSON_BYTE_DOUBLE:
	case BSON_BYTE_DATE:
	case BSON_BYTE_TIMESTAMP:
	case BSON_BYTE_INT64:
		put_filler(out, 8);
		break;
	default: /* no value */
		break;
	}
}

static void put_element(struct buffer *out, const char *name, uint8_t type, size_t size)
{
	buffer_append(out, &type, 1);
	buffer_append(out, name, strlen(name) + 1);
	put_value(out, type, size);
}

/* What copying it into an array as element number `index` must come to. */
static void put_numbered(struct buffer *out, size_t index, uint8_t type, size_t size)
{
	char name[12];

	put_element(out, writer_index(name, index), type, size);
}

/* The array in memory of its own size, for ASan to watch. */
static struct bytes exact(const struct buffer *array)
{
	return (struct bytes){exact_copy(buffer_view(array)), array->length};
}

/* Copies `most` elements of the array behind the first `from` ones; how many were there. */
static size_t copy(struct array_writer *writer, struct bytes array, size_t from, size_t most)
{
	struct cursor cursor;
	size_t skipped, count;

	cr_assert(cursor_open(&cursor, array));
	cr_assert(array_skip(&cursor, from, &skipped));
	cr_assert_eq(skipped, from);
	cr_assert(array_writer_copy(writer, &cursor, most, &count));
	return count;
}

/* A run of `count` elements of one type, of all sizes from `size` on, copied at number `first`. */
static void check_run(uint8_t type, size_t size, size_t count, size_t first)
{
	auto_buffer struct buffer source = {0}, expected = {0}, out = {0};
	size_t start = writer_open(&source), wanted = writer_open(&expected);
	struct array_writer writer;
	struct bytes array;

	array_writer_open(&writer, &out);
	for (size_t i = 0; i < first; i++) {
		put_numbered(&expected, i, BSON_BYTE_NULL, 0);
		cr_assert(array_writer_begin(&writer, BSON_BYTE_NULL));
	}
	for (size_t i = 0; i < count; i++) {
		put_numbered(&source, i, type, size + i);
		put_numbered(&expected, first + i, type, size + i);
	}
	writer_close(&source, start);
	writer_close(&expected, wanted);
	array = exact(&source);
	cr_assert_eq(copy(&writer, array, 0, SIZE_MAX), count);
	array_writer_close(&writer);
	cr_assert(bytes_equal(buffer_view(&out), buffer_view(&expected)),
		  "type %d size %zu count %zu first %zu", type, size, count, first);
	bytes_free(array);
}

Test(merge_array, elements_of_each_type_and_size_are_copied_byte_for_byte)
{
	for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
		for (size_t size = 0; size < 300; size++)
			check_run(types[i], size, 3, 7);
		check_run(types[i], 0, 1200, 0);
		check_run(types[i], 5, 130, 9950);
		check_run(types[i], 70000, 2, 99);
	}
}

Test(merge_array, names_carry_at_every_power_of_ten)
{
	for (size_t power = 10; power <= 100000; power *= 10) {
		for (size_t before = 0; before < 10; before++)
			check_run(BSON_BYTE_INT32, 0, 30, power - before);
	}
	check_run(BSON_BYTE_STRING, 20, 220, 99890);
}

/* An array whose elements, all but the `odd` one, are named by their numbers. */
static void put_numbers(struct buffer *out, uint8_t type, size_t size, size_t count, size_t odd)
{
	size_t start = writer_open(out);

	for (size_t i = 0; i < count; i++) {
		if (i == odd)
			put_element(out, "x", type, size);
		else
			put_numbered(out, i, type, size + i % 7);
	}
	writer_close(out, start);
}

/* Array behind array, at numbers as long as the ones they have: as overflow comes in batches. */
Test(merge_array, batches_are_numbered_on_from_one_to_the_next)
{
	for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
		auto_buffer struct buffer source = {0}, expected = {0}, out = {0};
		size_t wanted = writer_open(&expected), size = 40 * (i % 5);
		struct array_writer writer;
		struct bytes array;

		put_numbers(&source, types[i], size, 600, SIZE_MAX);
		array = exact(&source);
		array_writer_open(&writer, &out);
		for (size_t batch = 0; batch < 4; batch++) {
			cr_assert_eq(copy(&writer, array, 0, SIZE_MAX), 600);
			for (size_t k = 0; k < 600; k++)
				put_numbered(&expected, 600 * batch + k, types[i], size + k % 7);
		}
		array_writer_close(&writer);
		writer_close(&expected, wanted);
		cr_assert(bytes_equal(buffer_view(&out), buffer_view(&expected)));
		bytes_free(array);
	}
}

/* How many elements of the array are named by their numbers. */
static void check_numbered(uint8_t type, size_t size, size_t count, size_t odd)
{
	auto_buffer struct buffer source = {0}, out = {0};
	size_t numbered = least(count, odd);
	struct array_writer writer;
	struct bytes array;
	struct cursor cursor;

	put_numbers(&source, type, size, count, odd);
	array = exact(&source);
	cr_assert(cursor_open(&cursor, array));
	cr_assert_eq(array_skip_numbered(&cursor, count), numbered, "type %d odd %zu", type, odd);
	array_writer_open(&writer, &out);
	array_writer_append(&writer,
			    (struct bytes){array.data + 4, (size_t)(cursor.at - array.data) - 4},
			    numbered);
	cr_assert(array_writer_begin(&writer, BSON_BYTE_NULL));
	source.length = (size_t)(cursor.at - array.data);
	put_numbered(&source, numbered, BSON_BYTE_NULL, 0);
	cr_assert_eq(out.length, source.length);
	cr_assert_arr_eq(out.data + 4, source.data + 4, out.length - 4);
	bytes_free(array);
}

Test(merge_array, elements_are_passed_over_as_long_as_names_are_their_numbers)
{
	for (size_t i = 0; i < ARRAY_LENGTH(types); i++)
		for (size_t odd = 0; odd < 250; odd++)
			check_numbered(types[i], i, 230, odd);
	check_numbered(BSON_BYTE_INT32, 0, 1000100, SIZE_MAX);
	check_numbered(BSON_BYTE_STRING, 0, 1000100, 1000050);
}

static void set_number(struct array_writer *writer, const char *digits)
{
	writer->count = strtoul(digits, NULL, 10);
	writer->name = (struct array_name){0, (unsigned)(8 * strlen(digits))};
	memcpy((char *)&writer->name.text + 1, digits, strlen(digits));
}

Test(merge_array, numbers_end_where_no_message_could_hold_the_array)
{
	auto_buffer struct buffer source = {0}, out = {0};
	size_t start = writer_open(&source), count;
	struct array_writer writer;
	struct cursor cursor;

	for (size_t i = 0; i < 100; i++)
		put_numbered(&source, i, BSON_BYTE_INT64, 0);
	writer_close(&source, start);
	array_writer_open(&writer, &out);
	set_number(&writer, "999995");
	cr_assert_eq(copy(&writer, buffer_view(&source), 0, SIZE_MAX), 100);
	cr_assert_eq(writer.count, 1000095);
	cr_assert_arr_eq(&writer.name.text,
			 "\0"
			 "1000095",
			 8);
	set_number(&writer, "9999901");
	cr_assert_eq(copy(&writer, buffer_view(&source), 1, SIZE_MAX), 99);
	cr_assert_eq(writer.count, ARRAY_WRITER_MAX);
	cr_assert_not(array_writer_begin(&writer, BSON_BYTE_NULL));
	cr_assert(cursor_open(&cursor, buffer_view(&source)));
	cr_assert_not(array_writer_copy(&writer, &cursor, SIZE_MAX, &count));
	cr_assert(cursor_open(&cursor, buffer_view(&source)));
	cr_assert(array_writer_copy(&writer, &cursor, 0, &count));
	cr_assert_eq(count, 0);
}

/* New names take up to six bytes more each than the ones before. */
Test(merge_array, a_buffer_with_little_room_is_made_larger_in_time)
{
	auto_buffer struct buffer source = {0};
	size_t start = writer_open(&source);

	for (size_t i = 0; i < 600; i++)
		put_element(&source, "1", BSON_BYTE_INT32, 0);
	writer_close(&source, start);
	for (size_t room = 0; room < 9000; room += 500) {
		auto_buffer struct buffer out = {malloc(100 + room), 0, 100 + room};
		struct array_writer writer;

		array_writer_open(&writer, &out);
		set_number(&writer, "1000000");
		cr_assert_eq(copy(&writer, buffer_view(&source), 0, SIZE_MAX), 600);
		cr_assert_eq(out.length, 4 + 600 * (1 + 8 + 4));
	}
}

/* Names that are no numbers, empty ones, ones that look like ends of names. */
static const char *const odd_names[] = {
	"0",
	"",
	"\x01",
	"\x01\x01",
	"2\x01",
	"\x80",
	"\xff\x01",
	"seven77",
	"eight888",
	"nine99999",
	"",
	"\x03\x02\x10",
	"a name that is longer than any that mongod gives to an element of an array",
	"1",
};

Test(merge_array, names_are_passed_over_whatever_they_are)
{
	for (size_t i = 0; i < 4 * ARRAY_LENGTH(odd_names) * ARRAY_LENGTH(types); i++) {
		auto_buffer struct buffer source = {0}, expected = {0}, out = {0};
		size_t start = writer_open(&source), wanted = writer_open(&expected);
		struct array_writer writer;
		struct bytes array;

		for (size_t k = 0; k < 40; k++) {
			const char *name = odd_names[(k / 4 + i) % ARRAY_LENGTH(odd_names)];
			uint8_t type = types[(k / 7 + i) % ARRAY_LENGTH(types)];

			put_element(&source, name, type, k);
			put_numbered(&expected, k, type, k);
		}
		writer_close(&source, start);
		writer_close(&expected, wanted);
		array = exact(&source);
		array_writer_open(&writer, &out);
		cr_assert_eq(copy(&writer, array, 0, 10), 10);
		cr_assert_eq(copy(&writer, array, 10, SIZE_MAX), 30);
		array_writer_close(&writer);
		cr_assert(bytes_equal(buffer_view(&out), buffer_view(&expected)));
		bytes_free(array);
	}
}

/* Copies the array, however broken; the copy ends within bounds and thinks of it what the cursor
 * thinks. True where the array was sound. */
static bool check_agreement(struct bytes array)
{
	auto_buffer struct buffer out = {0};
	struct array_writer writer;
	struct cursor cursor;
	size_t count = 0, walked = 0;
	bool sound;

	if (!cursor_open(&cursor, array))
		return false;
	sound = array_skip(&cursor, SIZE_MAX, &walked);
	cr_assert(cursor_open(&cursor, array));
	array_writer_open(&writer, &out);
	cr_assert_eq(array_writer_copy(&writer, &cursor, SIZE_MAX, &count), sound);
	cr_assert_eq(count, walked);
	cr_assert(cursor_open(&cursor, array));
	cr_assert_leq(array_skip_numbered(&cursor, SIZE_MAX), sound ? walked : SIZE_MAX);
	return sound;
}

/* An array of all types, two of them in turn. */
static void put_mixed_array(struct buffer *out, size_t first, size_t each)
{
	size_t start = writer_open(out);

	for (size_t i = 0; i < 14; i++)
		put_numbered(out, i, types[(first + i / each) % ARRAY_LENGTH(types)], 9 * i);
	writer_close(out, start);
}

Test(merge_array, an_array_that_is_cut_anywhere_is_copied_within_its_bounds)
{
	size_t broken = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
		auto_buffer struct buffer source = {0};

		put_mixed_array(&source, i, 3);
		for (size_t length = 5; length < source.length; length++) {
			auto_free uint8_t *array = exact_copy((struct bytes){source.data, length});

			store_int32(array, (int32_t)length);
			array[length - 1] = 0;
			broken += !check_agreement((struct bytes){array, length});
		}
	}
	cr_assert_gt(broken, 5000);
}

Test(merge_array, an_array_with_any_byte_changed_is_copied_within_its_bounds)
{
	static const uint8_t values[] = {0, 1, 2, 3, 4, 5, 0x10, 0x7f, 0x80, 0xff};
	size_t broken = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
		auto_buffer struct buffer source = {0};

		put_mixed_array(&source, i, 7);
		for (size_t at = 4; at < source.length - 1; at++) {
			auto_free uint8_t *array = exact_copy(buffer_view(&source));

			for (size_t v = 0; v < ARRAY_LENGTH(values); v++) {
				array[at] = values[v];
				broken += !check_agreement((struct bytes){array, source.length});
			}
		}
	}
	cr_assert_gt(broken, 5000);
}
