/* One rule on one concrete namespace, as the mover's threads share it; and all that have been met.
 */
#pragma once

#include "rules/rule/generation.h"
#include "rules/rule/rules.h"

#include <stdatomic.h>

#define TARGET_REASON 900           /* bytes: why a target is unfit */
#define MOVER_NEVER (INT64_MIN / 2) /* a time so long ago that nothing holds since */

enum fitness {
	FITNESS_UNKNOWN,
	FITNESS_FIT,
	FITNESS_UNFIT, /* `reason` says why */
};

/* Whose overflow documents are, by what is recorded, else by who refers to them (rule_owner.h). */
enum overflow_owner {
	OWNER_UNKNOWN, /* not asked yet */
	OWNER_THIS,    /* this rule's on this namespace */
	OWNER_CLAIMED, /* recorded as such, because documents here refer to a sample of it */
	OWNER_LIKELY,  /* not recorded: it is empty, or documents here refer to it */
	OWNER_OPEN,    /* nobody knows: nothing is moved there and nothing of it removed */
	OWNER_OTHER,   /* another collection's or array's */
};

/* What no document refers to may be collected. */
static inline bool owner_is_known(enum overflow_owner owner)
{
	return owner == OWNER_THIS || owner == OWNER_CLAIMED;
}

/* One of the longest arrays that rounds have met. */
struct target_long {
	uint8_t *id; /* the value of _id; owned; NULL: no such */
	size_t id_length;
	int64_t elements;
	uint8_t id_type;
};
#define TARGET_LONG_COUNT 5

/* Link values of the overflow without a main document, as a sweep found them. The sweeper's. */
struct target_absent {
	uint64_t *links; /* their hashes, sorted; owned */
	size_t count;
	int64_t since; /* monotonic milliseconds; 0: no sweep has looked yet */
};

/* Outliers that the first sweep found and left (proxy/pace/seen.h). The sweeper's. */
struct target_seen {
	uint64_t *hashes; /* sorted once `whole`; owned */
	size_t count;
	bool whole; /* the first sweep is over */
	bool full;  /* there were more */
};

/* A copied value: where a page of a walk ended. All zeros: the start. */
struct place {
	uint8_t type;
	struct bytes value; /* owned */
};

struct mover_target {
	const struct rule *_Atomic rule; /* another one, that finds what is split, after a reload */
	struct {
		_Atomic unsigned turn; /* another one after each change of the rule */
		/* The rule is new, and reads that began without it may go on: nothing is moved. */
		atomic_bool waits;
		struct rule_set *kept; /* the rule is gone: its set. NULL: it is in force */
	} reload;
	char *database;
	char *collection;
	char *overflow_database;
	char *overflow_collection;
	struct known_indexes *indexes;          /* the rule set's; of the main collection */
	struct known_indexes *overflow_indexes; /* and of this */
	atomic_bool read_only; /* a rule on the namespace is, be it another: nothing is written */
	_Atomic(enum fitness) fitness;
	_Atomic(enum overflow_owner) owner;
	_Atomic uint64_t judged_on; /* the server process that was asked: link_process */
	_Atomic int64_t judged_at;  /* monotonic milliseconds */
	atomic_bool main_changed;   /* since then, perhaps */
	struct {
		/* The overflow collection that was judged: its UUID, 0 where none can be asked for.
		 * A store names it, so that it never goes into a collection that was made since,
		 * without the indexes. */
		_Atomic uint64_t uuid[2];
		_Atomic uint64_t
			known[2]; /* of the overflow that is to be missed: lost_overflow.h */
		atomic_bool lost; /* it was dropped or replaced, and documents need it */
	} stored;
	char *reason; /* owned; NULL: none; guarded by the set's lock */
	struct target_long longest[TARGET_LONG_COUNT]; /* the same; the longest first */
	_Atomic int64_t outliers; /* documents whose first elements were moved since the start */
	_Atomic int64_t elements; /* moved since the start */
	struct {
		_Atomic int64_t due;         /* monotonic milliseconds; 0: never swept yet */
		_Atomic int64_t again;       /* no earlier than this, whoever asks */
		struct target_absent absent; /* the sweeper's */
		struct target_seen seen;     /* the sweeper's */
		int64_t waiting;             /* the sweeper's: outliers that the last sweep left */
		struct place refit_from; /* the sweeper's: a portion that it refitted ended here */
		atomic_bool learned;     /* sweeps find what has changed since the first one */
		atomic_bool refitted; /* what was spilled under another threshold was looked for */
	} sweep;
	atomic_bool recheck;      /* its fitness may have changed */
	atomic_bool mirror_due;   /* its overflow may lack indexes that the main collection has */
	atomic_bool twins;        /* overflow documents keep the unique index from being made */
	struct {                  /* what the log has been told, a line for each target */
		atomic_bool left; /* documents are left alone */
		atomic_bool renamed; /* its collection has another name */
		atomic_bool index;   /* an index of the overflow is not as it should be */
	} told;
};

struct target_set;

struct target_set *target_set_new(struct rule_set *rules);
void target_set_free(struct target_set *set);

/* The rule's target on this namespace, made at the first call. The rule may be one of a set that
 * was taken before: then it is the rule on the same array that counts. NULL where there is none, or
 * too many have been met. */
struct mover_target *target_get(struct target_set *set, const struct rule *rule,
				struct bytes database, struct bytes collection);
/* The target number `index` of all met so far; NULL behind the last. */
struct mover_target *target_at(struct target_set *set, size_t index);
size_t target_count(struct target_set *set);

/* Other rules, from now on. Targets of a rule that is among them, so that it finds what is split
 * (config_rule_finds), go on under the new one, and are judged again. The others are gone: they are
 * no longer met, and live as long as the set. Targets of a rule that finds nothing of an earlier
 * one's wait. Nobody may be at work on a target; any thread may ask for one. */
void target_set_take(struct target_set *set, struct rule_set *rules);
/* After a start: every rule waits. */
void target_set_hold(struct target_set *set);
/* Documents are split under the target's rule, so whoever reads knows of it: it waits no more. */
void target_set_trust(struct target_set *set, struct mover_target *target);
/* Whether targets of the set's rule at this place wait, or of any; and the end of that. */
bool target_set_rule_waits(struct target_set *set, size_t index);
bool target_set_waits(struct target_set *set);
void target_set_go(struct target_set *set);
static inline bool target_is_gone(const struct mover_target *target)
{
	return target->reload.kept;
}

/* A new generation's name: 8 bytes that say for which array it is, and 8 random ones. */
void target_new_generation(const struct mover_target *target, uint8_t *generation);
/* The least and the greatest that can be. */
void target_generations(const struct mover_target *target, uint8_t *least, uint8_t *most);
/* It was born for this array. (One that is older than this name is nobody's.) */
bool target_named(const struct mover_target *target, const uint8_t *generation);

void target_judge(struct target_set *set, struct mover_target *target, enum fitness fitness,
		  const char *reason);
/* A round met this document, whose array has so many elements, all together. */
void target_met(struct target_set *set, struct mover_target *target, uint8_t id_type,
		struct bytes id, int64_t elements);

/* A target as it is now, for the status page. Strings are views that live as long as the set. */
struct target_view {
	const struct rule *rule;
	const char *database;
	const char *collection;
	const char *overflow_database;
	const char *overflow_collection;
	enum fitness fitness;
	char reason[TARGET_REASON];
	int64_t outliers;
	int64_t elements;
	struct target_long longest[TARGET_LONG_COUNT]; /* copies */
};
/* False behind the last. */
must_check bool target_view(struct target_set *set, size_t index, struct target_view *view);
void target_view_fini(struct target_view *view);

/* Whether the target's overflow is lost; true where that is news. */
bool target_set_lost(struct target_set *set, struct mover_target *target, bool lost);
/* A target whose overflow is lost; NULL: there is none. */
const struct mover_target *target_lost(struct target_set *set);
/* How many targets are unfit. */
size_t target_unfit_count(const struct target_set *set);
/* Copies the reason of the first unfit target of the namespace. Cheap while no target is unfit. */
bool target_unfit(struct target_set *set, struct bytes database, struct bytes collection,
		  char *reason, size_t size);
