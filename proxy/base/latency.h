/* How long requests take, by verdict and rule: histograms of Prometheus. Each loop has its own, so
 * that no two threads write to one; whoever reads adds them up. */
#pragma once

#include "proxy/base/metrics.h"

enum latency_kind {
	LATENCY_FORWARDED,
	LATENCY_READ,
	LATENCY_AGGREGATE,
	LATENCY_WRITE,
	LATENCY_EDIT,
	LATENCY_WATCH,
	LATENCY_REFUSED,
	LATENCY_KINDS,
};

#define LATENCY_BOUNDS 12 /* and one bucket above them */

struct latency {
	_Atomic int64_t buckets[LATENCY_BOUNDS + 1]; /* not cumulative */
	_Atomic int64_t microseconds;
};

/* Rules are told apart by name: a request may begin under a rule and end after a reload. */
struct latency_rule {
	struct latency_rule *next; /* set before others see it */
	char *name;                /* "": no rule */
	struct latency kinds[LATENCY_KINDS];
};

#define LATENCY_CHAINS 64

#define LATENCY_SAMPLE_BITS 3
#define LATENCY_SAMPLE (1 << LATENCY_SAMPLE_BITS) /* one of so many forwarded requests */

struct latencies {
	struct latency forwarded;    /* whatever the rule; each measured one stands for several */
	uint32_t drawn;              /* the loop's own */
	struct latency_rule *latest; /* the same: what was noted last is likely to be next */
	/* By a hash of the rule's name; made at the first request, and kept. */
	_Atomic(struct latency_rule *) chains[LATENCY_CHAINS];
};

/* For a loop; freed by latencies_free_all. */
struct latencies *latencies_new(void);
void latencies_free_all(void);

extern const uint32_t latency_bounds[LATENCY_BOUNDS]; /* microseconds, at most */

/* Draws whether a request that is forwarded is measured: at random, so that no rhythm of a client
 * is met. */
static inline bool latency_draw(struct latencies *latencies)
{
	latencies->drawn = latencies->drawn * 1664525U + 1013904223U;
	return latencies->drawn >> (32 - LATENCY_SAMPLE_BITS) == 0;
}

/* `weight`: how many requests it stands for. */
static inline void latency_note(struct latency *latency, uint64_t microseconds, int64_t weight)
{
	size_t bucket = 0;

	while (bucket < LATENCY_BOUNDS && microseconds > latency_bounds[bucket])
		bucket++;
	metric_add(&latency->buckets[bucket], weight);
	metric_add(&latency->microseconds, (int64_t)microseconds * weight);
}

/* `rule` may be NULL. By the loop's own thread. */
void latencies_note(struct latencies *latencies, const struct rule *rule, enum latency_kind kind,
		    uint64_t microseconds);

/* How many requests there were, and how long they took together; of a rule, or of none (NULL). */
struct latency_total {
	int64_t count, microseconds;
};
struct latency_total latencies_total(const struct rule *rule, enum latency_kind kind);
const char *latency_name(enum latency_kind kind);

/* Appends everything in Prometheus's text format. */
void latencies_print(struct buffer *out, const struct rule_set *rules);
