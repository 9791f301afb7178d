/* Writes tables of what /status has answered. */
#include "proxy/inspect/screen.h"

#include "rules/rule/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MEGABYTE (1024.0 * 1024)
#define SORTED_MOST 512

/* ---- Fields. */

static int64_t number(const bson_t *document, const char *path)
{
	bson_iter_t iter, field;

	return document && bson_iter_init(&iter, document) &&
			       bson_iter_find_descendant(&iter, path, &field)
		       ? bson_iter_as_int64(&field)
		       : 0;
}

static const char *text(const bson_t *document, const char *name)
{
	bson_iter_t field;

	return bson_iter_init_find(&field, document, name) && BSON_ITER_HOLDS_UTF8(&field)
		       ? bson_iter_utf8(&field, NULL)
		       : "";
}

/* What a client, a file or a server has named, as a terminal may show it. */
static void append_plain(struct buffer *out, int width, const char *name)
{
	auto_free char *plain = text_plain(name);

	text_append(out, "%-*.*s ", width, width, plain);
}

/* The documents of an array in turn. */
struct rows {
	bson_t row;
	bson_iter_t iter;
	bool there;
};

static void rows_begin(struct rows *rows, const bson_t *document, const char *name)
{
	bson_iter_t array;

	rows->there = document && bson_iter_init_find(&array, document, name) &&
		      bson_iter_recurse(&array, &rows->iter);
}

static const bson_t *rows_next(struct rows *rows)
{
	const uint8_t *data;
	uint32_t length;

	if (!rows->there || !bson_iter_next(&rows->iter) || !BSON_ITER_HOLDS_DOCUMENT(&rows->iter))
		return NULL;
	bson_iter_document(&rows->iter, &length, &data);
	return bson_init_static(&rows->row, data, length) ? &rows->row : NULL;
}

/* What has come since the answer before, a second; or all. */
static double rate(const struct screen *screen, int64_t now, int64_t before)
{
	return screen->before && screen->seconds > 0 ? (double)(now - before) / screen->seconds
						     : (double)now;
}

static double rate_of(const struct screen *screen, const char *path)
{
	return rate(screen, number(screen->now, path), number(screen->before, path));
}

static const char *per(const struct screen *screen)
{
	return screen->before ? "/s" : "";
}

/* ---- Parts. */

static void print_head(const struct screen *screen, struct buffer *out)
{
	const bson_t *now = screen->now;
	int64_t up = number(now, "uptimeSeconds");
	bool ready = number(now, "ready");
	const char *why = text(now, ready ? "lacking" : "reason");
	auto_free char *plain = text_plain(why), *file = text_plain(text(now, "file"));

	text_append(out,
		    "Spillway %s, pid %" PRId64 ", up %" PRId64 " d %" PRId64 " h %" PRId64
		    " min %" PRId64 " s: %s%s%s\n",
		    text(now, "version"), number(now, "pid"), up / 86400, up / 3600 % 24,
		    up / 60 % 60, up % 60, ready ? "ready" : "not ready",
		    *why ? (ready ? ", but " : ": ") : "", plain);
	text_append(out, "file         %s\n", file);
}

static void print_listeners(const struct screen *screen, struct buffer *out)
{
	struct rows rows;
	const bson_t *row;
	int count = 0;

	rows_begin(&rows, screen->now, "listeners");
	while ((row = rows_next(&rows)))
		if (count++ < screen->rows)
			text_append(out, "listener     %s for server %s\n", text(row, "address"),
				    text(row, "server"));
	if (count > screen->rows)
		text_append(out, "  and %d more\n", count - screen->rows);
}

static void print_figures(const struct screen *screen, struct buffer *out)
{
	const bson_t *now = screen->now;
	const char *each = per(screen);

	text_append(out,
		    "connections  %" PRId64 " open, %.0f%s accepted, %.0f%s refused\n"
		    "requests     %.0f%s forwarded, %.0f%s on ruled arrays, %.0f%s refused\n",
		    number(now, "metrics.connections_open"),
		    rate_of(screen, "metrics.connections_accepted"), each,
		    rate_of(screen, "metrics.connections_refused"), each,
		    rate_of(screen, "metrics.commands_forwarded"), each,
		    rate_of(screen, "metrics.commands_sequenced"), each,
		    rate_of(screen, "metrics.commands_refused"), each);
	text_append(out,
		    "mover        %" PRId64 " documents wait, lag %.1f ms; %.0f%s rounds, %.0f%s "
		    "elements moved, %.0f%s errors\n",
		    number(now, "metrics.mover_queue"),
		    (double)number(now, "metrics.mover_lag_microseconds") / 1000,
		    rate_of(screen, "metrics.spills"), each,
		    rate_of(screen, "metrics.moved_elements"), each,
		    rate_of(screen, "metrics.move_errors"), each);
	text_append(out, "process      %.1f MB, %" PRId64 " of %" PRId64 " descriptors, ",
		    (double)number(now, "process.residentBytes") / MEGABYTE,
		    number(now, "process.descriptors"), number(now, "process.descriptorsMost"));
	if (screen->before)
		text_append(out, "%.0f %% of a processor\n",
			    rate_of(screen, "process.cpuMillis") / 10);
	else
		text_append(out, "%.1f s of processor time\n",
			    (double)number(now, "process.cpuMillis") / 1000);
}

/* A line of a table that is sorted. */
struct line {
	double value;
	char *text;
};

struct table {
	struct line lines[SORTED_MOST];
	size_t count;
	size_t more; /* that are not among the lines */
};

static void table_add(struct table *table, double value, struct buffer *line)
{
	if (table->count < SORTED_MOST) {
		table->lines[table->count++] = (struct line){value, text_steal(line)};
	} else {
		table->more++;
		buffer_fini(line);
	}
}

static int compare_lines(const void *one, const void *other)
{
	double a = ((const struct line *)one)->value, b = ((const struct line *)other)->value;

	return (a < b) - (a > b);
}

/* The greatest values first; nothing without lines. */
static void table_print(struct table *table, const struct screen *screen, const char *heading,
			struct buffer *out)
{
	qsort(table->lines, table->count, sizeof(table->lines[0]), compare_lines);
	if (table->count > 0)
		text_append(out, "\n%s\n", heading);
	for (size_t i = 0; i < table->count; i++) {
		if (i < (size_t)screen->rows)
			text_append(out, "%s\n", table->lines[i].text);
		free(table->lines[i].text);
	}
	if (table->count + table->more > (size_t)screen->rows)
		text_append(out, "  and %zu more\n",
			    table->count + table->more - (size_t)screen->rows);
	free(table);
}

/* The same row of the answer before; NULL: there is none. */
static const bson_t *row_before(struct rows *rows, const bson_t *before, const char *list,
				const bson_t *row, const char *other_key)
{
	const bson_t *old;

	rows_begin(rows, before, list);
	while ((old = rows_next(rows)))
		if (strcmp(text(old, "rule"), text(row, "rule")) == 0 &&
		    strcmp(text(old, other_key), text(row, other_key)) == 0)
			return old;
	return NULL;
}

static void print_requests(const struct screen *screen, struct buffer *out)
{
	struct table *table = must_calloc(1, sizeof(*table));
	struct rows rows, old_rows;
	const bson_t *row;

	rows_begin(&rows, screen->now, "requests");
	while ((row = rows_next(&rows))) {
		const bson_t *old =
			row_before(&old_rows, screen->before, "requests", row, "verdict");
		int64_t count = number(row, "count") - number(old, "count");
		int64_t micros = number(row, "micros") - number(old, "micros");
		double some = rate(screen, number(row, "count"), number(old, "count"));
		struct buffer line = {0};

		append_plain(&line, 10, text(row, "verdict"));
		append_plain(&line, 32, *text(row, "rule") ? text(row, "rule") : "-");
		text_append(&line, "%10.0f %10.1f", some,
			    count > 0 ? (double)micros / 1000 / (double)count : 0);
		table_add(table, some, &line);
	}
	table_print(table, screen,
		    screen->before
			    ? "VERDICT    RULE                               A SECOND    MEAN MS"
			    : "VERDICT    RULE                                  COUNT    MEAN MS",
		    out);
}

static void print_namespaces(const struct screen *screen, struct buffer *out)
{
	struct table *table = must_calloc(1, sizeof(*table));
	struct rows rows, old_rows;
	const bson_t *row;

	rows_begin(&rows, screen->now, "namespaces");
	while ((row = rows_next(&rows))) {
		const bson_t *old =
			row_before(&old_rows, screen->before, "namespaces", row, "namespace");
		double moved = rate(screen, number(row, "elements"), number(old, "elements"));
		bool unfit = strcmp(text(row, "state"), "unfit") == 0;
		struct buffer line = {0};

		append_plain(&line, 32, text(row, "namespace"));
		append_plain(&line, 20, text(row, "rule"));
		append_plain(&line, 8, text(row, "state"));
		text_append(&line, "%10" PRId64 " %12.0f", number(row, "outliers"), moved);
		table_add(table, unfit ? 1e18 : moved, &line);
	}
	/* The answer has only so many. */
	if (number(screen->now, "namespacesMet") > (int64_t)(table->count + table->more))
		table->more = (size_t)number(screen->now, "namespacesMet") - table->count;
	table_print(table, screen,
		    screen->before ? "NAMESPACE                        RULE                 STATE "
				     "     OUTLIERS    SPILLED/S"
				   : "NAMESPACE                        RULE                 STATE "
				     "     OUTLIERS      SPILLED",
		    out);
}

static void print_slowest(const struct screen *screen, struct buffer *out)
{
	struct table *table = must_calloc(1, sizeof(*table));
	struct rows rows;
	const bson_t *row;

	rows_begin(&rows, screen->now, "slowest");
	while ((row = rows_next(&rows))) {
		struct buffer line = {0};

		text_append(&line, "%8" PRId64 "  ", number(row, "millis"));
		append_plain(&line, 14, text(row, "command"));
		append_plain(&line, 32, text(row, "namespace"));
		append_plain(&line, 14, text(row, "rule"));
		text_append(&line, "%4" PRId64 " s ago", number(row, "secondsAgo"));
		table_add(table, (double)number(row, "millis"), &line);
	}
	table_print(table, screen,
		    " SLOW MS  COMMAND        NAMESPACE                        RULE           WHEN",
		    out);
}

static void print_clients(const struct screen *screen, struct buffer *out)
{
	struct table *table = must_calloc(1, sizeof(*table));
	struct rows rows;
	const bson_t *row;

	rows_begin(&rows, screen->now, "clients");
	while ((row = rows_next(&rows))) {
		struct buffer line = {0};

		text_append(&line, "%11" PRId64 "  ", number(row, "connections"));
		append_plain(&line, 20, *text(row, "appName") ? text(row, "appName") : "-");
		append_plain(&line, 24, *text(row, "driver") ? text(row, "driver") : "-");
		text_append(&line, "%s", text(row, "host"));
		table_add(table, (double)number(row, "connections"), &line);
	}
	table_print(table, screen,
		    "CONNECTIONS  APPNAME              DRIVER                   HOST", out);
}

void screen_print(const struct screen *screen, struct buffer *out)
{
	print_head(screen, out);
	print_listeners(screen, out);
	print_figures(screen, out);
	print_requests(screen, out);
	print_namespaces(screen, out);
	print_slowest(screen, out);
	print_clients(screen, out);
}
