/* Goes through all levels of a BSON document with one loop instead of recursion. */
#pragma once

#include "protocol/cursor.h"

/* The open levels; the innermost is read. Set up by walk_start. */
struct walk {
	size_t depth;
	struct walk_level {
		struct cursor cursor;
		bool array;
	} levels[CURSOR_MAX_DEPTH];
};

static inline void walk_start(struct walk *walk)
{
	walk->depth = 0;
}

/* Goes into a document or array, now: its elements come next. False where it is not BSON or deeper
 * than any that mongod takes. */
must_check bool walk_into(struct walk *walk, uint8_t type, struct bytes document);

/* The same where the element is a document or an array; else there is nothing to go into. */
must_check bool walk_within(struct walk *walk, const struct element *element);

/* Begins with a document or array, and takes its first element. CURSOR_INVALID where it is not
 * BSON. */
must_check enum cursor_step walk_first(struct walk *walk, uint8_t type, struct bytes document,
				       struct element *element);

/* The next element of the innermost open level, which is closed at its end. CURSOR_END: all levels
 * are closed. */
must_check enum cursor_step walk_next(struct walk *walk, struct element *element);

/* Whether the element that came last stood in an array: mongod doesn't look at its name, whatever
 * that is. */
static inline bool walk_in_array(const struct walk *walk)
{
	return walk->levels[walk->depth - 1].array;
}
