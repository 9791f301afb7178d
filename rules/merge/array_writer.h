/* Writes elements of several BSON arrays behind one another as one array, numbered anew: "0", "1",
 * ... The names that they had are passed over, whatever they are. */
#pragma once

#include "protocol/cursor.h"

/* The most elements of one array. More don't fit in a message (48,000,000 bytes, and nine of them
 * for an element with a name of seven digits). */
#define ARRAY_WRITER_MAX 10000000

/* An element's name as it stands in memory: a zero where the type will be, up to seven digits, then
 * zeros, so that one store of eight bytes writes type, name and (of up to six digits) NUL. */
struct array_name {
	uint64_t text;
	unsigned shift; /* to the last digit */
};

/* An open array at the end of a buffer. */
struct array_writer {
	struct buffer *out;
	size_t start;           /* where the array begins in `out` */
	size_t count;           /* elements written */
	struct array_name name; /* of the next one */
};

void array_writer_open(struct array_writer *writer, struct buffer *out);
void array_writer_close(struct array_writer *writer);

/* Copies up to `most` elements from the array that `from` reads (one that cursor_open opened);
 * `count`: how many there were. False where the array is broken before them, or beyond
 * ARRAY_WRITER_MAX elements; some may have been written then. */
must_check bool array_writer_copy(struct array_writer *writer, struct cursor *from, size_t most,
				  size_t *count);
/* Begins an element: its type and name. The caller appends the value. False beyond
 * ARRAY_WRITER_MAX elements. */
must_check bool array_writer_begin(struct array_writer *writer, uint8_t type);

/* Begins with `count` elements as they are: they are named as they have to be. Nothing has been
 * written before. */
void array_writer_append(struct array_writer *writer, struct bytes elements, size_t count);

/* Passes over up to `most` elements; `count`: how many there were. False where the array is broken
 * before them. */
must_check bool array_skip(struct cursor *from, size_t most, size_t *count);
/* Passes over up to `most` elements as long as they are named "0", "1", ... as in an array that
 * array_writer wrote; how many there were. */
size_t array_skip_numbered(struct cursor *from, size_t most);
