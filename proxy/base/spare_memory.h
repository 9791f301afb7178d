/* What malloc keeps of what was freed, for the next large buffer. Any thread. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* Putting a long array together takes a few buffers of megabytes: the next one shall find that
 * memory instead of faulting it in page by page. At the start, before there are threads. */
void spare_memory_keep(void);
/* All that is held now. Above half the limit nothing is kept any more, since what is kept, and lies
 * in pieces, is held by nobody's account; far below it is again. `scarce` is false at first. */
void spare_memory_adjust(atomic_bool *scarce, int64_t held, int64_t limit);
