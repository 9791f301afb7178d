/* Filters that one element can satisfy (docs/internals/spill-protocol.md, "Reads", class 6): asked
 * of the overflow itself, they tell which outliers can match at all.
 *
 * One aggregate does both: its documents are those of main that meet the condition, or whose _id
 * was named before, put together and matched; behind them come, from the overflow, the _ids of
 * those that have such an element there. Where all of these had been named before, no document has
 * been missed: its element stood in main when main was read, or in the overflow, and then it stands
 * there still, since garbage waits for gc_delay. Else they are named, and asked is again. */
#pragma once

#include "protocol/writer.h"
#include "rules/rule/rules.h"

#define PROBE_HITS_MAX 250 /* more of them: not worth it, but where `many` */
#define PROBE_ROOM 1000    /* documents of a reply that brings hits behind them, at most */
#define PROBE_ROUNDS 4     /* then another way */

struct probe {
	struct buffer main;        /* the condition, of main documents: a filter */
	struct buffer overflow;    /* the same of overflow documents */
	struct buffer named;       /* _ids, an array; empty where none was named */
	struct buffer generations; /* of the same hits */
	size_t named_count;
	const struct target *target;
	bool exact; /* no other condition reads an array, and it is the whole of this one */
	bool rest;  /* there are conditions on other fields */
	bool skips; /* documents whose state is damaged are no error, and none of them matches */
	bool light; /* asked so that no array is put together: `exact` */
	bool whole; /* documents come whole: asked lightly, one with a state raises the error */
	bool many;  /* as many hits as documents of a reply: no array is put together for them */
	bool alone; /* `exact`: asked for what is named, of the generations that are named */
};

/* False where no condition of the filter is one that a single element satisfies, or where another
 * way is likely to be cheaper. */
must_check bool probe_of_filter(struct bytes filter, const struct ruled_namespace *namespace,
				struct probe *probe);
void probe_fini(struct probe *probe);

/* Appends what tells the documents of main that are concerned: {$and: [...]}'s field. */
void probe_write_conditions(struct buffer *out, struct bytes filter,
			    const struct ruled_namespace *namespace, const struct probe *probe);
/* The same as the first stage. */
void probe_write_candidates(struct buffer *out, size_t *place, struct bytes filter,
			    const struct ruled_namespace *namespace, const struct probe *probe);
/* Appends the last stage: the hits in the overflow, documents that begin with `_spill`. */
void probe_write_hits(struct buffer *out, size_t *place, const struct probe *probe);

enum probe_found {
	PROBE_COMPLETE, /* the documents before the hits are the answer */
	PROBE_AGAIN,    /* hits were not named before: they are now */
	PROBE_TOO_MANY, /* or broken, or garbage may have gone meanwhile: another way */
};
/* So many hits are taken at most. */
int32_t probe_hits_most(const struct probe *probe);
/* One document is named. */
bool probe_names_one(const struct probe *probe);
/* Looks through a reply's batch, an array, that was asked for `elapsed` microseconds ago and
 * answers with `room` documents at most. `documents`: how many stand before the hits. */
enum probe_found probe_take(struct probe *probe, struct bytes batch, size_t room, uint64_t elapsed,
			    size_t *documents);
