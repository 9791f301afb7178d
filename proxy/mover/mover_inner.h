/* What the mover's threads share. */
#pragma once

#include "proxy/base/metrics.h"
#include "proxy/mover/mover.h"
#include "proxy/mover/paths.h"
#include "proxy/upstream/clauses.h"
#include "proxy/mover/queue.h"

#include <pthread.h>

struct member_names;
struct gc;
struct tend_list;
struct views_look;
struct open_reads;
struct mover_warnings;
struct pacer;

#define CONNECT_PAUSE_MS 200
#define KEEP_MS 1000 /* how often threads try again what did not work */

struct mover {
	const struct config *config; /* of the start; its rules may be gone */
	struct metrics *metrics;     /* one block for all threads: metric_add_shared */
	struct target_set *targets;
	struct mover_queue *rounds;
	struct mover_queue *garbage; /* documents whose overflow may hold dead generations */
	struct member_names *names;
	struct gc *gc;
	struct tend_list *tended;
	struct views_look *views;
	struct mover_warnings *warnings;
	struct paths *paths;
	struct pacer *pacer;
	atomic_bool stopping;
	struct {                          /* while it runs; all but the first two by `lock` */
		struct rule_set *rules;   /* changed only while nobody is at work */
		struct open_reads *reads; /* the keeper's */
		int working;              /* threads that are at work on targets */
		bool held;                /* none begins */
		atomic_bool shared;       /* mover_share */
		bool settled;             /* no request goes on that began before the rules */
		unsigned turn;            /* counts the changes of the rules */
	} reload;
	struct {
		bool sweep;           /* one may be due earlier than was thought; by `lock` */
		atomic_bool recheck;  /* some target's `recheck` is set */
		atomic_bool unlisted; /* it was told that collections can't be listed */
	} news;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	struct {
		bool done; /* the servers have been looked at once: */
		enum mover_check outcome;
		char reason[1024];
	} check;
	char lacking[1024]; /* what the mover waits for: servers, a primary, a majority; or "" */

	_Atomic int64_t answered_at; /* by some server; monotonic milliseconds */
	atomic_bool admits; /* what rules moved that are gone has been looked for: nothing */
	atomic_bool ready;
	pthread_mutex_t fitness_lock; /* one thread at a time checks */
	struct {
		pthread_t all[7];
		size_t count;
	} threads;
};

/* Around all work on targets; waits while the mover is held. */
void mover_enter(struct mover *mover);
void mover_leave(struct mover *mover);
/* The rules that it started with were changed since. */
bool mover_was_reloaded(struct mover *mover);
/* A thread's link, opened where there is none, and again after it was lost. */
must_check bool mover_connect(struct mover *mover, struct link **link, bson_error_t *error);
/* Sleeps so long, or until the mover stops. */
void mover_pause(struct mover *mover, int64_t milliseconds);

static inline int64_t mover_earliest(int64_t one, int64_t other)
{
	return one < other ? one : other;
}
