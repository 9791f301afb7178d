/* The status page: plain HTML, readable on a phone. */
#include "proxy/admin/status.h"

#include "proxy/admin/suggestions.h"
#include "proxy/base/json_text.h"
#include "proxy/base/markup.h"
#include "proxy/base/metrics.h"
#include "proxy/upstream/target.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

#define TARGETS_SHOWN 200

static const char style[] =
	"body { font: 16px/1.4 sans-serif; margin: 1em auto; max-width: 52em; padding: 0 .8em; "
	"color: #222; background: #fff }"
	"h1 { font-size: 1.5em; margin: 0 } h2 { font-size: 1.1em; margin: 1.4em 0 .3em }"
	"table { border-collapse: collapse; width: 100% }"
	"th, td { text-align: left; padding: .25em .5em .25em 0; border-bottom: 1px solid #ddd; "
	"vertical-align: top; overflow-wrap: anywhere }"
	"td:first-child { min-width: 7em } th { overflow-wrap: normal } "
	"td.n, th.n { text-align: right } td.n { white-space: nowrap; overflow-wrap: normal } "
	"pre { overflow: auto } .bad { color: #a40000; font-weight: bold } .good { color: #2a7a2a }"
	"@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } "
	"th, td { border-color: #444 } .bad { color: #ff8080 } .good { color: #7fd07f } "
	"a { color: #8cb4ff } }";

static const char head[] =
	"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
	"<meta http-equiv=\"refresh\" content=\"10\"><title>Spillway</title><style>";

char *status_page_policy(void)
{
	unsigned char digest[EVP_MAX_MD_SIZE], base64[2 * EVP_MAX_MD_SIZE];
	unsigned length = 0;

	require(EVP_Digest(style, strlen(style), digest, &length, EVP_sha256(), NULL) == 1);
	EVP_EncodeBlock(base64, digest, (int)length);
	return bson_strdup_printf("default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; "
				  "form-action 'none'; frame-ancestors 'none'",
				  (const char *)base64);
}

static void row(struct buffer *out, const char *what, int64_t value)
{
	text_append(out, "<tr><td>%s</td><td class=\"n\">%" PRId64 "</td></tr>\n", what, value);
}

static void row_milliseconds(struct buffer *out, const char *what, double microseconds)
{
	text_append(out, "<tr><td>%s</td><td class=\"n\">%.3f ms</td></tr>\n", what,
		    microseconds / 1000);
}

static void open_table(struct buffer *out, const char *title)
{
	text_append(out, "<h2>%s</h2>\n<table>\n", title);
}

static void close_table(struct buffer *out)
{
	text_append(out, "</table>\n");
}

bool status_ready(const struct status *status)
{
	return atomic_load(status->paused) == 0 && mover_serves(status->mover);
}

void status_not_ready(const struct status *status, char *reason, size_t size)
{
	if (atomic_load(status->paused) == 0)
		mover_not_ready(status->mover, reason, size);
	else
		snprintf(reason, size,
			 "accepting is paused: descriptors are used up; raise the limit of open "
			 "files");
}

static void show_head(struct buffer *out, const struct status *status)
{
	int64_t seconds = (bson_get_monotonic_time() - status->started) / 1000000;
	char reason[1024];

	text_append(out,
		    "%s%s</style></head><body>\n<h1>Spillway</h1>\n<p>" SPILLWAY_VERSION
		    ", up for ",
		    head, style);
	if (seconds >= 86400)
		text_append(out, "%" PRId64 " d ", seconds / 86400);
	text_append(out, "%" PRId64 " h %" PRId64 " min %" PRId64 " s; ", seconds / 3600 % 24,
		    seconds / 60 % 60, seconds % 60);
	if (status_ready(status)) {
		text_append(out, "<span class=\"good\">ready</span>");
		if (mover_lacks(status->mover, reason, sizeof(reason))) {
			text_append(out, ", but <span class=\"bad\">");
			markup_text(out, reason);
			text_append(out, "</span>");
		}
		text_append(out, "</p>\n");
		return;
	}
	status_not_ready(status, reason, sizeof(reason));
	text_append(out, "<span class=\"bad\">not ready: ");
	markup_text(out, reason);
	text_append(out, "</span></p>\n");
}

static const char *fitness_text(enum fitness fitness)
{
	switch (fitness) {
	case FITNESS_FIT:
		return "<span class=\"good\">holds</span>";
	case FITNESS_UNFIT:
		return "<span class=\"bad\">can't hold: </span>";
	case FITNESS_UNKNOWN:
		break;
	}
	return "not looked at yet";
}

static void show_target(struct buffer *out, const struct status *status,
			const struct target_view *view)
{
	char reason[sizeof(view->reason) + sizeof(STATUS_HIDDEN)];

	status_reason(status, view, reason, sizeof(reason));
	text_append(out, "<tr><td>");
	markup_text(out, view->rule->name);
	text_append(out, "<br>");
	markup_text(out, view->database);
	text_append(out, ".");
	markup_text(out, view->collection);
	text_append(out, ": ");
	markup_text(out, view->rule->array);
	text_append(out, " beyond %" PRId64 " to ", view->rule->threshold);
	markup_text(out, view->overflow_collection);
	text_append(out, "<br>%s", fitness_text(view->fitness));
	markup_text(out, reason);
	if (mover_pauses(status->mover, view->rule))
		text_append(out, " <span class=\"bad\">paused</span>");
	text_append(out,
		    "</td><td class=\"n\">%" PRId64 "</td><td class=\"n\">%" PRId64 "</td></tr>\n",
		    view->outliers, view->elements);
}

static void show_rest(struct buffer *out, const struct status *status, size_t shown)
{
	size_t count = mover_view_count(status->mover);

	if (count > shown)
		text_append(
			out,
			"<p>&hellip; and %zu more namespaces; <a href=\"/rules\">/rules</a> has "
			"all of them.</p>\n",
			count - shown);
}

static void show_rules(struct buffer *out, const struct status *status)
{
	struct target_view view;
	size_t shown = 0;

	open_table(out, "Rules (<a href=\"/rules\">JSON</a>)");
	text_append(out, "<tr><th>rule, namespace</th><th class=\"n\">became outliers</th>"
			 "<th class=\"n\">elements spilled</th></tr>\n");
	for (; shown < TARGETS_SHOWN && mover_view(status->mover, shown, &view); shown++) {
		show_target(out, status, &view);
		target_view_fini(&view);
	}
	if (shown == 0)
		text_append(out, "<tr><td>none has met a namespace yet</td></tr>\n");
	close_table(out);
	show_rest(out, status, shown);
	text_append(out, "<p>All figures count from the start of this Spillway.</p>\n");
}

static void show_long(struct buffer *out, const struct status *status,
		      const struct target_view *view, const struct target_long *entry)
{
	struct element id = {.type = entry->id_type, .value = {entry->id, entry->id_length}};
	char *text = status->hidden ? NULL : json_value_text("_id", &id);

	text_append(out, "<tr><td>");
	markup_text(out, view->rule->name);
	text_append(out, "</td><td>");
	markup_text(out, text ? text : STATUS_HIDDEN);
	text_append(out, "</td><td class=\"n\">%" PRId64 "</td></tr>\n", entry->elements);
	bson_free(text);
}

static void show_longest(struct buffer *out, const struct status *status)
{
	struct target_view view;
	size_t shown = 0;

	open_table(out, "Biggest documents seen");
	text_append(out, "<tr><th>rule</th><th>document</th><th class=\"n\">elements</th></tr>\n");
	for (; shown < TARGETS_SHOWN && mover_view(status->mover, shown, &view); shown++) {
		for (size_t l = 0; l < TARGET_LONG_COUNT; l++) {
			if (view.longest[l].id)
				show_long(out, status, &view, &view.longest[l]);
		}
		target_view_fini(&view);
	}
	close_table(out);
	show_rest(out, status, shown);
}

static void show_mover(struct buffer *out, const struct metrics *sum)
{
	open_table(out, "Mover");
	row(out, "documents waiting", sum->mover_queue);
	row_milliseconds(out, "lag of the last one moved", (double)sum->mover_lag_microseconds);
	row(out, "rounds that moved elements", sum->spills);
	row(out, "rounds tried again after an error", sum->move_errors);
	row(out, "documents left alone", sum->documents_left_alone);
	row(out, "notes dropped", sum->notes_dropped);
	row(out, "sweeps", sum->sweeps);
	close_table(out);
}

static void show_merges(struct buffer *out, const struct metrics *sum)
{
	int64_t fetches = sum->overflow_fetches;

	open_table(out, "Reads");
	row(out, "documents put together", sum->merged_documents);
	row(out, "overflow queries", fetches);
	row_milliseconds(out, "an overflow query took, on average",
			 fetches ? (double)sum->overflow_fetch_microseconds / (double)fetches : 0);
	row(out, "reads repeated", sum->merge_repeats);
	close_table(out);
}

static void show_traffic(struct buffer *out, const struct metrics *sum)
{
	open_table(out, "Traffic (<a href=\"/metrics\">all metrics</a>)");
	row(out, "connections now", sum->connections_accepted - sum->connections_closed);
	row(out, "connections accepted", sum->connections_accepted);
	row(out, "connections refused", sum->connections_refused);
	row(out, "connections closed: they speak TLS", sum->connections_tls);
	row(out, "connections closed: no MongoDB client's bytes", sum->connections_strange);
	row(out, "server connections lost", sum->upstream_failures);
	row(out, "requests passed on", sum->commands_forwarded);
	row(out, "requests on ruled namespaces", sum->commands_sequenced);
	row(out, "requests refused", sum->commands_refused);
	close_table(out);
}

static void show_refusal(void *context, const char *rule, const char *what, int64_t count)
{
	struct buffer *out = context;

	text_append(out, "<tr><td>");
	markup_text(out, rule);
	text_append(out, "</td><td>");
	markup_text(out, what);
	text_append(out, "</td><td class=\"n\">%" PRId64 "</td></tr>\n", count);
}

void status_page(struct buffer *out, const struct status *status)
{
	struct metrics sum;

	metrics_sum(&sum);
	show_head(out, status);
	show_rules(out, status);
	status_show_suggestions(out, status);
	show_longest(out, status);
	show_mover(out, &sum);
	show_merges(out, &sum);
	open_table(out, "Refusals");
	text_append(out, "<tr><th>rule</th><th>operator</th><th class=\"n\">times</th></tr>\n");
	metrics_each_refusal(show_refusal, out);
	close_table(out);
	show_traffic(out, &sum);
	text_append(out, "</body></html>\n");
}
