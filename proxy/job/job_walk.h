/* The documents under a rule one by one, with progress; and how one is moved. */
#pragma once

#include "proxy/job/job.h"
#include "proxy/upstream/pages.h"

/* Until nobody reads any more what lay in the overflow at `since`; says so where that takes time.
 * False where it was interrupted. */
must_check bool job_await_readers(const struct mover_target *target, int64_t since);

/* Says which secondary is waited for, from time to time: `told` is when it did last. */
void job_show_lag(const struct job *job, int64_t *told);

/* Says that the rule is paused, from time to time. */
void job_show_pause(const struct job *job, int64_t *told);

/* Calls `each` with every document's `_id` that the filter finds on the target, in the order of
 * `_id` where there are no helpers; these have a `job` of their own each, and share what `context`
 * points to. Between pages it shows progress. `pages` says where to begin; NULL: at the start. */
typedef enum link_result (*job_each)(struct job *job, struct mover_target *target,
				     const struct element *id);
/* The same with several: documents {_id}, one behind the other. */
typedef enum link_result (*job_group)(struct job *job, struct mover_target *target,
				      struct bytes ids);
/* Called behind each page: all before `place` has been done, but for `stayed` that were found. */
typedef enum link_result (*job_page)(struct job *job, struct mover_target *target,
				     const struct place *place, int64_t stayed);
struct job_walk {
	page_filter filter;
	job_each each;
	job_group group;   /* NULL: `each` is called; else this one, and never `each` */
	size_t group_most; /* documents that it takes */
	job_page page;     /* NULL: nothing */
	size_t helpers;    /* documents worked on at the same time, beside one */
	struct place from; /* taken over */
	int64_t stayed;    /* in front of it, as a run before has found; that is told */
};
must_check enum link_result job_walk(struct job *job, struct mover_target *target,
				     const struct job_walk *walk);

/* Calls `each` with every `_id` of a list: documents {_id}, one behind the other. */
must_check enum link_result job_list(struct job *job, struct mover_target *target, job_each each,
				     const struct buffer *ids, size_t helpers);

/* So many more of the page at work are done: any hand, any thread. */
void job_count_done(struct job *job, size_t count);

struct job_moved {
	bool rests;
	char refused[512]; /* the server's words; empty: it didn't refuse */
};

/* Moves its tail by the mover's own round, again until it is at rest or is to be left. */
must_check enum link_result job_move(struct job *job, struct mover_target *target,
				     const struct element *id, struct job_moved *moved);
