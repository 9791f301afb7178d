/* The state of a ruled array: `_spill.<key>` of its main document, as
 * docs/internals/spill-protocol.md#fields-of-the-state has it. What was there before the first move
 * (`a`, `b`) is read by own_fields.h. */
#pragma once

#include "rules/rule/generation.h"
#include "rules/rule/rules.h"

struct state {
	struct bytes generation; /* g: a view of its bytes; no data: it is not sound */
	int64_t head;            /* h */
	int64_t moved;           /* n */
	/* The same of an array that was edited in place stands in `e`, and beside it: */
	struct bytes later;   /* l; no data: the array was never edited in place */
	struct bytes pending; /* w; no data: no edit is pending */
	int64_t bound;        /* b */
	int64_t removed;      /* r */
	int64_t edition;      /* v */
};

/* The field; false if there is none, or if `_spill` is no document. */
must_check bool state_find(const struct rule *rule, struct bytes main, struct element *field);
/* NULL, or what is damaged. If a part stands twice, the last one counts; `strict`: that is damage.
 * An array that was edited in place counts as damaged: who has not learnt of editions asks so. */
must_check const char *state_read(const struct element *field, bool strict, struct state *state);
/* The same of an array that was edited in place, too. */
must_check const char *state_read_any(const struct element *field, bool strict,
				      struct state *state);
/* The field is that of an array that was edited in place, be it sound or not. */
bool state_is_edited(const struct element *field);
#define STATE_NAMES 2
/* The names that overflow of the array is stored under: how many. 0: they can't be read, and may be
 * any. */
size_t state_names(const struct element *field, struct bytes names[STATE_NAMES]);
/* How many elements are in the overflow. */
static inline int64_t state_elements(const struct state *state)
{
	return state->moved - state->removed;
}

/* Each array of the document `now` has the generation and the edition that it had `before`: its
 * overflow has been complete all the while. */
must_check bool states_stand(const struct ruled_namespace *namespace, struct bytes before,
			     struct bytes now);
