/* What `spillway analyze` found, as a picture: one histogram for each array. */
#include "proxy/analyze/analyze_report.h"

#include "proxy/base/markup.h"
#include "rules/rule/text.h"

#include <math.h>
#include <stdio.h>

#define WIDTH 720
#define HEIGHT 300
#define LEFT 24
#define BOTTOM 48 /* for the lengths below the bars */
#define TOP 72    /* for the title above them */

static void draw_title(struct buffer *out, const struct analyze_report *report,
		       const struct report_array *array, int top)
{
	const struct distribution *distribution = &array->distribution;

	text_append(out, "<text x=\"%d\" y=\"%d\" class=\"title\">", LEFT, top + 26);
	markup_text(out, report->namespace);
	text_append(out, ": ");
	markup_text(out, array->path);
	text_append(out,
		    "</text>\n<text x=\"%d\" y=\"%d\">elements: p50 %lld, p90 %lld, p99 %lld, "
		    "p99.9 %lld, max %lld; ",
		    LEFT, top + 46, (long long)distribution_percentile(distribution, 0.5),
		    (long long)distribution_percentile(distribution, 0.9),
		    (long long)distribution_percentile(distribution, 0.99),
		    (long long)distribution_percentile(distribution, 0.999),
		    (long long)distribution_longest(distribution));
	if (array->advice.verdict == VERDICT_PAYS)
		text_append(out, "suggested threshold %lld</text>\n",
			    (long long)array->advice.threshold);
	else
		text_append(out, "%s</text>\n", advice_word(array->advice.verdict));
}

static void draw_bar(struct buffer *out, const struct histogram_bar *bar, double left, double width,
		     double height, double floor)
{
	double middle = left + width / 2;

	text_append(out,
		    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>%lld to "
		    "%lld elements: %lld documents</title></rect>\n",
		    left + 1, floor - height, width - 2, height, (long long)bar->first,
		    (long long)bar->last, (long long)bar->documents);
	text_append(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">%lld</text>\n", middle,
		    floor - height - 4, (long long)bar->documents);
	text_append(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"small\">%lld%s</text>\n", middle,
		    floor + 14, (long long)bar->first, bar->first < bar->last ? "+" : "");
}

/* Where the threshold lies among bars that each double the length. */
static void draw_threshold(struct buffer *out, int64_t threshold, double width, double floor)
{
	double at = LEFT + width * (1 + log2((double)threshold));

	text_append(out,
		    "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n<text x=\"%.1f\" "
		    "y=\"%.1f\" class=\"small\">threshold %lld</text>\n",
		    at, floor, at, floor - (HEIGHT - TOP - BOTTOM) - 10, at,
		    floor - (HEIGHT - TOP - BOTTOM) - 14, (long long)threshold);
}

static void draw_array(struct buffer *out, const struct analyze_report *report,
		       const struct report_array *array, int top)
{
	struct histogram_bar bars[HISTOGRAM_BARS_MAX];
	size_t count = distribution_histogram(&array->distribution, bars);
	double floor = top + HEIGHT - BOTTOM, width = (WIDTH - 2.0 * LEFT) / (double)(count + 1);
	int64_t most = 1;

	draw_title(out, report, array, top);
	for (size_t i = 0; i < count; i++)
		most = bars[i].documents > most ? bars[i].documents : most;
	for (size_t i = 0; i < count; i++)
		draw_bar(out, &bars[i], LEFT + width * (double)i, width,
			 (HEIGHT - TOP - BOTTOM - 16) * log1p((double)bars[i].documents) /
				 log1p((double)most),
			 floor);
	if (array->advice.verdict == VERDICT_PAYS)
		draw_threshold(out, array->advice.threshold, width, floor);
	text_append(out,
		    "<text x=\"%d\" y=\"%.1f\">elements in the array; height: documents, on a "
		    "logarithmic scale</text>\n",
		    LEFT, floor + 34);
}

void analyze_report_svg(struct buffer *out, const struct analyze_report *report)
{
	int height = HEIGHT * (report->array_count ? (int)report->array_count : 1);

	text_append(out,
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		    "height=\"%d\">\n",
		    WIDTH, height, WIDTH, height);
	text_append(out,
		    "<style>text { font: 13px sans-serif; fill: #222 } .title { font-size: 17px } "
		    ".small { font-size: 10px; text-anchor: middle } rect { fill: #3b7ea1 } "
		    ".page { fill: #fff } line { stroke: #c4472b; stroke-dasharray: 4 3 }"
		    "</style>\n<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n",
		    WIDTH, height);
	for (size_t i = 0; i < report->array_count; i++)
		draw_array(out, report, &report->arrays[i], HEIGHT * (int)i);
	text_append(out, "</svg>\n");
}
