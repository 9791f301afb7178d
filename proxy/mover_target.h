/* One rule on one concrete namespace, as the mover's threads share it; and all that have been met.
 */
#pragma once

#include "rules/rules.h"

#include <stdatomic.h>

#define MOVER_NEVER (INT64_MIN / 2) /* a time so long ago that nothing holds since */

enum fitness {
	FITNESS_UNKNOWN,
	FITNESS_FIT,
	FITNESS_UNFIT, /* `reason` says why */
};

struct mover_target {
	const struct rule *rule;
	char *database;
	char *collection;
	char *overflow_database;
	char *overflow_collection;
	_Atomic(enum fitness) fitness;
	_Atomic uint64_t judged_on;  /* the server process that was asked: link_process */
	_Atomic int64_t judged_at;   /* monotonic milliseconds */
	atomic_bool main_changed;    /* since then, perhaps */
	/* The overflow collection that was judged: its UUID, 0 where none can be asked for. A store
	 * names it, so that it never goes into a collection that was made since, without the
	 * indexes. */
	_Atomic uint64_t overflow_uuid[2];
	char reason[900];            /* guarded by the set's lock */
	_Atomic int64_t sweep_due;   /* monotonic milliseconds; 0: never swept yet */
	_Atomic int64_t sweep_again; /* no earlier than this, whoever asks */
	atomic_bool recheck;         /* its fitness may have changed */
	atomic_bool mirror_due;      /* its overflow may lack indexes that the main collection has */
	atomic_bool left_logged;     /* that documents are left alone: one line a target */
};

struct target_set;

struct target_set *target_set_new(struct rule_set *rules);
void target_set_free(struct target_set *set);

/* The rule's target on this namespace, made at the first call. NULL only where too many have been
 * met. */
struct mover_target *target_get(struct target_set *set, const struct rule *rule,
				struct bytes database, struct bytes collection);
/* The target number `index` of all met so far; NULL behind the last. */
struct mover_target *target_at(struct target_set *set, size_t index);

void target_judge(struct target_set *set, struct mover_target *target, enum fitness fitness,
		  const char *reason);
/* How many targets are unfit. */
size_t target_unfit_count(const struct target_set *set);
/* Copies the reason of the first unfit target of the namespace. Cheap while no target is unfit. */
bool target_unfit(struct target_set *set, struct bytes database, struct bytes collection,
		  char *reason, size_t size);
