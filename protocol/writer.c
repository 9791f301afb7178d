/* Builds BSON at the end of a buffer. */
#include "protocol/writer.h"

#include <limits.h>

static void write_head(struct buffer *buffer, uint8_t type, const char *name)
{
	size_t length = strlen(name) + 1;

	buffer_reserve(buffer, 1 + length);
	buffer->data[buffer->length] = type;
	memcpy(buffer->data + buffer->length + 1, name, length);
	buffer->length += 1 + length;
}

static void write_int32(struct buffer *buffer, int32_t value)
{
	buffer_append(buffer, &value, sizeof(value));
}

size_t writer_open(struct buffer *buffer)
{
	size_t start = buffer->length;

	if (!writer_full(buffer))
		write_int32(buffer, 0);
	return start;
}

void writer_close(struct buffer *buffer, size_t start)
{
	if (buffer->length == start)
		return; /* it was full when this was to be opened */
	buffer_append(buffer, "", 1);
	require(buffer->length - start <= INT32_MAX);
	store_int32(buffer->data + start, (int32_t)(buffer->length - start));
}

/* Head and length, or neither. */
static size_t open_field(struct buffer *buffer, uint8_t type, const char *name)
{
	size_t start;

	if (writer_full(buffer))
		return buffer->length;
	write_head(buffer, type, name);
	start = buffer->length;
	write_int32(buffer, 0);
	return start;
}

size_t writer_open_document(struct buffer *buffer, const char *name)
{
	return open_field(buffer, BSON_BYTE_DOCUMENT, name);
}

size_t writer_open_array(struct buffer *buffer, const char *name)
{
	return open_field(buffer, BSON_BYTE_ARRAY, name);
}

void writer_string(struct buffer *buffer, const char *name, const char *text)
{
	writer_text(buffer, name, bytes_of(text));
}

void writer_text(struct buffer *buffer, const char *name, struct bytes text)
{
	require(text.length < INT32_MAX);
	if (writer_full(buffer))
		return;
	write_head(buffer, BSON_BYTE_STRING, name);
	write_int32(buffer, (int32_t)text.length + 1);
	buffer_append(buffer, text.data, text.length);
	buffer_append(buffer, "", 1);
}

void writer_int32(struct buffer *buffer, const char *name, int32_t value)
{
	if (writer_full(buffer))
		return;
	write_head(buffer, BSON_BYTE_INT32, name);
	write_int32(buffer, value);
}

void writer_int64(struct buffer *buffer, const char *name, int64_t value)
{
	if (writer_full(buffer))
		return;
	write_head(buffer, BSON_BYTE_INT64, name);
	buffer_append(buffer, &value, sizeof(value));
}

void writer_double(struct buffer *buffer, const char *name, double value)
{
	if (writer_full(buffer))
		return;
	write_head(buffer, BSON_BYTE_DOUBLE, name);
	buffer_append(buffer, &value, sizeof(value));
}

void writer_bool(struct buffer *buffer, const char *name, bool value)
{
	uint8_t byte = value;

	if (writer_full(buffer))
		return;
	write_head(buffer, BSON_BYTE_BOOL, name);
	buffer_append(buffer, &byte, 1);
}

void writer_binary(struct buffer *buffer, const char *name, struct bytes value)
{
	require(value.length <= INT32_MAX);
	if (writer_full(buffer))
		return;
	write_head(buffer, BSON_BYTE_BINARY, name);
	write_int32(buffer, (int32_t)value.length);
	buffer_append(buffer, "", 1);
	buffer_append(buffer, value.data, value.length);
}

void writer_document(struct buffer *buffer, const char *name, struct bytes document)
{
	if (writer_full(buffer))
		return;
	write_head(buffer, BSON_BYTE_DOCUMENT, name);
	buffer_append(buffer, document.data, document.length);
}

void writer_array(struct buffer *buffer, const char *name, struct bytes array)
{
	if (writer_full(buffer))
		return;
	write_head(buffer, BSON_BYTE_ARRAY, name);
	buffer_append(buffer, array.data, array.length);
}

void writer_element(struct buffer *buffer, const struct element *element)
{
	struct bytes raw = element_raw(element);

	if (!writer_full(buffer))
		buffer_append(buffer, raw.data, raw.length);
}

void writer_renamed(struct buffer *buffer, const char *name, const struct element *element)
{
	if (writer_full(buffer))
		return;
	write_head(buffer, element->type, name);
	buffer_append(buffer, element->value.data, element->value.length);
}

const char *writer_index(char *name, size_t index)
{
	char digits[20];
	size_t count = 0;

	require(index <= INT32_MAX);
	do {
		digits[count++] = (char)('0' + index % 10);
		index /= 10;
	} while (index > 0);
	for (size_t i = 0; i < count; i++)
		name[i] = digits[count - 1 - i];
	name[count] = '\0';
	return name;
}
