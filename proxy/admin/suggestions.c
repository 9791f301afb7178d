/* What was observed of arrays without a rule. */
#include "proxy/admin/suggestions.h"

#include "proxy/base/json_text.h"
#include "proxy/base/markup.h"
#include "proxy/base/rule_text.h"
#include "proxy/observe/observer.h"
#include "rules/rule/text.h"

#include <inttypes.h>
#include <string.h>

#define MILLION 1000000
#define SHOWN_MOST 10
#define GROWN_SHOWN 5
#define GROWN_LEAST 100 /* elements that one document got, by the sample */
#define THRESHOLD 1000  /* of a suggestion: `analyze` finds a better one */

/* What the sample says of all commands. */
static int64_t of_all(const struct status *status, int64_t seen)
{
	return (int64_t)((double)seen * MILLION / (double)status->config->observe_sample);
}

/* One push of the sample is no evidence, however many it stands for. */
static bool is_outlier(const struct status *status, const struct sketch_array *array)
{
	int64_t most = sketch_grown(array, 0);

	return most > 1 && of_all(status, most) >= GROWN_LEAST;
}

static int64_t element_bytes(const struct sketch_array *array)
{
	return array->elements > 0 ? array->bytes / array->elements : 0;
}

/* A text that ends with NUL; empty if there is no rule to suggest. */
static void suggest_rule(struct buffer *rule, const struct status *status,
			 const struct sketch_array *array)
{
	if (is_outlier(status, array) && rule_text_can_name(array->namespace))
		rule_text_write(rule, array->namespace, array->array, THRESHOLD);
	buffer_append(rule, "", 1);
}

static void write_array(struct buffer *out, const char *name, const struct status *status,
			const struct sketch_array *array)
{
	size_t document = writer_open_document(out, name), list;
	auto_buffer struct buffer rule = {0};
	char index[12];

	json_write_text(out, "namespace", array->namespace);
	json_write_text(out, "array", array->array);
	writer_int64(out, "pushes", array->pushes);
	writer_int64(out, "elements", array->elements);
	writer_int64(out, "element_bytes", element_bytes(array));
	list = writer_open_array(out, "grown");
	for (size_t i = 0; i < GROWN_SHOWN && sketch_grown(array, i) > 0; i++)
		writer_int64(out, writer_index(index, i), sketch_grown(array, i));
	writer_close(out, list);
	suggest_rule(&rule, status, array);
	if (rule.length > 1)
		json_write_text(out, "rule", (const char *)rule.data);
	writer_close(out, document);
}

static void write_arrays(struct buffer *out, const struct status *status,
			 const struct sketch *sketch)
{
	size_t array = writer_open_array(out, "arrays");
	char name[12];

	for (size_t i = 0; i < SHOWN_MOST && sketch->arrays[i].namespace; i++)
		write_array(out, writer_index(name, i), status, &sketch->arrays[i]);
	writer_close(out, array);
}

/* Freed by sketch_fini and free. */
static struct sketch *collect(const struct status *status)
{
	struct sketch *sketch = must_calloc(1, sizeof(*sketch));

	if (status->observers)
		observers_collect(status->observers, sketch);
	sketch_sort(sketch);
	return sketch;
}

void status_suggestions(struct buffer *out, const struct status *status)
{
	auto_buffer struct buffer document = {0};
	auto_free struct sketch *sketch = collect(status);
	size_t start = writer_open(&document);

	writer_double(&document, "sample", (double)status->config->observe_sample / MILLION);
	writer_int64(&document, "seconds",
		     status->observers ? observers_seconds(status->observers) : 0);
	write_arrays(&document, status, sketch);
	writer_close(&document, start);
	sketch_fini(sketch);
	json_append(out, buffer_view(&document));
}

static void show_array(struct buffer *out, const struct status *status,
		       const struct sketch_array *array)
{
	text_append(out, "<tr><td>");
	markup_text(out, array->namespace);
	text_append(out, ": ");
	markup_text(out, array->array);
	text_append(out,
		    "</td><td class=\"n\">%" PRId64 "</td><td class=\"n\">%" PRId64
		    "</td><td class=\"n\">%" PRId64 "</td></tr>\n",
		    of_all(status, array->elements), of_all(status, sketch_grown(array, 0)),
		    element_bytes(array));
}

/* `text` is cut into its lines. */
static void show_lines(struct buffer *out, char *text)
{
	for (char *end; (end = strchr(text, '\n')); text = end + 1) {
		*end = '\0';
		markup_text(out, text);
		text_append(out, "\n");
	}
}

static void show_rules(struct buffer *out, const struct status *status, const struct sketch *sketch)
{
	text_append(out, "<p>Rules to paste; <code>spillway analyze</code> finds the threshold "
			 "that fits:</p>\n<pre>");
	for (size_t i = 0; i < SHOWN_MOST && sketch->arrays[i].namespace; i++) {
		auto_buffer struct buffer rule = {0};

		suggest_rule(&rule, status, &sketch->arrays[i]);
		show_lines(out, (char *)rule.data);
	}
	text_append(out, "</pre>\n");
}

void status_show_suggestions(struct buffer *out, const struct status *status)
{
	auto_free struct sketch *sketch = collect(status);

	if (status->observers) {
		text_append(out,
			    "<h2>Growing arrays without a rule</h2>\n<table>\n<tr><th>array</th>"
			    "<th class=\"n\">elements pushed</th>"
			    "<th class=\"n\">to one document</th>"
			    "<th class=\"n\">bytes each</th></tr>\n");
		for (size_t i = 0; i < SHOWN_MOST && sketch->arrays[i].namespace; i++)
			show_array(out, status, &sketch->arrays[i]);
		text_append(out,
			    "</table>\n<p>Estimated from a sample, of %" PRId64
			    " s. <a href=\"/suggestions\">As JSON</a></p>\n",
			    observers_seconds(status->observers));
		show_rules(out, status, sketch);
	}
	sketch_fini(sketch);
}
