/* How long requests took: histograms, and what the log says of slow ones. The times are those that
 * sequences are given anyway, or the loop's own. */
#include "proxy/client/session.h"

#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "proxy/base/slowest.h"
#include "rules/rule/text.h"

#include <inttypes.h>
#include <stdio.h>

#define SLOW_LIMITS 64

/* A request that has its answer. */
struct measured {
	const struct ruled_namespace *namespace; /* NULL: none */
	struct bytes command;
	enum latency_kind kind;
	uint64_t microseconds;
	const struct sequence_trace *trace; /* NULL: it was one step */
};

static const char *rule_of(const struct measured *measured)
{
	return measured->namespace ? measured->namespace->targets[0].rule->name : "";
}

static void name_namespace(const struct measured *measured, char *text, size_t size)
{
	snprintf(text, size, "%s%s%s", measured->namespace ? measured->namespace->database : "",
		 measured->namespace ? "." : "",
		 measured->namespace ? measured->namespace->collection : "");
}

/* Each step lasts until the next one, the last to the end. */
static double step_milliseconds(const struct measured *measured, unsigned place)
{
	const struct sequence_trace *trace = measured->trace;
	bool last = place + 1 == trace->count || place + 1 == SEQUENCE_STEPS;
	uint64_t until = last ? measured->microseconds : trace->steps[place + 1].at;

	return (double)(until - trace->steps[place].at) / 1000;
}

static void add_steps(const struct measured *measured, struct buffer *text, bson_t *details)
{
	const struct sequence_trace *trace = measured->trace;
	bson_t steps, step;
	char place[16];

	if (!trace)
		return;
	bson_append_array_begin(details, "steps", -1, &steps);
	for (unsigned i = 0; i < trace->count && i < SEQUENCE_STEPS; i++) {
		double took = step_milliseconds(measured, i);

		snprintf(place, sizeof(place), "%u", i);
		bson_append_document_begin(&steps, place, -1, &step);
		BSON_APPEND_UTF8(&step, "step", trace->steps[i].name);
		BSON_APPEND_DOUBLE(&step, "millis", took);
		bson_append_document_end(&steps, &step);
		text_append(text, "%s %s %.1f ms", i > 0 ? "," : ":", trace->steps[i].name, took);
	}
	bson_append_array_end(details, &steps);
	if (trace->count > SEQUENCE_STEPS)
		text_append(text, " with %u more", trace->count - SEQUENCE_STEPS);
}

static struct log_limit *slow_limit(const struct measured *measured)
{
	static struct log_limit limits[SLOW_LIMITS];
	size_t rule = measured->namespace ? measured->namespace->targets[0].rule->index : 0;

	return &limits[(rule * LATENCY_KINDS + measured->kind) % SLOW_LIMITS];
}

static void remember_slow(const struct measured *measured, const char *namespace)
{
	struct slowest_entry entry = {.at = clock_now(),
				      .milliseconds = (int64_t)(measured->microseconds / 1000)};

	snprintf(entry.command, sizeof(entry.command), "%.*s", (int)measured->command.length,
		 (const char *)measured->command.data);
	snprintf(entry.namespace, sizeof(entry.namespace), "%.199s", namespace);
	snprintf(entry.rule, sizeof(entry.rule), "%.63s", rule_of(measured));
	slowest_note(&entry);
}

static void describe(const struct session *session, const struct measured *measured,
		     const char *namespace, bson_t *details)
{
	BSON_APPEND_UTF8(details, "ns", namespace);
	bson_append_utf8(details, "command", -1, (const char *)measured->command.data,
			 (int)measured->command.length);
	BSON_APPEND_UTF8(details, "rule", rule_of(measured));
	BSON_APPEND_UTF8(details, "verdict", latency_name(measured->kind));
	BSON_APPEND_INT64(details, "durationMillis", (int64_t)(measured->microseconds / 1000));
	session_describe(session, details);
}

/* Without anything that stands in the command. */
static void tell_slow(const struct session *session, const struct measured *measured)
{
	char namespace[400], context[32], more[80] = "";
	struct log_event event = {.level = CONFIG_LOG_INFO, .id = 3001, .context = context};
	auto_buffer struct buffer steps = {0};
	bson_t *details;
	int64_t held;

	name_namespace(measured, namespace, sizeof(namespace));
	remember_slow(measured, namespace);
	if (!log_wants(event.level) || !log_limit_due(slow_limit(measured), clock_now(), &held))
		return;
	details = bson_new();
	describe(session, measured, namespace, details);
	add_steps(measured, &steps, details);
	buffer_append(&steps, "", 1);
	event.details = details;
	snprintf(context, sizeof(context), "conn%llu", (unsigned long long)session->id);
	if (held > 0)
		snprintf(more, sizeof(more), " (%" PRId64 " more like it since the last line)",
			 held);
	log_event(&event, "session %llu: '%.*s' on '%s' took %.1f ms under rule '%s' (%s)%s%s",
		  (unsigned long long)session->id, (int)measured->command.length,
		  (const char *)measured->command.data, namespace,
		  (double)measured->microseconds / 1000, rule_of(measured),
		  latency_name(measured->kind), (const char *)steps.data, more);
	bson_destroy(details);
}

static void note(const struct session *session, const struct measured *measured)
{
	uint64_t slow = (uint64_t)session->loop->service->config->log_slow_ms * 1000;

	latencies_note(session->loop->latencies,
		       measured->namespace ? measured->namespace->targets[0].rule : NULL,
		       measured->kind, measured->microseconds);
	if (slow > 0 && measured->microseconds >= slow)
		tell_slow(session, measured);
}

static enum latency_kind kind_of(const struct match *match)
{
	switch (match->verdict) {
	case VERDICT_READ:
		return LATENCY_READ;
	case VERDICT_AGGREGATE:
		return LATENCY_AGGREGATE;
	case VERDICT_WRITE:
	case VERDICT_FIND_AND_MODIFY:
	case VERDICT_BULK_WRITE:
		return match->edits ? LATENCY_EDIT : LATENCY_WRITE;
	case VERDICT_REFUSE:
		return LATENCY_REFUSED;
	case VERDICT_EXPLAIN:
	case VERDICT_WATCH:
	case VERDICT_HIDE:
	case VERDICT_STREAM:
	case VERDICT_FORWARD:
	case VERDICT_HELLO:
	case VERDICT_CLOSE:
		break;
	}
	return LATENCY_WATCH;
}

void session_measure(struct session *session)
{
	const struct sequence *sequence = session->sequence;
	const struct match *match = &sequence->match;

	note(session,
	     &(struct measured){.namespace = match->namespace,
				.command = match->command.first.name,
				.kind = kind_of(match),
				.microseconds = sequence->trace.resumed - sequence->trace.started,
				.trace = &sequence->trace});
}

/* The loop's time has steps of a millisecond. */
void session_measure_find(struct session *session)
{
	const struct session_find *find = &session_ruled(session)->find;
	const struct ruled_namespace *namespace = find->namespace;
	uint64_t took = uv_now(&session->loop->uv) - find->asked;
	uint64_t slow = (uint64_t)session->loop->service->config->log_slow_ms;

	latencies_note(session->loop->latencies, namespace->targets[0].rule, LATENCY_READ,
		       took * 1000);
	if (slow > 0 && took >= slow)
		tell_slow(session, &(struct measured){.namespace = namespace,
						      .command = bytes_of("find"),
						      .kind = LATENCY_READ,
						      .microseconds = took * 1000});
}
