/* The one growing buffer of the program. */
#include "protocol/bytes.h"

#include <stdlib.h>

void buffer_reserve(struct buffer *buffer, size_t more)
{
	size_t need = buffer->length + more;
	size_t capacity = buffer->capacity ? buffer->capacity : 256;

	require(need >= more);
	if (need <= buffer->capacity)
		return;
	while (capacity < need)
		capacity *= 2;
	buffer->data = must_realloc(buffer->data, capacity);
	buffer->capacity = capacity;
}

void buffer_append(struct buffer *buffer, const void *data, size_t length)
{
	if (length == 0)
		return;
	buffer_reserve(buffer, length);
	memcpy(buffer->data + buffer->length, data, length);
	buffer->length += length;
}

void buffer_consume(struct buffer *buffer, size_t length)
{
	require(length <= buffer->length);
	if (length == 0)
		return;
	memmove(buffer->data, buffer->data + length, buffer->length - length);
	buffer->length -= length;
}

void buffer_fini(struct buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct buffer){0};
}

struct buffer buffer_steal(struct buffer *buffer)
{
	struct buffer stolen = *buffer;

	*buffer = (struct buffer){0};
	return stolen;
}
