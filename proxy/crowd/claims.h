/* Who holds much memory, in the order in which they began: where all that is held passes
 * limits.memory, the newest have to give up first, so that those before them come to their end. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Who holds less is not listed. */
#define CLAIMS_LEAST (256 * 1024)

struct claim {
	struct claim *older;
	struct claim *newer;
	int64_t held; /* 0: not listed */
	_Atomic bool told, early;
};

/* All zeros but the lock is an empty list. */
struct claims {
	pthread_mutex_t lock;
	struct claim *newest;
};

void claims_init(struct claims *claims);
void claims_fini(struct claims *claims);
/* Empty, and not listed. */
struct claim *claims_new(void);
/* Frees it; NULL is fine. */
void claims_drop(struct claims *claims, struct claim *claim);
/* What this one holds now, in bytes; the last call for it says 0. `excess`: what all hold beyond
 * the limit, none where it is not positive. */
void claims_set(struct claims *claims, struct claim *claim, int64_t held, int64_t excess);
/* All together hold so much beyond the limit. */
void claims_tell(struct claims *claims, int64_t excess);
/* Where memory is short: whether this one has to give up. So has who holds little yet (NULL). */
bool claims_give_up(const struct claim *claim);
/* The same in the middle of what comes: the oldest gets the whole of it. */
bool claims_give_up_early(const struct claim *claim);
