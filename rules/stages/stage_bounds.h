/* find's min and max, which an aggregate has not: a condition on each document that the hinted
 * index brings, in its order.
 *
 * The bounds are those of index keys, and a document with an array on the index's way has several
 * keys: that is an error (raised_refusal). Else its key is what stands at the paths, null where
 * nothing does, and $expr compares as the index does. mongod goes through the whole index for it.
 */
#pragma once

#include "protocol/command.h"
#include "protocol/writer.h"

/* It has a min or a max. */
bool bounds_given(const struct command *find);
/* They can be written: the hint spells out an index of ascending and descending paths, of which
 * each of them says all, in that order. */
bool bounds_served(const struct command *find);
/* Appends the stage; nothing where the find has neither. */
void bounds_write(struct buffer *out, size_t *place, const struct command *find);
