/* Aggregation stages by which mongod puts whole documents together (protocol.md section 4):
 *
 *   {$lookup: ...}        a target's overflow of this generation, as runs of elements
 *   {$replaceWith: ...}   the array whole; documents without a state as they are, byte for byte
 *   {$unset: ...}         what clients don't see */
#pragma once

#include "rules/rules.h"

/* Appends them to the pipeline that is open in `out`, as elements from *place on. A document whose
 * generation has ended meanwhile, or whose overflow doesn't run on, raises an error that
 * reassemble_says_dead knows. `keep_state`: `_spill` stays. False where it can't be done: the
 * overflow lies in another database, or holds an element a document. */
must_check bool reassemble_write_stages(struct buffer *out, size_t *place,
					const struct ruled_namespace *namespace, bool keep_state);
bool reassemble_says_dead(struct bytes message);
