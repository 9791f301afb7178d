/* Builds BSON at the end of a buffer, byte for byte what it is given (libbson would sort regex
 * options and re-encode). */
#pragma once

#include "protocol/bytes.h"
#include "protocol/cursor.h"

/* A buffer that holds more than this takes no more fields, and stays good BSON: what is made of
 * bytes from outside may grow to any size. Nothing that is sent may be so large (a message has
 * 48,000,000 bytes at most), so who sends what was written has to look at its length. It is this
 * large because some of what is read, and made smaller again, passes a message. */
#define WRITER_MOST ((size_t)256 << 20)

static inline bool writer_full(const struct buffer *buffer)
{
	return buffer->length > WRITER_MOST;
}

/* A document is open between the two calls; `start` is where it begins in the buffer. Nesting:
 * close the inner first. */
size_t writer_open(struct buffer *buffer);
void writer_close(struct buffer *buffer, size_t start);
/* The same for a document or array that is a field of the open one. */
size_t writer_open_document(struct buffer *buffer, const char *name);
size_t writer_open_array(struct buffer *buffer, const char *name);

void writer_string(struct buffer *buffer, const char *name, const char *text);
void writer_text(struct buffer *buffer, const char *name, struct bytes text);
void writer_int32(struct buffer *buffer, const char *name, int32_t value);
void writer_int64(struct buffer *buffer, const char *name, int64_t value);
void writer_double(struct buffer *buffer, const char *name, double value);
void writer_bool(struct buffer *buffer, const char *name, bool value);
void writer_binary(struct buffer *buffer, const char *name, struct bytes value); /* subtype 0 */
void writer_document(struct buffer *buffer, const char *name, struct bytes document);
void writer_array(struct buffer *buffer, const char *name, struct bytes array);
/* The element as it is, or under another name. */
void writer_element(struct buffer *buffer, const struct element *element);
void writer_renamed(struct buffer *buffer, const char *name, const struct element *element);

/* Names of array elements: "0", "1", ... into `name` (at least 12 bytes), which is returned. */
const char *writer_index(char *name, size_t index);
