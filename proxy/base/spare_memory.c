/* What malloc keeps of what was freed, for the next large buffer. */
#include "proxy/base/spare_memory.h"

#include <malloc.h>
#include <stdbool.h>

#define KEPT (32 << 20) /* the most that malloc allows; above it memory goes back at once */
#define KEPT_WHERE_SCARCE (1 << 20)

static void set_kept(int size)
{
	mallopt(M_MMAP_THRESHOLD, size);
	mallopt(M_TRIM_THRESHOLD, size);
}

void spare_memory_keep(void)
{
	set_kept(KEPT);
}

void spare_memory_adjust(atomic_bool *scarce, int64_t held, int64_t limit)
{
	bool was = atomic_load_explicit(scarce, memory_order_relaxed);
	bool is = held > (was ? limit / 8 : limit / 2);

	if (is == was || !atomic_compare_exchange_strong(scarce, &was, is))
		return;
	set_kept(is ? KEPT_WHERE_SCARCE : KEPT);
	if (is)
		malloc_trim(0);
}
