/*
 * What the tests of protocol/ share: captured bytes, copies that end where their memory ends (so
 * that the address sanitizer sees a read beyond), and the hostile variations of a text.
 */
#ifndef TESTS_UNIT_SAMPLES_H
#define TESTS_UNIT_SAMPLES_H

#include <stdio.h>

#include "tests/unit/unit.h"

#include "protocol/bytes.h"
#include "protocol/frame.h"
#include "protocol/writer.h"

/* A document inside a test's table, length and closing NUL included. */
#define LITERAL(text) ((struct bytes){(const uint8_t *)(text), sizeof(text) - 1})

/* The seeds of the fuzz targets are captures of a real mongod 6.0.5 and of real clients' shapes. */
static inline struct buffer sample(const char *name)
{
	struct buffer content = {0};
	char path[4096];
	FILE *file;
	size_t got;

	snprintf(path, sizeof(path), "%.*s/../fuzz/seeds/%s",
		 (int)(strrchr(__FILE__, '/') - __FILE__), __FILE__, name);
	file = fopen(path, "rb");
	cr_assert_not_null(file, "%s", path);
	do {
		buffer_reserve(&content, 4096);
		got = fread(content.data + content.length, 1, 4096, file);
		content.length += got;
	} while (got > 0);
	fclose(file);
	cr_assert(content.length > 0, "%s is empty", path);
	return content;
}

/* On the heap and not a byte longer; freed by free(). */
static inline uint8_t *exact_copy(struct bytes bytes)
{
	uint8_t *copy = must_malloc(bytes.length);

	if (bytes.length > 0)
		memcpy(copy, bytes.data, bytes.length);
	return copy;
}

/* A parser under test: reads the bytes, checks for itself what it got, says whether it took them.
 */
typedef bool (*try_bytes)(struct bytes bytes);

static inline bool try_exact(struct bytes bytes, try_bytes try)
{
	auto_free uint8_t *copy = exact_copy(bytes);

	return try((struct bytes){copy, bytes.length});
}

/* How many of the text's beginnings, itself left out, are taken. */
static inline size_t prefixes_taken(struct bytes bytes, try_bytes try)
{
	size_t taken = 0;

	for (size_t length = 0; length < bytes.length; length++)
		taken += try_exact((struct bytes){bytes.data, length}, try);
	return taken;
}

/* How many of all texts that differ in one byte are taken. */
static inline size_t changes_taken(struct bytes bytes, try_bytes try)
{
	auto_free uint8_t *copy = exact_copy(bytes);
	size_t taken = 0;

	for (size_t at = 0; at < bytes.length; at++) {
		for (int value = 0; value < 256; value++) {
			copy[at] = (uint8_t)value;
			if (value != bytes.data[at])
				taken += try((struct bytes){copy, bytes.length});
		}
		copy[at] = bytes.data[at];
	}
	return taken;
}

static inline bool inside(struct bytes part, struct bytes whole)
{
	return part.length == 0 || (part.data >= whole.data && part.length <= whole.length &&
				    (size_t)(part.data - whole.data) <= whole.length - part.length);
}

#define assert_bytes(a, b) \
	do { \
		struct bytes bytes_a = (a), bytes_b = (b); \
		cr_assert_eq(bytes_a.length, bytes_b.length, "%zu and %zu bytes", bytes_a.length, \
			     bytes_b.length); \
		cr_assert(bytes_equal(bytes_a, bytes_b)); \
	} while (0)

/* The body of a captured OP_MSG reply. */
static inline struct bytes body_of(const struct buffer *frame)
{
	return (struct bytes){frame->data + FRAME_HEADER_LENGTH + 5,
			      frame->length - FRAME_HEADER_LENGTH - 5};
}

#endif
