/* Histograms of how long requests take, summed over all loops when somebody asks. */
#include "proxy/base/latency.h"

#include "rules/rule/hash.h"
#include "rules/rule/text.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#define ALL_MAX 300

const uint32_t latency_bounds[LATENCY_BOUNDS] = {
	1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 5000000, 10000000};
static const char *const bound_texts[LATENCY_BOUNDS] = {
	"0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "5", "10"};
static const char *const kind_names[LATENCY_KINDS] = {
	[LATENCY_FORWARDED] = "forwarded", [LATENCY_READ] = "read",
	[LATENCY_AGGREGATE] = "aggregate", [LATENCY_WRITE] = "write",
	[LATENCY_EDIT] = "edit",           [LATENCY_WATCH] = "watch",
	[LATENCY_REFUSED] = "refused",
};

static struct latencies *all[ALL_MAX];
static size_t all_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct latencies *latencies_new(void)
{
	struct latencies *made = must_calloc(1, sizeof(*made));

	pthread_mutex_lock(&lock);
	require(all_count < ALL_MAX);
	all[all_count++] = made;
	pthread_mutex_unlock(&lock);
	return made;
}

static void chain_free(struct latency_rule *of_rule)
{
	while (of_rule) {
		struct latency_rule *next = of_rule->next;

		free(of_rule->name);
		free(of_rule);
		of_rule = next;
	}
}

void latencies_free_all(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < all_count; i++) {
		for (size_t chain = 0; chain < LATENCY_CHAINS; chain++)
			chain_free(atomic_load(&all[i]->chains[chain]));
		free(all[i]);
	}
	all_count = 0;
	pthread_mutex_unlock(&lock);
}

static const char *name_of(const struct rule *rule)
{
	return rule ? rule->name : "";
}

static size_t chain_of(const char *name)
{
	return hash_bytes(bytes_of(name), 1) % LATENCY_CHAINS;
}

/* NULL: no request has been noted. */
static struct latency_rule *find(struct latencies *latencies, const char *name)
{
	struct latency_rule *of_rule =
		atomic_load_explicit(&latencies->chains[chain_of(name)], memory_order_acquire);

	while (of_rule && strcmp(of_rule->name, name) != 0)
		of_rule = of_rule->next;
	return of_rule;
}

static struct latency_rule *make(struct latencies *latencies, const char *name)
{
	struct latency_rule *of_rule = must_calloc(1, sizeof(*of_rule));
	size_t chain = chain_of(name);

	of_rule->name = must_strndup(name, strlen(name));
	of_rule->next = atomic_load(&latencies->chains[chain]);
	atomic_store(&latencies->chains[chain], of_rule);
	return of_rule;
}

void latencies_note(struct latencies *latencies, const struct rule *rule, enum latency_kind kind,
		    uint64_t microseconds)
{
	const char *name = name_of(rule);
	struct latency_rule *of_rule = latencies->latest;

	if (!of_rule || strcmp(of_rule->name, name) != 0)
		of_rule = find(latencies, name);
	if (!of_rule)
		of_rule = make(latencies, name);
	latencies->latest = of_rule;
	latency_note(&of_rule->kinds[kind], microseconds, 1);
}

const char *latency_name(enum latency_kind kind)
{
	return kind_names[kind];
}

/* ---- Sums, under the lock. */

struct sum {
	int64_t buckets[LATENCY_BOUNDS + 1];
	int64_t microseconds;
	int64_t count;
};

static void add(struct sum *sum, struct latency *latency)
{
	for (size_t i = 0; i <= LATENCY_BOUNDS; i++) {
		int64_t some = atomic_load_explicit(&latency->buckets[i], memory_order_relaxed);

		sum->buckets[i] += some;
		sum->count += some;
	}
	sum->microseconds += atomic_load_explicit(&latency->microseconds, memory_order_relaxed);
}

static void sum_up(struct sum *sum, const struct rule *rule, enum latency_kind kind)
{
	*sum = (struct sum){.count = 0};
	for (size_t i = 0; i < all_count; i++) {
		struct latency_rule *of_rule = find(all[i], name_of(rule));

		if (of_rule)
			add(sum, &of_rule->kinds[kind]);
		if (!rule && kind == LATENCY_FORWARDED)
			add(sum, &all[i]->forwarded);
	}
}

struct latency_total latencies_total(const struct rule *rule, enum latency_kind kind)
{
	struct sum sum;

	pthread_mutex_lock(&lock);
	sum_up(&sum, rule, kind);
	pthread_mutex_unlock(&lock);
	return (struct latency_total){sum.count, sum.microseconds};
}

static void print_sum(struct buffer *out, const struct sum *sum, const char *labels)
{
	int64_t so_far = 0;

	for (size_t i = 0; i < LATENCY_BOUNDS; i++) {
		so_far += sum->buckets[i];
		text_append(out,
			    "spillway_request_duration_seconds_bucket{%s,le=\"%s\"} %" PRId64 "\n",
			    labels, bound_texts[i], so_far);
	}
	text_append(out,
		    "spillway_request_duration_seconds_bucket{%s,le=\"+Inf\"} %" PRId64 "\n"
		    "spillway_request_duration_seconds_sum{%s} %" PRId64 ".%06" PRId64 "\n"
		    "spillway_request_duration_seconds_count{%s} %" PRId64 "\n",
		    labels, sum->count, labels, sum->microseconds / 1000000,
		    sum->microseconds % 1000000, labels, sum->count);
}

static void print_kinds(struct buffer *out, const struct rule *rule)
{
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		struct buffer labels = {0};
		auto_free char *text = NULL;
		struct sum sum;

		sum_up(&sum, rule, (enum latency_kind)kind);
		if (sum.count == 0)
			continue;
		text_append(&labels, "verdict=\"%s\",rule=\"", kind_names[kind]);
		metrics_label(&labels, rule ? rule->name : "");
		text_append(&labels, "\"");
		text = text_steal(&labels);
		print_sum(out, &sum, text);
	}
}

void latencies_print(struct buffer *out, const struct rule_set *rules)
{
	pthread_mutex_lock(&lock);
	text_append(out, "# HELP spillway_request_duration_seconds From a request to its reply, by "
			 "verdict and rule.\n"
			 "# TYPE spillway_request_duration_seconds histogram\n");
	print_kinds(out, NULL);
	for (size_t i = 0; i < rule_set_count(rules); i++)
		print_kinds(out, rule_set_at(rules, i));
	pthread_mutex_unlock(&lock);
}
