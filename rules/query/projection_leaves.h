/* Reads a find's projection as a list: which path is included, excluded or computed. */
#pragma once

#include "rules/rule/walk.h"

enum leaf_kind {
	LEAF_INCLUDED,
	LEAF_EXCLUDED,
	LEAF_COMPUTED, /* an expression, or a value to return as it is (an empty document: refused)
			*/
	LEAF_SLICE,    /* find's $slice */
	LEAF_MATCH,    /* find's $elemMatch */
	LEAF_META,
};

struct leaf {
	enum leaf_kind kind;
	bool top; /* its path is one element's name */
	struct bytes path;
	struct element value;
};

/* A projection whose prefixes, spelt out for each leaf, are longer than this in all is not followed
 * (CURSOR_INVALID): time would grow with the square of a message's size. */
#define LEAVES_PREFIXES_MAX (1 << 20)

struct leaves {
	struct walk walk;
	size_t prefixes[CURSOR_MAX_DEPTH]; /* by level: the path before its names, in bytes */
	size_t spelt;                      /* of prefixes, so far */
	struct buffer path;
};

/* Ended by leaves_close in any case. False where it is not BSON. */
must_check bool leaves_open(struct leaves *leaves, struct bytes projection);
void leaves_close(struct leaves *leaves);
/* Like cursor_next. The path is a view until the next call. */
must_check enum cursor_step leaves_next(struct leaves *leaves, struct leaf *leaf);
