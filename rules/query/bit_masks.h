/* Bit tests ($bitsAllSet, $bitsAllClear, $bitsAnySet, $bitsAnyClear) with a binary mask.
 *
 * mongod 6.0 evaluates such a test in two ways. In a query, the mask is a list of bit positions. In
 * a $match that stays a stage of a pipeline, the mask is also a number, and a byte of 0x80 or more
 * sets all higher bits of that number (the byte is a signed char). So a client's query that is
 * evaluated behind other stages has to name the positions; they mean the same everywhere. */
#pragma once

#include "protocol/bytes.h"
#include "protocol/cursor.h"

enum bit_masks {
	BIT_MASKS_PLAIN,   /* no test with such a mask: the filter means the same everywhere */
	BIT_MASKS_WIDENED, /* bit_masks_write says how the query is written */
	BIT_MASKS_UNSERVED /* the list would be too long, or a mask is where only mongod's own
			      operators are */
};
enum bit_masks bit_masks_of(struct bytes filter);

/* Appends the filter as a field `name`, with lists of positions for such masks. The filter is not
 * BIT_MASKS_UNSERVED. */
void bit_masks_write(struct buffer *out, const char *name, struct bytes filter);

/* The masks of all filters in a pipeline come to more positions than one filter may have. */
bool bit_masks_exceed(struct bytes pipeline);

/* mongod 6.0 closes the connection when an explain shows the positions of a mask of 100,000 bytes.
 * False: the masks of a command, or of one of its statements, are too long to ask. */
bool bit_masks_explainable(struct bytes command);
