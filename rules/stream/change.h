/* What the update of an event says of ruled arrays, and the same as clients see it.
 *
 * Positions of an event are those of the stored array. The whole array has the overflow's elements
 * between its first `head` elements and the others. What Spillway writes is told from a
 * client's write by what becomes of the array's state (docs/internals/spill-protocol.md#events). */
#pragma once

#include "rules/rule/generation.h"
#include "rules/rule/rules.h"

/* The state of one array of one document. */
struct array_state {
	bool alive;
	size_t target; /* of the namespace */
	int64_t head;
	int64_t moved;
	int64_t removed; /* of `moved`: these positions have no element any more */
	int64_t edition; /* 0: no edit in place counts */
	uint8_t generation[GENERATION_BYTES];
};

/* How many elements are in the overflow. */
static inline int64_t array_state_elements(const struct array_state *state)
{
	return state->moved - state->removed;
}

/* Those of a document's arrays that have one. */
struct array_states {
	struct array_state *list;
	size_t count;
};

/* NULL: the array has none. */
const struct array_state *array_states_find(const struct array_states *states, size_t target);
void array_states_set(struct array_states *states, const struct array_state *state);
/* Of a main document. False where one is damaged. */
must_check bool array_states_read(const struct ruled_namespace *namespace, struct bytes main,
				  struct array_states *states);
/* The array has the generation and the edition that it had. */
bool array_state_stands(const struct array_state *state, const struct array_states *now);
void array_states_fini(struct array_states *states);

/* What an update names. */
struct change_names {
	bool state;  /* `_spill`, or something in it */
	bool array;  /* an array, what it is in, or something in it */
	bool hidden; /* a field that clients don't see */
};
struct change_names change_look(struct bytes change, const struct ruled_namespace *namespace);

enum change_meaning {
	CHANGE_CLIENTS, /* what it names of the array is a client's */
	CHANGE_OWN,     /* the update is Spillway's */
	CHANGE_SET,     /* a client's, which has set the array to what is stored: the event does
			   not name it */
	CHANGE_EDITED,  /* an edit in place: what it did to the overflow is not in the event */
	CHANGE_UNCLEAR, /* nobody writes so who keeps the rules, or a document was adopted */
};

/* An array that an update names, or the state of one. */
struct change_array {
	size_t target;
	struct array_state before; /* that the update's positions go by; none where it ends */
	struct array_state now;
	bool named; /* the array, or what it is in */
	enum change_meaning meaning;
	struct element set;   /* CHANGE_SET: the stored array; type 0: the document has none */
	bool asked;           /* for that */
	struct buffer stored; /* what `set` looks into */
};

struct change_task {
	const struct ruled_namespace *namespace;
	struct change_array *arrays;
	size_t count;
	bool own; /* the update is Spillway's */
	bool edited;
	bool unclear;
	/* An $addToSet is told as a write of the array, which is the whole one for clients. */
	struct element whole; /* type 0: not known yet */
	bool by_positions;    /* it is told by the positions of what is in main instead */
};

/* `states` are those before the update, and become those behind it. Fills the task's arrays. */
void change_advance(struct bytes change, struct array_states *states, struct change_task *task);
/* The next one of the arrays that a client has set to what is stored, and that nobody has asked
 * for; NULL: there is none. */
struct change_array *change_unknown(const struct change_task *task);
/* Positions of the stored array are not those of the whole one. */
bool change_splits(const struct change_array *array);
void change_task_fini(struct change_task *task);

struct change_written {
	bool left;             /* something is left for clients */
	struct element stored; /* a written array, or what it is in, in place of which the whole one
				  is to be written; type 0: none is wanted, or it was there */
};

/* Appends the update as clients see it to the open document, as `updateDescription`. False where
 * that can't be told. */
must_check bool change_write(struct bytes change, const struct change_task *task,
			     struct buffer *out, struct change_written *written);
