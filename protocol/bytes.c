/* The one growing buffer of the program, and copies of bytes. */
#include "protocol/bytes.h"

#define SMALL 1024 /* what signs somebody in is not longer, as a rule */

#define FEW (64 * 1024) /* bytes: for so few nobody has to be ready to go without */

/* A short copy may hold a credential, and realloc would leave it in freed memory. */
static uint8_t *move_small(const struct buffer *buffer, size_t capacity)
{
	uint8_t *moved = malloc(capacity);

	if (!moved)
		return NULL;
	memcpy(moved, buffer->data, buffer->length);
	explicit_bzero(buffer->data, buffer->capacity);
	free(buffer->data);
	return moved;
}

static bool resize(struct buffer *buffer, size_t capacity)
{
	uint8_t *moved;

	if (buffer->capacity == 0)
		moved = malloc(capacity);
	else if (buffer->capacity <= SMALL)
		moved = move_small(buffer, capacity);
	else
		moved = realloc(buffer->data, capacity);
	if (!moved)
		return false;
	buffer->data = moved;
	buffer->capacity = capacity;
	return true;
}

/* To twice as much, or at least to what is needed. */
static bool grow(struct buffer *buffer, size_t need)
{
	size_t capacity = buffer->capacity ? buffer->capacity : need > 256 ? need : 256;

	while (capacity < need)
		capacity *= 2;
	return resize(buffer, capacity) || (capacity > need && resize(buffer, need));
}

void buffer_grow(struct buffer *buffer, size_t more)
{
	size_t need = buffer->length + more;
	unsigned attempt = 0;

	require(need >= more);
	while (!grow(buffer, need))
		memory_need(need, attempt++);
}

must_check bool buffer_try_reserve(struct buffer *buffer, size_t more)
{
	size_t need = buffer->length + more;

	if (more <= buffer->capacity - buffer->length)
		return true;
	if (need > FEW)
		return grow(buffer, need);
	buffer_grow(buffer, more);
	return true;
}

must_check bool buffer_try_append(struct buffer *buffer, struct bytes bytes)
{
	if (!buffer_try_reserve(buffer, bytes.length))
		return false;
	buffer_append(buffer, bytes.data, bytes.length);
	return true;
}

void buffer_consume(struct buffer *buffer, size_t length)
{
	require(length <= buffer->length);
	if (length == 0)
		return;
	memmove(buffer->data, buffer->data + length, buffer->length - length);
	buffer->length -= length;
}

void bytes_wipe(struct bytes bytes)
{
	if (bytes.length > 0)
		explicit_bzero((void *)(uintptr_t)bytes.data, bytes.length);
}

void buffer_wipe(struct buffer *buffer)
{
	if (buffer->capacity > 0)
		explicit_bzero(buffer->data, buffer->capacity);
	buffer_fini(buffer);
}

struct bytes bytes_copy(struct bytes view)
{
	uint8_t *copy = must_malloc(view.length + 1);

	if (view.length > 0)
		memcpy(copy, view.data, view.length);
	copy[view.length] = '\0';
	return (struct bytes){copy, view.length};
}

void bytes_free(struct bytes owned)
{
	free((void *)(uintptr_t)owned.data);
}
