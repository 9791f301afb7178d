/* find's positional projection: which element of an array `f.$` stands for. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

/* mongod takes the element by which the condition on any array matched that it came to last; in
 * which order it takes them is its own affair. So it can be told where all conditions that are
 * about arrays mean the same element. */
#define POSITIONAL_MOST 8

/* A field of the filter, or of a document under $and; where it has several operators, one of them
 * by itself. */
struct positional_condition {
	struct element field;
	struct element operation; /* type 0: the field as it is */
	struct element options;   /* of a $regex; type 0: none */
};

struct positional {
	struct positional_condition conditions[POSITIONAL_MOST];
	size_t count;
};

/* False where the filter has too many conditions on the ruled array at `path`, one that is not
 * satisfied by single elements, or conditions whose part in it can't be told. True without any
 * condition, too: mongod then fails at the first array that it meets. `filter` may have type 0. */
bool positional_of(const struct element *filter, struct bytes path,
		   const struct ruled_namespace *namespace, struct positional *positional);
/* For fill_spliced, in a document: a struct positional_condition as a field of a filter, on any
 * element. */
void positional_splice_condition(struct buffer *out, size_t *place, const void *context);
/* The name of the field under `found` in which the number of the element stands. */
#define POSITIONAL_NUMBER "_spill"
/* Appends the stage that makes of what was found by each of `count` conditions,
 * [{<path>: [element], <number>}] at <found>0, <found>1 ..., that [element] at `found`; nothing
 * if the document has no array there. Without conditions an array is an error, RAISED_MISSED. It is
 * an error, RAISED_UNCLEAR, if the filter's other conditions meet arrays in the document, if no
 * element was found, or not the same one by all conditions. */
void positional_write(struct buffer *out, size_t *place, const struct element *filter,
		      const char *path, const char *found, size_t count);
