/* A find's {f: {$slice: ...}} on a ruled array, as aggregation stages that read of the overflow
 * only the batches that overlap the window. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rules.h"

/* Positions as find's $slice counts them: the first `count`, or the last -count, or `count` from
 * `skip` on (from the end where it is negative). */
struct window {
	const struct target *target;
	int32_t skip, count;
	bool skips;
};

/* False where the projection's field is not a ruled array of the top level, or `value` is no
 * {$slice: n} or {$slice: [skip, n]} of whole numbers that mongod takes.
 */
bool window_of(const struct element *field, const struct ruled_namespace *namespace,
	       struct window *window);
/* Appends the stages behind which the document's array is the window: `_spill` is still there. */
void window_write_stages(struct buffer *out, size_t *place, const struct window *window);
