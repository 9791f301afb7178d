/* A window of a ruled array as aggregation stages that read of the overflow only the batches that
 * overlap it. */
#pragma once

#include "rules/query/window.h"

/* Appends the stages behind which the document's array is the window: `_spill` is still there. */
void window_write_stages(struct buffer *out, size_t *place, const struct ruled_namespace *namespace,
			 const struct window *window, bool strict);
/* Appends instead of them the stage behind which ordinary documents have the windows of the find's
 * projection. The others have main's arrays, and in `_spill` a mark, by which whoever gets them
 * cuts (NAME_WINDOW_MARK). */
void window_write_marks(struct buffer *out, size_t *place, const struct ruled_namespace *namespace,
			struct bytes projection);
