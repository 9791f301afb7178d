/* Views of bytes, little-endian numbers, and the one growing buffer of the program. */
#pragma once

#include "protocol/base.h"

#include <stdlib.h>
#include <string.h>

/* A view. It lives as long as the frame or buffer it looks into. A struct that keeps bytes for
 * longer owns a copy (bytes_copy), and says so beside the field. */
struct bytes {
	const uint8_t *data;
	size_t length;
};

/* A growing buffer. All zeros is an empty one; data is NULL until something is appended.
 *
 *      data                  data + length          data + capacity
 *       |---- bytes in use ----|------- room ----------|
 */
struct buffer {
	uint8_t *data;
	size_t length;
	size_t capacity;
};

void buffer_grow(struct buffer *buffer, size_t more);
/* Makes room for `more` bytes behind the used ones: just these at first, then at least twice as
 * many as there were, so appending is linear. */
static inline void buffer_reserve(struct buffer *buffer, size_t more)
{
	if (more > buffer->capacity - buffer->length)
		buffer_grow(buffer, more);
}

static inline void buffer_append(struct buffer *buffer, const void *data, size_t length)
{
	if (length == 0)
		return;
	buffer_reserve(buffer, length);
	memcpy(buffer->data + buffer->length, data, length);
	buffer->length += length;
}

/* The same for what others make large: false, the buffer unchanged, where the system gives no more
 * memory. */
must_check bool buffer_try_reserve(struct buffer *buffer, size_t more);
must_check bool buffer_try_append(struct buffer *buffer, struct bytes bytes);

/* Drops the first `length` bytes, keeping the memory. */
void buffer_consume(struct buffer *buffer, size_t length);
static inline void buffer_fini(struct buffer *buffer)
{
	if (buffer->capacity)
		free(buffer->data);
	*buffer = (struct buffer){0};
}

/* The content moves to the caller, the buffer is empty afterwards. */
static inline struct buffer buffer_steal(struct buffer *buffer)
{
	struct buffer stolen = *buffer;

	*buffer = (struct buffer){0};
	return stolen;
}

/* Overwrites bytes that may hold a credential, in memory of ours. */
void bytes_wipe(struct bytes bytes);
/* The same with all that the buffer has room for, then buffer_fini. */
void buffer_wipe(struct buffer *buffer);

static inline void auto_buffer_fini(struct buffer *buffer)
{
	buffer_fini(buffer);
}
#define auto_buffer __attribute__((cleanup(auto_buffer_fini)))
#define auto_wiped_buffer __attribute__((cleanup(buffer_wipe)))

static inline struct bytes buffer_view(const struct buffer *buffer)
{
	return (struct bytes){buffer->data, buffer->length};
}

/* The format is little-endian and so are the machines we build for. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian machines only");

static inline int32_t load_int32(const void *at)
{
	int32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline int64_t load_int64(const void *at)
{
	int64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline void store_int32(void *at, int32_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* memcmp(...) == 0 for short names, without the call. */
static inline bool bytes_same(const void *one, const void *other, size_t length)
{
	const uint8_t *a = one, *b = other;

	for (; length > 8; a += 8, b += 8, length -= 8)
		if (load_int64(a) != load_int64(b))
			return false;
	/* Two loads that may overlap cover what is left. */
	if (length >= 4)
		return load_int32(a) == load_int32(b) &&
		       load_int32(a + length - 4) == load_int32(b + length - 4);
	return length == 0 ||
	       (a[0] == b[0] && a[length / 2] == b[length / 2] && a[length - 1] == b[length - 1]);
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

/* An order, of which nobody knows more than that equal ones are 0: the shorter one comes first. */
static inline int bytes_order(struct bytes a, struct bytes b)
{
	if (a.length != b.length)
		return a.length < b.length ? -1 : 1;
	return a.length == 0 ? 0 : memcmp(a.data, b.data, a.length);
}

static inline bool bytes_are(struct bytes a, const char *text)
{
	return bytes_equal(a, (struct bytes){(const uint8_t *)text, strlen(text)});
}

static inline bool bytes_begin_with(struct bytes a, const char *text)
{
	size_t length = strlen(text);

	return a.length >= length && memcmp(a.data, text, length) == 0;
}

static inline bool bytes_contain(struct bytes a, const char *text)
{
	return a.length > 0 && memmem(a.data, a.length, text, strlen(text));
}

static inline struct bytes bytes_of(const char *text)
{
	return (struct bytes){(const uint8_t *)text, strlen(text)};
}

/* A copy on the heap, with a NUL behind it. Its owner frees it by bytes_free. */
struct bytes bytes_copy(struct bytes view);

/* Frees bytes on the heap that the caller owns: a copy, or the view of a buffer that was given up.
 * Only here does a view lose its const. */
void bytes_free(struct bytes owned);
