/* Counters and gauges: one line each in metrics.def; written by any thread, read when somebody
 * asks. */
#pragma once

#include "protocol/bytes.h"
#include "rules/rule/rules.h"

#include <stdatomic.h>

struct metrics {
#define METRIC(field, type, name, help) _Atomic int64_t field;
#include "proxy/base/metrics.def"
#undef METRIC
};

/* One block per loop or thread avoids sharing cache lines; all are summed when read. */
struct metrics *metrics_new(void);
void metrics_free_all(void);

static inline void metric_add(_Atomic int64_t *metric, int64_t amount)
{
	atomic_store_explicit(metric, atomic_load_explicit(metric, memory_order_relaxed) + amount,
			      memory_order_relaxed);
}

/* For a block that several threads write. */
static inline void metric_add_shared(_Atomic int64_t *metric, int64_t amount)
{
	atomic_fetch_add_explicit(metric, amount, memory_order_relaxed);
}

/* Counts a refusal by rule name and operator or command; both are our own words, never a client's.
 */
void metrics_refused(const char *rule, const char *what);

/* The sum of all blocks. */
void metrics_sum(struct metrics *sum);
/* Hands over each refusal that was counted. */
void metrics_each_refusal(void (*each)(void *context, const char *rule, const char *what,
				       int64_t count),
			  void *context);

/* Appends a label's value: rules' names are a file's text. */
void metrics_label(struct buffer *out, const char *text);
/* Appends everything in Prometheus's text format. */
void metrics_print(struct buffer *out);
