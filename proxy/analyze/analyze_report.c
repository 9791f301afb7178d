/* What `spillway analyze` found, as text for people and as JSON for programs. */
#include "proxy/analyze/analyze_report.h"

#include "proxy/base/json_text.h"
#include "proxy/base/rule_text.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BAR_WIDTH 44
#define TEXT_MAX 40

static const struct {
	const char *name;
	double share;
} percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

void analyze_report_fini(struct analyze_report *report)
{
	for (size_t i = 0; i < report->array_count; i++) {
		free(report->arrays[i].path);
		distribution_fini(&report->arrays[i].distribution);
	}
	free(report->arrays);
	free(report->namespace);
	*report = (struct analyze_report){0};
}

bool report_is_sample(const struct analyze_report *report)
{
	return report->looked_at < report->documents;
}

/* 1,204,330 */
static const char *number(char text[TEXT_MAX], int64_t value)
{
	char digits[24];
	int count = snprintf(digits, sizeof(digits), "%lld", (long long)value), at = 0;

	for (int i = 0; i < count; i++) {
		if (i > 0 && (count - i) % 3 == 0 && digits[i - 1] != '-')
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = '\0';
	return text;
}

static const char *size(char text[TEXT_MAX], int64_t bytes)
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < ARRAY_LENGTH(units)) {
		value /= 1024;
		unit++;
	}
	snprintf(text, TEXT_MAX, value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value,
		 units[unit]);
	return text;
}

static double percent(int64_t part, int64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void text_head(struct buffer *out, const struct analyze_report *report)
{
	char one[TEXT_MAX], two[TEXT_MAX], three[TEXT_MAX];
	auto_free char *namespace = text_plain(report->namespace);

	text_append(out, "%s: %s document%s", namespace, number(one, report->documents),
		    report->documents == 1 ? "" : "s");
	if (report_is_sample(report))
		text_append(out, "; looked at %s of them, drawn at random,",
			    number(two, report->looked_at));
	else
		text_append(out, "; looked at all of them");
	text_append(out, " in %.1f s\n", report->seconds);
	if (report->array_count > 0)
		text_append(out, "%s in all%s, the largest document %s\n", size(one, report->bytes),
			    report_is_sample(report) ? " looked at" : "",
			    size(two, report->largest));
	if (report->spilled > 0)
		text_append(out,
			    "%s documents are already split by Spillway: ask through its address "
			    "to see whole arrays\n",
			    number(three, report->spilled));
	if (report->array_count == 0)
		text_append(out, "no array was found in it%s\n",
			    report->documents == 0 ? ": it is empty, or there is none of this name"
						   : "");
	if (report->searched && report->array_count > 0)
		text_append(out, "arrays were looked for in 1,000 documents; name one to look at "
				 "it alone\n");
	if (report->left_out > 0)
		text_append(out, "%zu more arrays were found and left out\n", report->left_out);
}

static void text_lengths(struct buffer *out, const struct analyze_report *report,
			 const struct distribution *distribution)
{
	char text[TEXT_MAX], low[TEXT_MAX], high[TEXT_MAX];

	text_append(out, "  elements:");
	for (size_t i = 0; i < ARRAY_LENGTH(percentiles); i++) {
		double share = percentiles[i].share;
		struct interval interval = percentile_interval(distribution, share);

		text_append(out, "  %s %s", percentiles[i].name,
			    number(text, distribution_percentile(distribution, share)));
		if (report_is_sample(report) && isinf(interval.high))
			text_append(out, " (%s or more)", number(low, (int64_t)interval.low));
		else if (report_is_sample(report) && interval.low < interval.high)
			text_append(out, " (%s-%s)", number(low, (int64_t)interval.low),
				    number(high, (int64_t)interval.high));
	}
	text_append(out, "  max %s\n", number(text, distribution_longest(distribution)));
	text_append(out, "  bytes, at most:");
	for (size_t i = 0; i < ARRAY_LENGTH(percentiles); i++)
		text_append(out, "  %s %s", percentiles[i].name,
			    size(text, distribution_bytes_percentile(distribution,
								     percentiles[i].share)));
	text_append(out, "  max %s\n", size(text, distribution->largest));
}

static void text_candidates(struct buffer *out, const struct analyze_report *report,
			    const struct distribution *distribution)
{
	char documents[TEXT_MAX], threshold[TEXT_MAX];

	if (distribution_above(distribution, advice_candidates[0]).documents == 0 &&
	    !report_is_sample(report))
		return;
	text_append(out, "  threshold  documents above           %s elements beyond it\n",
		    report_is_sample(report) ? "       (19 of 20)  " : "");
	for (const int64_t *each = advice_candidates; *each; each++) {
		struct above above = distribution_above(distribution, *each);
		struct interval interval =
			share_interval(above.documents, distribution_documents(distribution));

		if (above.documents == 0 && !report_is_sample(report))
			break;
		text_append(out, "  %9s  %15s  %7.3f%%", number(threshold, *each),
			    number(documents, above.documents),
			    percent(above.documents, distribution_documents(distribution)));
		if (report_is_sample(report))
			text_append(out, "  (%.3f%%-%.3f%%)", 100 * interval.low,
				    100 * interval.high);
		text_append(out, "  %8.1f%%\n", percent(above.elements, distribution->elements));
		if (above.documents == 0)
			break; /* the error of a sample that has none beyond it was told */
	}
}

static void text_histogram(struct buffer *out, const struct distribution *distribution)
{
	struct histogram_bar bars[HISTOGRAM_BARS_MAX];
	size_t count = distribution_histogram(distribution, bars);
	char range[2 * TEXT_MAX + 2], first[TEXT_MAX], last[TEXT_MAX];
	int64_t most = 0;

	for (size_t i = 0; i < count; i++)
		most = bars[i].documents > most ? bars[i].documents : most;
	text_append(out, "  %-17s  documents (each # the same factor)\n", "elements");
	for (size_t i = 0; i < count; i++) {
		int width = (int)lround(BAR_WIDTH * log1p((double)bars[i].documents) /
					log1p((double)most));

		if (bars[i].first == bars[i].last)
			snprintf(range, sizeof(range), "%s", number(first, bars[i].first));
		else
			snprintf(range, sizeof(range), "%s-%s", number(first, bars[i].first),
				 number(last, bars[i].last));
		text_append(out, "  %17s  %12s |", range, number(first, bars[i].documents));
		for (int mark = 0; mark < width; mark++)
			text_append(out, "#");
		text_append(out, "\n");
	}
}

static void text_open(struct buffer *out, const struct advice *advice)
{
	if (advice->outliers.found == 0)
		text_append(out,
			    "  no outliers in the sample; up to %.3f%% of the documents may be "
			    "some\n",
			    100 * advice->outliers.between.high);
	else
		text_append(out,
			    "  %lld outliers in the sample; %.3f%% to %.3f%% of the documents may "
			    "be some\n",
			    (long long)advice->outliers.found, 100 * advice->outliers.between.low,
			    100 * advice->outliers.between.high);
}

static void text_advice(struct buffer *out, const struct report_array *array)
{
	const struct distribution *distribution = &array->distribution;
	const struct advice *advice = &array->advice;
	char threshold[TEXT_MAX], documents[TEXT_MAX];

	if (advice->verdict == VERDICT_OPEN)
		text_open(out, advice);
	text_append(out, "  %s\n", advice_sentence(advice->verdict));
	if (!advice_pays(advice->verdict))
		return;
	if (advice->verdict == VERDICT_FAT)
		text_append(out,
			    "  suggestion: max_bytes: 1MB (%s outliers, %.2f%% of the documents), "
			    "as it "
			    "is unasked; any threshold that no array passes\n",
			    number(documents, advice->above.documents),
			    percent(advice->above.documents, distribution_documents(distribution)));
	else
		text_append(out,
			    "  suggestion: threshold: %s (%s outliers, %.2f%% of the documents; "
			    "%.0f%% of "
			    "the elements would move)\n",
			    number(threshold, advice->threshold),
			    number(documents, advice->above.documents),
			    percent(advice->above.documents, distribution_documents(distribution)),
			    percent(advice->above.elements, distribution->elements));
	text_append(out, "  but not where every read wants the whole array: the data can't tell "
			 "that, the application's authors can\n");
}

static void text_array(struct buffer *out, const struct analyze_report *report,
		       const struct report_array *array)
{
	const struct distribution *distribution = &array->distribution;
	char one[TEXT_MAX], two[TEXT_MAX], three[TEXT_MAX];
	auto_free char *path = text_plain(array->path);

	text_append(out,
		    "\narray '%s': in %s documents (missing in %s, something else in %s); %.0f%% "
		    "of all bytes\n",
		    path, number(one, distribution->arrays), number(two, distribution->missing),
		    number(three, distribution->other),
		    percent(distribution->bytes, report->bytes));
	if (distribution->arrays > 0) {
		text_lengths(out, report, distribution);
		text_candidates(out, report, distribution);
		text_histogram(out, distribution);
	}
	text_advice(out, array);
}

void analyze_report_text(struct buffer *out, const struct analyze_report *report)
{
	text_head(out, report);
	for (size_t i = 0; i < report->array_count; i++)
		text_array(out, report, &report->arrays[i]);
}

static void json_interval(struct buffer *out, const char *name, struct interval interval)
{
	size_t array = writer_open_array(out, name);

	writer_double(out, "0", interval.low);
	if (isinf(interval.high))
		writer_renamed(out, "1", &(struct element){.type = BSON_BYTE_NULL}); /* not known */
	else
		writer_double(out, "1", interval.high);
	writer_close(out, array);
}

static void json_percentiles(struct buffer *out, const struct analyze_report *report,
			     const struct distribution *distribution)
{
	size_t elements = writer_open_document(out, "elements"), bytes;
	char error[24];

	writer_int64(out, "all", distribution->elements);
	for (size_t i = 0; i < ARRAY_LENGTH(percentiles); i++) {
		writer_int64(out, percentiles[i].name,
			     distribution_percentile(distribution, percentiles[i].share));
		if (!report_is_sample(report))
			continue;
		snprintf(error, sizeof(error), "%s_between", percentiles[i].name);
		json_interval(out, error, percentile_interval(distribution, percentiles[i].share));
	}
	writer_int64(out, "max", distribution_longest(distribution));
	writer_close(out, elements);
	bytes = writer_open_document(out, "bytes");
	writer_int64(out, "all", distribution->bytes);
	for (size_t i = 0; i < ARRAY_LENGTH(percentiles); i++)
		writer_int64(out, percentiles[i].name,
			     distribution_bytes_percentile(distribution, percentiles[i].share));
	writer_int64(out, "max", distribution->largest);
	writer_close(out, bytes);
}

static void json_candidates(struct buffer *out, const struct analyze_report *report,
			    const struct distribution *distribution)
{
	size_t candidates = writer_open_array(out, "thresholds"), index = 0;
	char name[12];

	for (const int64_t *each = advice_candidates; *each; each++) {
		struct above above = distribution_above(distribution, *each);
		size_t document = writer_open_document(out, writer_index(name, index++));

		writer_int64(out, "threshold", *each);
		writer_int64(out, "documents", above.documents);
		writer_double(out, "documents_share",
			      percent(above.documents, distribution_documents(distribution)) / 100);
		if (report_is_sample(report))
			json_interval(out, "documents_share_between",
				      share_interval(above.documents,
						     distribution_documents(distribution)));
		writer_int64(out, "elements", above.elements);
		writer_double(out, "elements_share",
			      percent(above.elements, distribution->elements) / 100);
		writer_close(out, document);
	}
	writer_close(out, candidates);
}

static void json_histogram(struct buffer *out, const struct distribution *distribution)
{
	struct histogram_bar bars[HISTOGRAM_BARS_MAX];
	size_t count = distribution_histogram(distribution, bars), histogram;
	char name[12];

	histogram = writer_open_array(out, "histogram");
	for (size_t i = 0; i < count; i++) {
		size_t bar = writer_open_document(out, writer_index(name, i));

		writer_int64(out, "first", bars[i].first);
		writer_int64(out, "last", bars[i].last);
		writer_int64(out, "documents", bars[i].documents);
		writer_close(out, bar);
	}
	writer_close(out, histogram);
}

static void json_array(struct buffer *out, const char *name, const struct analyze_report *report,
		       const struct report_array *array)
{
	const struct distribution *distribution = &array->distribution;
	const struct advice *advice = &array->advice;
	size_t document = writer_open_document(out, name);

	writer_string(out, "array", array->path);
	writer_int64(out, "documents", distribution->arrays);
	writer_int64(out, "missing", distribution->missing);
	writer_int64(out, "not_arrays", distribution->other);
	json_percentiles(out, report, distribution);
	json_candidates(out, report, distribution);
	json_histogram(out, distribution);
	if (advice->verdict == VERDICT_OPEN)
		json_interval(out, "outliers_share_between", advice->outliers.between);
	if (!advice_is_open(advice->verdict))
		writer_bool(out, "pays", advice_pays(advice->verdict));
	writer_string(out, "verdict", advice_word(advice->verdict));
	writer_string(out, "reason", advice_sentence(advice->verdict));
	if (advice->verdict == VERDICT_FAT)
		writer_int64(out, "max_bytes", ADVICE_FAT);
	if (advice->verdict == VERDICT_PAYS)
		writer_int64(out, "threshold", advice->threshold);
	writer_close(out, document);
}

void analyze_report_json(struct buffer *out, const struct analyze_report *report)
{
	auto_buffer struct buffer document = {0};
	size_t start = writer_open(&document), arrays;
	char name[12], *text;

	writer_string(&document, "command", "analyze");
	writer_string(&document, "ended", "done");
	writer_string(&document, "namespace", report->namespace);
	writer_int64(&document, "documents", report->documents);
	writer_int64(&document, "looked_at", report->looked_at);
	writer_bool(&document, "sample", report_is_sample(report));
	writer_int64(&document, "bytes", report->bytes);
	writer_int64(&document, "largest_document", report->largest);
	writer_int64(&document, "already_split", report->spilled);
	writer_int64(&document, "milliseconds", (int64_t)(report->seconds * 1000));
	arrays = writer_open_array(&document, "arrays");
	for (size_t i = 0; i < report->array_count; i++)
		json_array(&document, writer_index(name, i), report, &report->arrays[i]);
	writer_close(&document, arrays);
	writer_close(&document, start);
	text = json_text(buffer_view(&document));
	text_append(out, "%s", text);
	bson_free(text);
}

/* Where the arrays are fat and not long, a length that none passes leaves it to max_bytes. */
static void yaml_array(struct buffer *out, const struct analyze_report *report,
		       const struct report_array *array)
{
	auto_free char *path = text_plain(array->path);

	text_append(out, "# array '%s': %s\n", path, advice_sentence(array->advice.verdict));
	if (!advice_pays(array->advice.verdict))
		return;
	if (!rule_text_can_name(report->namespace)) {
		text_append(out, "# no rule can name this collection alone: '*' stands for any "
				 "characters there\n");
		return;
	}
	rule_text_write(out, report->namespace, array->path,
			array->advice.verdict == VERDICT_FAT
				? distribution_longest(&array->distribution)
				: array->advice.threshold);
}

void analyze_report_yaml(struct buffer *out, const struct analyze_report *report)
{
	auto_free char *namespace = text_plain(report->namespace);
	bool pays = false;

	for (size_t i = 0; i < report->array_count; i++)
		pays = pays || (advice_pays(report->arrays[i].advice.verdict) &&
				rule_text_can_name(report->namespace));
	text_append(out, "# %s: looked at %" PRId64 " of %" PRId64 " documents\nrules:%s\n",
		    namespace, report->looked_at, report->documents, pays ? "" : " []");
	for (size_t i = 0; i < report->array_count; i++)
		yaml_array(out, report, &report->arrays[i]);
}
