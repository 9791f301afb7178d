/* What an image of a main document says is to be done: the decisions of a round, without a server.
 *
 * Logical array L = f[0:h] ++ overflow[0:n] ++ f[h:]; the cases are named in
 * docs/internals/spill-protocol.md#moving. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/state.h"

enum plan_kind {
	PLAN_REST,   /* within its bounds, or no array to move */
	PLAN_LEAVE,  /* an outlier that must never be moved: `why` */
	PLAN_BIRTH,  /* an outlier without state: M1 */
	PLAN_MOVE,   /* a tail beyond the head: M2 to M4 */
	PLAN_UNDO,   /* a generation that holds nothing, of an array within its bounds, or with
			another   head than the rule's: its state goes */
	PLAN_TIDY,   /* `_spill: {}` is all that is left of the state: it goes */
	PLAN_BROKEN, /* not a document that Spillway could have written: `why` */
};

/* Views into the document. */
struct plan {
	enum plan_kind kind;
	const char *why;
	struct element id;       /* as it is stored, never as a filter had it */
	struct bytes generation; /* g: 16 bytes */
	int64_t head;            /* h */
	int64_t moved;           /* n: positions */
	int64_t elements;        /* in the overflow: as many, but of an array edited in place */
	struct state editions;   /* of such an array; `later` without data: it is none */
	int64_t length;          /* elements of f */
	size_t size;             /* of the document, in bytes */
	struct bytes array;      /* f */
	struct element state;    /* S; type 0: none */
	struct cursor tail;      /* of f, at element h */
};

/* The array was edited in place. */
static inline bool plan_is_edited(const struct plan *plan)
{
	return plan->editions.later.data;
}

struct plan plan_make(const struct rule *rule, struct bytes document);
/* Of an image that is `old` with nothing but a new state behind it, the plan that plan_make would
 * make: what was counted and looked for in `old`, of which `before` is the plan, holds of it, too.
 * False: it is another document, or has another head than the plan. */
must_check bool plan_follow(const struct rule *rule, const struct plan *before, struct bytes old,
			    struct bytes document, struct plan *plan);
/* Its array is too long: head, length and tail are then what a move would make of it, had it no
 * state. */
bool plan_measure(const struct rule *rule, struct plan *plan);
/* Why the document must never be moved, whatever its length; NULL: it may. `plan` is of a document
 * with an array. */
const char *plan_never_moved(const struct rule *rule, struct bytes document,
			     const struct plan *plan);

/* Takes as many of the next elements as a batch has room for that holds `held`: at most `count`
 * elements and `size` bytes of them as they will stand there; but one at least where it holds none.
 * They are appended to the array that is open in `out`. Returns how many. */
int64_t plan_take(struct cursor *tail, int64_t held, int64_t count, int64_t size,
		  struct buffer *out);

/* How often the path's names stand in the document. */
enum plan_path {
	PLAN_PATH_MISSING, /* the last name does not stand there, or a parent doesn't */
	PLAN_PATH_FOUND,
	PLAN_PATH_BLOCKED, /* a parent is no document */
	PLAN_PATH_TWICE,   /* some name of it stands twice */
	PLAN_PATH_BROKEN,
};
enum plan_path plan_find(struct bytes document, const char *path, struct element *element);
