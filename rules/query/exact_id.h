/* A document named by its `_id` alone, under whatever collation: equality takes "a" for "A" under
 * most, inside documents too, where a regular expression knows none. */
#pragma once

#include "protocol/cursor.h"

/* Each text in the `_id` can be named. */
must_check bool exact_id_possible(const struct element *id);
/* Appends to an open filter what only this `_id` satisfies; it must be possible. */
void exact_id_write(struct buffer *out, const struct element *id);
