/* What the mover does for a client that changed a ruled collection, while that waits for its reply:
 * removes the overflow of a collection that is gone, makes and drops indexes of the overflow. */
#pragma once

#include "proxy/mover/mover_inner.h"

struct tend_list;

struct tend_list *tend_list_new(void);
/* The keeper has ended: whoever waits, and whoever comes, is told that nothing was done. */
void tend_list_close(struct tend_list *list);
/* The same. */
void tend_list_free(struct tend_list *list);
/* Any thread. `done` may be NULL. */
void tend_list_add(struct tend_list *list, struct mover_target *target, enum mover_tending what,
		   void (*done)(void *context, bool tended), void *context);
/* The keeper's part: a step of each that waits. True while there is more to do. */
bool tend_list_work(struct tend_list *list, struct mover *mover, struct link **link);
