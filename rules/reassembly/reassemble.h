/* Aggregation stages by which mongod puts whole documents together
 * (docs/internals/spill-protocol.md, "Reading an array"):
 *
 *   {$graphLookup: ...}   a target's overflow; ordinary documents ask for none
 *                         (a $lookup, where it is asked of one document with many)
 *   {$replaceWith: ...}   the array whole; documents without a state as they are, byte for byte
 *   {$unset: ...}         what clients don't see */
#pragma once

#include "rules/reassembly/raised.h"
#include "rules/reassembly/sound.h"
#include "rules/rule/rules.h"

/* What the texts of this room's headers say of a target: the names that an error tells, the array's
 * path and its key in `_spill`, the overflow collection, and in its documents the link and the
 * array of a batch. And the expressions that most stages need. */
#define REASSEMBLE_FILLS(namespace, target) \
	fill("database", (namespace)->database), fill("collection", (namespace)->collection), \
		fill("rule", (target)->rule->name), fill("array", (target)->rule->array), \
		fill("key", (target)->rule->key), fill("overflow", (target)->overflow_collection), \
		fill("link", (target)->rule->overflow.link), \
		fill("batch", (target)->rule->overflow.array), \
		fill_template("no_state", SOUND_NO_STATE), \
		fill_template("no_state_of_rule", SOUND_NO_STATE_OF_RULE), \
		fill_template("damaged", SOUND_DAMAGED), \
		fill_template("damaged_error", RAISE_DAMAGED), \
		fill_template("dead_error", RAISE_DEAD), fill_template("lost_error", RAISE_LOST)

/* False where the overflow lies in another database. */
bool reassemble_possible(const struct ruled_namespace *namespace);
/* Appends them to the pipeline that is open in `out`, as elements from *place on. A document whose
 * generation has ended meanwhile, or whose overflow doesn't run on, raises an error that
 * raised_died knows. */
enum reassemble_use {
	REASSEMBLE_WHOLE,  /* each field counts: one that mongod would lose raises an error */
	REASSEMBLE_VALUES, /* of fields that stand twice the first one counts */
	REASSEMBLE_STATE,  /* the same; `_spill` stays */
};
/* What is done about an array whose overflow is not all there. */
enum reassemble_damage {
	REASSEMBLE_RAISES, /* it raises RAISED_DEAD, whatever the reason */
	/* Behind that: main is asked again. If the state still stands, overflow is missing, which
	 * raises RAISED_LOST. */
	REASSEMBLE_LOOKS,
	REASSEMBLE_SKIPS, /* the same; damaged documents of a rule that skips them are left out */
};
struct reassembly {
	enum reassemble_use use;
	bool single; /* what comes is one document */
	bool strict; /* in expressions of the Stable API's version 1 alone, which take longer */
	/* A stage behind may set a field with a hidden name, also in a document that this one has
	 * become a part of: mongod keeps the place of one that was unset for the next of its name,
	 * until a document is made of what is left. */
	bool sets_hidden;
	enum reassemble_damage damage;
	const bool *only; /* for each target: whether its array is put together; NULL: all are */
};
void reassemble_write_stages(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace, struct reassembly how);
/* The stage before them: all documents that `filter` may match once they are whole, as few others
 * as can be told. */
void reassemble_write_candidates(struct buffer *out, size_t *place, struct bytes filter,
				 const struct ruled_namespace *namespace);
/* Appends the stage that takes away what clients don't see; for REASSEMBLE_STATE all but `_spill`.
 */
void reassemble_write_unset(struct buffer *out, size_t *place,
			    const struct ruled_namespace *namespace, struct reassembly how);
/* Appends instead of them: a document that would have to be put together raises the same error. */
void reassemble_write_guards(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace);
/* Appends the stage that raises the error of a damaged state. */
void reassemble_write_sound(struct buffer *out, size_t *place,
			    const struct ruled_namespace *namespace, const struct target *target);
