/* The one growing buffer of the program, and copies of bytes. */
#include "protocol/bytes.h"

#define SMALL 1024 /* what signs somebody in is not longer, as a rule */

/* A short copy may hold a credential, and realloc would leave it in freed memory. */
static uint8_t *move_small(const struct buffer *buffer, size_t capacity)
{
	uint8_t *moved = must_malloc(capacity);

	if (buffer->length > 0)
		memcpy(moved, buffer->data, buffer->length);
	if (buffer->capacity > 0)
		explicit_bzero(buffer->data, buffer->capacity);
	free(buffer->data);
	return moved;
}

void buffer_grow(struct buffer *buffer, size_t more)
{
	size_t need = buffer->length + more;
	size_t capacity = buffer->capacity ? buffer->capacity : need > 256 ? need : 256;

	require(need >= more);
	while (capacity < need)
		capacity *= 2;
	buffer->data = buffer->capacity <= SMALL ? move_small(buffer, capacity)
						 : must_realloc(buffer->data, capacity);
	buffer->capacity = capacity;
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
