/* Counters and gauges, summed over all blocks when somebody asks. */
#include "proxy/base/metrics.h"

#include "rules/rule/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS_MAX 300
#define REFUSALS_MAX 512

struct refusal {
	char *rule;
	char *what;
	int64_t count;
};

static struct metrics *blocks[BLOCKS_MAX];
static size_t block_count;
static struct refusal refusals[REFUSALS_MAX];
static size_t refusal_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct metrics *metrics_new(void)
{
	struct metrics *block = aligned_alloc(64, (sizeof(*block) + 63) / 64 * 64);

	require(block);
	memset(block, 0, sizeof(*block));
	pthread_mutex_lock(&lock);
	require(block_count < BLOCKS_MAX);
	blocks[block_count++] = block;
	pthread_mutex_unlock(&lock);
	return block;
}

void metrics_free_all(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < block_count; i++)
		free(blocks[i]);
	for (size_t i = 0; i < refusal_count; i++) {
		free(refusals[i].rule);
		free(refusals[i].what);
	}
	block_count = refusal_count = 0;
	pthread_mutex_unlock(&lock);
}

void metrics_refused(const char *rule, const char *what)
{
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < refusal_count &&
	       (strcmp(refusals[i].rule, rule) || strcmp(refusals[i].what, what)))
		i++;
	if (i == refusal_count && i < REFUSALS_MAX) {
		refusals[i].rule = must_strndup(rule, strlen(rule));
		refusals[i].what = must_strndup(what, strlen(what));
		refusals[i].count = 0;
		refusal_count++;
	}
	if (i < refusal_count)
		refusals[i].count++;
	pthread_mutex_unlock(&lock);
}

static void print_line(struct buffer *out, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void print_line(struct buffer *out, const char *format, ...)
{
	char line[512];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (length > 0)
		buffer_append(out, line,
			      (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1);
}

static int64_t sum_at(size_t offset)
{
	int64_t sum = 0;

	for (size_t i = 0; i < block_count; i++)
		sum += atomic_load_explicit((_Atomic int64_t *)(void *)((char *)blocks[i] + offset),
					    memory_order_relaxed);
	return sum;
}

void metrics_sum(struct metrics *sum)
{
	pthread_mutex_lock(&lock);
#define METRIC(field, type, name, help) \
	atomic_init(&sum->field, sum_at(offsetof(struct metrics, field)));
#include "proxy/base/metrics.def"
#undef METRIC
	pthread_mutex_unlock(&lock);
}

void metrics_each_refusal(void (*each)(void *context, const char *rule, const char *what,
				       int64_t count),
			  void *context)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < refusal_count; i++)
		each(context, refusals[i].rule, refusals[i].what, refusals[i].count);
	pthread_mutex_unlock(&lock);
}

static void print_metric(struct buffer *out, const char *type, const char *name, const char *help,
			 size_t offset)
{
	print_line(out, "# HELP %s %s\n# TYPE %s %s\n%s %lld\n", name, help, name, type, name,
		   (long long)sum_at(offset));
}

void metrics_label(struct buffer *out, const char *text)
{
	auto_free char *valid = text_valid(text);

	for (const char *at = valid; *at; at++)
		text_append(out,
			    *at == '\n'                 ? "\\n"
			    : *at == '"' || *at == '\\' ? "\\%c"
							: "%c",
			    *at);
}

static void print_refusal(struct buffer *out, const struct refusal *refusal)
{
	print_line(out, "spillway_refusals_total{rule=\"");
	metrics_label(out, refusal->rule);
	print_line(out, "\",operator=\"");
	metrics_label(out, refusal->what);
	print_line(out, "\"} %lld\n", (long long)refusal->count);
}

void metrics_print(struct buffer *out)
{
	pthread_mutex_lock(&lock);
#define METRIC(field, type, name, help) \
	print_metric(out, #type, name, help, offsetof(struct metrics, field));
#include "proxy/base/metrics.def"
#undef METRIC
	print_line(out, "# HELP spillway_refusals_total Requests refused, by rule and operator.\n"
			"# TYPE spillway_refusals_total counter\n");
	for (size_t i = 0; i < refusal_count; i++)
		print_refusal(out, &refusals[i]);
	pthread_mutex_unlock(&lock);
}
