/* /status: what the running Spillway is at, as JSON for `spillway status` and `spillway top`. */
#include "proxy/admin/status.h"

#include "proxy/base/clock.h"
#include "proxy/base/command_line.h"
#include "proxy/base/latency.h"
#include "proxy/base/places.h"
#include "proxy/base/process_metrics.h"
#include "proxy/base/slowest.h"
#include "proxy/crowd/clients.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAMESPACES_MOST 200

/* An array that grows by documents. */
struct list {
	bson_t array, document;
	unsigned count;
};

static bson_t *list_begin(struct list *list)
{
	char place[16];

	snprintf(place, sizeof(place), "%u", list->count++);
	bson_append_document_begin(&list->array, place, -1, &list->document);
	return &list->document;
}

static void list_end(struct list *list)
{
	bson_append_document_end(&list->array, &list->document);
}

/* A file's names may be no UTF-8. */
static void append_text(bson_t *out, const char *name, const char *text)
{
	auto_free char *valid = text_valid(text);

	BSON_APPEND_UTF8(out, name, valid);
}

static void append_head(bson_t *out, const struct status *status)
{
	bool ready = status_ready(status);
	char reason[1024] = "";

	BSON_APPEND_UTF8(out, "version", program_version());
	BSON_APPEND_INT32(out, "pid", (int32_t)getpid());
	append_text(out, "file", status->config->file);
	BSON_APPEND_INT64(out, "uptimeSeconds",
			  (bson_get_monotonic_time() - status->started) / 1000000);
	BSON_APPEND_BOOL(out, "ready", ready);
	if (!ready)
		status_not_ready(status, reason, sizeof(reason));
	else
		(void)mover_lacks(status->mover, reason, sizeof(reason));
	append_text(out, ready ? "lacking" : "reason", reason);
}

/* With `replica_set`, those of the members that there are. */
static void append_listeners(bson_t *out, const struct status *status)
{
	struct list list = {.count = 0};

	bson_append_array_begin(out, "listeners", -1, &list.array);
	for (size_t i = 0; i < status->config->listen_count; i++) {
		const char *server = places_server(status->places, i);
		bson_t *listener;

		if (!server)
			continue;
		listener = list_begin(&list);
		append_text(listener, "address", status->config->listen[i].address);
		append_text(listener, "server", server);
		list_end(&list);
	}
	bson_append_array_end(out, &list.array);
}

static void append_figures(bson_t *out)
{
	struct process_figures process = process_figures();
	struct metrics sum;
	bson_t figures;

	metrics_sum(&sum);
	bson_append_document_begin(out, "metrics", -1, &figures);
#define METRIC(field, type, name, help) BSON_APPEND_INT64(&figures, #field, sum.field);
#include "proxy/base/metrics.def"
#undef METRIC
	bson_append_document_end(out, &figures);
	bson_append_document_begin(out, "process", -1, &figures);
	BSON_APPEND_INT64(&figures, "residentBytes", process.resident_bytes);
	BSON_APPEND_INT64(&figures, "descriptors", process.descriptors);
	BSON_APPEND_INT64(&figures, "descriptorsMost", process.descriptors_most);
	BSON_APPEND_INT64(&figures, "cpuMillis", process.cpu_milliseconds);
	bson_append_document_end(out, &figures);
}

static void append_requests_of(struct list *list, const struct rule *rule)
{
	for (int kind = 0; kind < LATENCY_KINDS; kind++) {
		struct latency_total total = latencies_total(rule, (enum latency_kind)kind);
		bson_t *row;

		if (total.count == 0)
			continue;
		row = list_begin(list);
		append_text(row, "rule", rule ? rule->name : "");
		BSON_APPEND_UTF8(row, "verdict", latency_name((enum latency_kind)kind));
		BSON_APPEND_INT64(row, "count", total.count);
		BSON_APPEND_INT64(row, "micros", total.microseconds);
		list_end(list);
	}
}

static void append_requests(bson_t *out, const struct rule_set *rules)
{
	struct list list = {.count = 0};

	bson_append_array_begin(out, "requests", -1, &list.array);
	append_requests_of(&list, NULL);
	for (size_t i = 0; i < rule_set_count(rules); i++)
		append_requests_of(&list, rule_set_at(rules, i));
	bson_append_array_end(out, &list.array);
}

static void append_namespace(bson_t *row, const struct status *status,
			     const struct target_view *view)
{
	static const char *const words[] = {
		[FITNESS_UNKNOWN] = "unknown", [FITNESS_FIT] = "holds", [FITNESS_UNFIT] = "unfit"};
	auto_free char *name = bson_strdup_printf("%s.%s", view->database, view->collection);
	char reason[sizeof(view->reason) + sizeof(STATUS_HIDDEN)];

	append_text(row, "namespace", name);
	append_text(row, "rule", view->rule->name);
	BSON_APPEND_UTF8(row, "state", words[view->fitness]);
	status_reason(status, view, reason, sizeof(reason));
	append_text(row, "reason", reason);
	BSON_APPEND_INT64(row, "outliers", view->outliers);
	BSON_APPEND_INT64(row, "elements", view->elements);
}

static void append_namespaces(bson_t *out, const struct status *status)
{
	struct list list = {.count = 0};
	struct target_view view;

	BSON_APPEND_INT64(out, "namespacesMet", (int64_t)mover_view_count(status->mover));
	bson_append_array_begin(out, "namespaces", -1, &list.array);
	for (size_t i = 0; i < NAMESPACES_MOST && mover_view(status->mover, i, &view); i++) {
		append_namespace(list_begin(&list), status, &view);
		list_end(&list);
		target_view_fini(&view);
	}
	bson_append_array_end(out, &list.array);
}

static void append_slow(void *context, const struct slowest_entry *entry)
{
	bson_t *row = list_begin(context);

	BSON_APPEND_INT64(row, "millis", entry->milliseconds);
	append_text(row, "command", entry->command);
	append_text(row, "namespace", entry->namespace);
	append_text(row, "rule", entry->rule);
	BSON_APPEND_INT64(row, "secondsAgo", (clock_now() - entry->at) / 1000);
	list_end(context);
}

static void append_client(void *context, const struct client_view *view)
{
	bson_t *row = list_begin(context);

	BSON_APPEND_UTF8(row, "appName", view->application);
	BSON_APPEND_UTF8(row, "driver", view->driver);
	BSON_APPEND_UTF8(row, "host", view->host);
	BSON_APPEND_INT64(row, "connections", view->connections);
	list_end(context);
}

void status_now(struct buffer *out, const struct status *status)
{
	bson_t *now = bson_new();
	struct list slow = {.count = 0}, clients = {.count = 0};
	char *text;

	append_head(now, status);
	append_listeners(now, status);
	append_figures(now);
	append_requests(now, status->config->rules);
	append_namespaces(now, status);
	bson_append_array_begin(now, "slowest", -1, &slow.array);
	slowest_each(append_slow, &slow);
	bson_append_array_end(now, &slow.array);
	bson_append_array_begin(now, "clients", -1, &clients.array);
	clients_each(append_client, &clients);
	bson_append_array_end(now, &clients.array);
	text = bson_as_relaxed_extended_json(now, NULL);
	text_append(out, "%s\n", text ? text : "{}");
	bson_free(text);
	bson_destroy(now);
}
