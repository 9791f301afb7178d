/* What the update of an event says of a ruled array, and the same as clients see it.
 *
 * Positions of an event are those of the stored array. The whole array has the overflow's `moved`
 * elements between its first `head` elements and the others. What Spillway writes is told from a
 * client's write by what becomes of the array's state (docs/internals/spill-protocol.md#events). */
#pragma once

#include "rules/rule/generation.h"
#include "rules/rule/rules.h"

/* The state of one array of one document. */
struct array_state {
	bool alive;
	int64_t head;
	int64_t moved;
	uint8_t generation[GENERATION_BYTES];
};

/* `field` is the array's state in `_spill`; NULL: there is none. False where it is damaged. */
must_check bool array_state_read(const struct element *field, struct array_state *state);
/* Of a main document. */
must_check bool array_state_of(const struct rule *rule, struct bytes main,
			       struct array_state *state);

/* What an update names. */
struct change_names {
	bool state;  /* `_spill`, or something in it */
	bool array;  /* the array, what it is in, or something in it */
	bool hidden; /* a field that clients don't see */
};
struct change_names change_look(struct bytes change, const struct ruled_namespace *namespace);

enum change_meaning {
	CHANGE_CLIENTS, /* what it names of the array is a client's */
	CHANGE_OWN,     /* what it names of the array is Spillway's */
	CHANGE_SET,     /* a client's, which has set the array to what is stored: the event does
			   not name it */
	CHANGE_UNCLEAR, /* nobody writes so who keeps the rules, or a document was adopted */
};

/* `state` is that before the update, and becomes that behind it. */
must_check enum change_meaning change_advance(struct bytes change, const struct rule *rule,
					      struct array_state *state);

struct change_task {
	const struct ruled_namespace *namespace;
	struct array_state before; /* that the update's positions go by; none where it ends */
	enum change_meaning meaning;
	struct element set; /* CHANGE_SET: the stored array; type 0: the document has none */
	/* An $addToSet is told as a write of the array, which is the whole one for clients. */
	struct element whole; /* type 0: not known yet */
	bool by_positions;    /* it is told by the positions of what is in main instead */
};

struct change_written {
	bool left;          /* something is left for clients */
	struct bytes array; /* the stored array in place of which the whole one is to be written;
			       without data: none is wanted, or it was there */
};

/* Appends the update as clients see it to the open document, as `updateDescription`. False where
 * that can't be told. */
must_check bool change_write(struct bytes change, const struct change_task *task,
			     struct buffer *out, struct change_written *written);
