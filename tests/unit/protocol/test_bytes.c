/* Tests protocol/base.c and protocol/bytes.c: memory that is there, and the growing buffer. */
#include <signal.h>
#include <stdlib.h>

#include "tests/unit/unit.h"

#include "protocol/bytes.h"

Test(base, a_broken_requirement_ends_the_program, .signal = SIGABRT)
{
	require(1 + 1 == 3);
}

#ifndef __SANITIZE_ADDRESS__ /* which ends the program in its own way */
Test(base, memory_that_cannot_be_had_ends_the_program, .signal = SIGABRT)
{
	volatile size_t size = SIZE_MAX / 2;

	free(must_malloc(size));
}
#endif

Test(base, nothing_asked_for_is_still_memory)
{
	free(must_malloc(0));
	free(must_calloc(0, 8));
	free(must_realloc(NULL, 0));
}

Test(base, a_copied_text_ends_where_it_was_told)
{
	auto_free char *copy = must_strndup("spillway", 5);

	cr_assert_str_eq(copy, "spill");
}

Test(bytes, what_was_appended_stands_there_in_order)
{
	auto_buffer struct buffer buffer = {0};

	for (int i = 0; i < 10000; i++)
		buffer_append(&buffer, &(uint8_t){(uint8_t)(i % 251)}, 1);
	cr_assert_eq(buffer.length, 10000);
	for (int i = 0; i < 10000; i++)
		cr_assert_eq(buffer.data[i], i % 251);
}

Test(bytes, an_append_of_nothing_takes_no_memory)
{
	auto_buffer struct buffer buffer = {0};

	buffer_append(&buffer, NULL, 0);
	cr_assert_null(buffer.data);
	cr_assert_eq(buffer_view(&buffer).length, 0);
}

Test(bytes, room_that_was_reserved_stays_where_it_is)
{
	auto_buffer struct buffer buffer = {0};
	uint8_t *before;

	buffer_reserve(&buffer, 1000);
	before = buffer.data;
	for (int i = 0; i < 1000; i++)
		buffer_append(&buffer, "x", 1);
	cr_assert_eq(buffer.data, before);
}

Test(bytes, growing_doubles_so_that_appending_is_linear)
{
	auto_buffer struct buffer buffer = {0};
	size_t moves = 0, capacity = 0;

	for (int i = 0; i < 1 << 20; i++) {
		buffer_append(&buffer, "x", 1);
		moves += buffer.capacity != capacity;
		capacity = buffer.capacity;
	}
	cr_assert_leq(moves, 14);
}

Test(bytes, more_room_than_there_is_memory_ends_the_program, .signal = SIGABRT)
{
	struct buffer buffer = {.length = 10, .capacity = 10};

	buffer_reserve(&buffer, SIZE_MAX - 5);
}

Test(bytes, consuming_drops_the_front_and_keeps_the_memory)
{
	auto_buffer struct buffer buffer = {0};
	size_t capacity;

	buffer_append(&buffer, "abcdef", 6);
	capacity = buffer.capacity;
	buffer_consume(&buffer, 0);
	buffer_consume(&buffer, 2);
	cr_assert(bytes_are(buffer_view(&buffer), "cdef"));
	buffer_consume(&buffer, 4);
	cr_assert_eq(buffer.length, 0);
	cr_assert_eq(buffer.capacity, capacity);
}

Test(bytes, no_more_can_be_consumed_than_is_there, .signal = SIGABRT)
{
	auto_buffer struct buffer buffer = {0};

	buffer_append(&buffer, "abc", 3);
	buffer_consume(&buffer, 4);
}

Test(bytes, a_stolen_buffer_has_one_owner)
{
	auto_buffer struct buffer first = {0};
	auto_buffer struct buffer second = {0};

	buffer_append(&first, "abc", 3);
	second = buffer_steal(&first);
	cr_assert_null(first.data);
	cr_assert_eq(first.length + first.capacity, 0);
	cr_assert(bytes_are(buffer_view(&second), "abc"));
}

Test(bytes, numbers_are_little_endian_and_need_no_alignment)
{
	uint8_t bytes[12] = {0xff, 0x01, 0x02, 0x03, 0x84, 0x05, 0x06, 0x07, 0x88};

	cr_assert_eq(load_int32(bytes + 1), (int32_t)0x84030201);
	cr_assert_eq(load_int64(bytes + 1), (int64_t)0x8807060584030201);
	store_int32(bytes + 3, -2);
	cr_assert_eq(load_int32(bytes + 3), -2);
}

Test(bytes, views_are_equal_by_what_they_show)
{
	struct bytes nothing = {NULL, 0};

	cr_assert(bytes_equal(nothing, bytes_of("")));
	cr_assert(bytes_are(nothing, ""));
	cr_assert(bytes_are(bytes_of("hello"), "hello"));
	cr_assert_not(bytes_are(bytes_of("hello"), "hell"));
	cr_assert_not(bytes_are(bytes_of("hell"), "hello"));
	cr_assert_not(bytes_equal((struct bytes){(const uint8_t *)"a\0b", 3}, bytes_of("a")));
}

Test(bytes, a_copy_holds_the_same_bytes_and_a_nul_behind_them)
{
	struct bytes copy = bytes_copy(bytes_of("abc")), empty = bytes_copy((struct bytes){0});

	cr_assert(bytes_are(copy, "abc"));
	cr_assert_eq(copy.data[3], 0);
	cr_assert_eq(empty.length, 0);
	cr_assert_eq(empty.data[0], 0);
	bytes_free(copy);
	bytes_free(empty);
	bytes_free((struct bytes){0});
}

Test(bytes, what_is_wiped_is_zero)
{
	char text[] = "secret";
	struct buffer buffer = {0};

	bytes_wipe((struct bytes){(const uint8_t *)text, 3});
	cr_assert(memcmp(text, "\0\0\0ret", 6) == 0);
	bytes_wipe((struct bytes){0});
	buffer_append(&buffer, text, 6);
	buffer_wipe(&buffer);
	cr_assert_null(buffer.data);
	cr_assert_eq(buffer.capacity, 0);
	buffer_wipe(&buffer);
}
