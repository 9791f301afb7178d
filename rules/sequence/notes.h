/* What the statements of a command leave for the mover to look at. */
#pragma once

#include "rules/sequence/sequence.h"
#include "rules/query/update.h"

/* One statement's update -> what it did to ruled arrays. False where it did nothing that matters.
 */
must_check bool notes_of_update(const struct update *update, struct mover_note *note);

/* Which document it was: by the `_id` that the filter pins, else by the filter itself. */
void notes_identify(struct mover_note *note, struct bytes filter, const struct element *collation);

/* The note of a findAndModify; `reply` (may be NULL) tells the operation's time. `note->rule` is
 * the first target's. */
must_check bool notes_of_find_and_modify(const struct sequence *sequence,
					 const struct packet *reply, struct mover_note *note);

/* Any document may have been written: of each target. */
void notes_somewhere(const struct ruled_namespace *namespace,
		     void (*take)(void *context, const struct mover_note *note), void *context);

/* Namespace, time and whether it can be seen already. */
void notes_begin(struct mover_note *note, const struct sequence *sequence,
		 const struct packet *reply);
