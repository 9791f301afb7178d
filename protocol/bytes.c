/* The one growing buffer of the program. */
#include "protocol/bytes.h"

void buffer_grow(struct buffer *buffer, size_t more)
{
	size_t need = buffer->length + more;
	size_t capacity = buffer->capacity ? buffer->capacity : need > 256 ? need : 256;

	require(need >= more);
	while (capacity < need)
		capacity *= 2;
	buffer->data = must_realloc(buffer->data, capacity);
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
