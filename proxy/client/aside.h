/* One thread beside an event loop: it does what would hold up the loop's other clients, one job
 * after the other. Only the loop's thread calls these functions. */
#pragma once

#include "proxy/client/loop.h"

struct aside;

/* `work` runs in the thread, then `done` on the loop, where it frees the job. A job owns what it
 * works on. */
struct aside_job {
	struct loop_task task; /* first */
	struct aside_job *next;
	struct namespace_cache *namespaces; /* the loop's: `work` may look into it; NULL: none */
	void (*work)(struct aside_job *job);
	void (*done)(struct aside_job *job);
};

/* The thread starts with the first job. */
struct aside *aside_new(struct loop *loop);
/* No job may be left. */
void aside_free(struct aside *aside);
void aside_give(struct aside *aside, struct aside_job *job);
/* Whether a job is being done: namespaces must not be evicted then. */
bool aside_works(const struct aside *aside);
