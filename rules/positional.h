/* find's positional projection: which element of an array `f.$` stands for. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rules.h"

/* mongod takes the element by which the filter's last condition on any array matched. That can be
 * told where one condition alone is about arrays: */
struct positional {
	struct element condition; /* a field of the filter, or of a document under $and */
};

/* False where the filter doesn't have exactly one condition on the ruled array at `path`, one that
 * is satisfied by single elements, or has conditions whose part in it can't be told. */
bool positional_of(const struct element *filter, struct bytes path,
		   const struct ruled_namespace *namespace, struct positional *positional);
/* Appends the stage that makes of what was found, [{<path>: [element]}] at `found`, that [element];
 * nothing where the document has no array there. An error that reassemble_unclear knows where the
 * filter's other conditions meet arrays in the document, or no element was found. */
void positional_write(struct buffer *out, size_t *place, const struct element *filter,
		      const char *path, const char *found);
