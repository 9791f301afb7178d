/* A find's {f: {$slice: ...}} on a ruled array: which part of the whole array it is, and how it is
 * cut out of what main and the overflow have. */
#pragma once

#include "protocol/command.h"
#include "rules/rule/rules.h"

/* Positions as find's $slice counts them: the first `count`, or the last -count, or `count` from
 * `skip` on (from the end where it is negative). */
struct window {
	const struct target *target;
	int32_t skip, count;
	bool skips;
	bool whole; /* all of main's array comes */
};

/* False where the projection's field is not a ruled array of the top level, or `value` is no
 * {$slice: n} or {$slice: [skip, n]} of whole numbers that mongod takes.
 */
bool window_of(const struct element *field, const struct ruled_namespace *namespace,
	       struct window *window);
/* One for each target of the namespace, in their order; of arrays that come whole or not at all it
 * is all that there is. How many the projection has; 0 also where it has an expression beside them,
 * or a part of an array that is no window. */
size_t windows_of(struct bytes projection, const struct ruled_namespace *namespace,
		  struct window *windows);
/* What a document's mark says of it (NAME_WINDOW_MARK), one for each target of the namespace;
 * without a target where the array comes whole or not at all. False where it is no such mark. */
must_check bool windows_of_mark(const struct element *mark, const struct ruled_namespace *namespace,
				struct window *windows);
/* The find's documents come in one reply, as far as can be told: a getMore doesn't know the
 * projection, and cuts only by marks. */
bool window_in_one_reply(const struct command *find);

/* Appends the window as a field of a projection, so wide that what comes of main's array has all
 * that the window takes of it, and tells where the whole array ends as far as that matters. */
void window_write_wider(struct buffer *out, const struct window *window);

/* What a window takes, in this order: elements of main's array as it came, of the overflow, again
 * of main's array. Positions are those of the sources. */
struct window_cut {
	size_t skip, head;   /* of main's array: so many are passed over, so many taken */
	size_t first, until; /* of the overflow; equal: nothing */
	size_t pass, tail;   /* of main's array, behind the head */
};

enum window_fit {
	WINDOW_FITS,
	WINDOW_BROKEN, /* the array is shorter than its head */
	WINDOW_BEYOND, /* the head is longer than the rule's: what came may be too little */
};

/* `there`: elements of main's array that came; `head` and `count`: h and n of its state, 0 without
 * one. */
enum window_fit window_cut(const struct window *window, size_t there, size_t head, size_t count,
			   struct window_cut *cut);
