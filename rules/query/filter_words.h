/* Filters that mongod reads differently in a query and in a $match that stays a stage of a
 * pipeline. A client's query that is evaluated behind other stages is written in words that mean
 * the same.
 *
 * Bit tests ($bitsAllSet, $bitsAllClear, $bitsAnySet, $bitsAnyClear) with a binary mask. mongod 6.0
 * evaluates such a test in two ways. In a query, the mask is a list of bit positions. In a stage,
 * the mask is also a number, and a byte of 0x80 or more sets all higher bits of that number (the
 * byte is a signed char). Positions mean the same everywhere.
 *
 * {<path>: {$elemMatch: {$all: [...]}}}, an $all of an element. mongod takes a stage's filter apart
 * and reads the parts anew. It writes such an $all as an $and without a path, which it then can't
 * read: error 2. {$eq: value}, {$in: [regex]} or {$elemMatch: ...} for each of the list say the
 * same, and can be read. */
#pragma once

#include "protocol/bytes.h"
#include "protocol/cursor.h"

enum filter_words {
	FILTER_WORDS_PLAIN,   /* the filter means the same everywhere */
	FILTER_WORDS_SPREAD,  /* an $all of an element, and no such mask: what filter_words_write
				 writes means everywhere what the filter means in a query */
	FILTER_WORDS_WIDENED, /* a binary mask: in a stage it means something else */
	FILTER_WORDS_UNSERVED /* the list would be too long, or a mask is where only mongod's own
				 operators are */
};
enum filter_words filter_words_of(struct bytes filter);

/* Appends the filter as a field `name`, as the query that it is. The filter is not
 * FILTER_WORDS_UNSERVED. */
void filter_words_write(struct buffer *out, const char *name, struct bytes filter);

/* The masks of all filters in a pipeline come to more positions than one filter may have. */
bool filter_words_exceed(struct bytes pipeline);

/* mongod 6.0 closes the connection when an explain shows the positions of a mask of 100,000 bytes.
 * False: the masks of a command, or of one of its statements, are too long to ask. */
bool filter_words_explainable(struct bytes command);
