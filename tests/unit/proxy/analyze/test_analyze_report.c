/* Tests proxy/analyze/analyze_report.c and analyze_svg.c: the forms that a report takes. */
#include "tests/unit/unit.h"

#include "proxy/analyze/analyze_report.h"
#include "rules/rule/text.h"

#include <bson/bson.h>

static struct analyze_report make(const char *path, int64_t documents)
{
	struct analyze_report report = {.documents = documents,
					.looked_at = 1000,
					.bytes = 2000000,
					.largest = 1500000,
					.array_count = 1};
	struct distribution_row usual = {10, 990, 990 * 80, 80}, odd = {10000, 10, 800000, 80000};

	report.namespace = must_strndup("shop.books", 10);
	report.arrays = must_calloc(1, sizeof(*report.arrays));
	report.arrays[0].path = must_strndup(path, strlen(path));
	distribution_add(&report.arrays[0].distribution, &usual, 7);
	distribution_add(&report.arrays[0].distribution, &odd, 17);
	distribution_finish(&report.arrays[0].distribution);
	report.arrays[0].advice = advice_make(&report.arrays[0].distribution, documents > 1000);
	return report;
}

static char *print(const struct analyze_report *report,
		   void (*form)(struct buffer *out, const struct analyze_report *report))
{
	auto_buffer struct buffer out = {0};

	form(&out, report);
	return text_steal(&out);
}

static void expect(const char *text, const char *words)
{
	cr_assert(strstr(text, words), "'%s' is not in:\n%s", words, text);
}

Test(analyze_report, the_text_says_it_all)
{
	struct analyze_report report = make("buyers", 1000);
	auto_free char *text = print(&report, analyze_report_text);

	expect(text, "shop.books: 1,000 documents; looked at all of them");
	expect(text, "1.9 MB in all, the largest document 1.4 MB");
	expect(text, "p50 10  p90 10  p99 10  p99.9 10,000  max 10,000");
	expect(text, "suggestion: threshold: 50 (10 outliers, 1.00% of the documents; 91% of");
	expect(text, "     8,192-16,383            10 |###############\n");
	expect(text, "but not where every read wants the whole array");
	cr_assert_null(strstr(text, "19 of 20"));
	analyze_report_fini(&report);
}

Test(analyze_report, a_rule_can_be_pasted)
{
	struct analyze_report report = make("of.buyers", 1000);
	auto_free char *yaml = print(&report, analyze_report_yaml);

	cr_assert_str_eq(yaml, "# shop.books: looked at 1000 of 1000 documents\nrules:\n"
			       "# array 'of.buyers': the pattern pays\n"
			       "  - name: \"books-of.buyers\"\n    namespace: \"shop.books\"\n"
			       "    array: \"of.buyers\"\n    threshold: 50\n"
			       "    overflow: { link: main_id, array: \"buyers\" }\n");
	analyze_report_fini(&report);
}

Test(analyze_report, a_list_without_rules_is_one_too)
{
	struct analyze_report report = make("a", 1000);
	auto_free char *yaml = NULL;

	report.arrays[0].advice.verdict = VERDICT_UNIFORM;
	yaml = print(&report, analyze_report_yaml);
	expect(yaml, "\nrules: []\n# array 'a': ");
	analyze_report_fini(&report);
}

Test(analyze_report, an_array_s_name_is_shown_as_text)
{
	struct analyze_report report = make("of\033[2J\nall", 1000);
	auto_free char *text = print(&report, analyze_report_text);

	cr_assert(strstr(text, "array 'of\\u001b[2J\\u000aall'"), "%s", text);
	analyze_report_fini(&report);
}

Test(analyze_report, a_sample_says_that_it_is_one)
{
	struct analyze_report report = make("buyers", 5000000);
	auto_free char *text = print(&report, analyze_report_text);

	expect(text, "5,000,000 documents; looked at 1,000 of them, drawn at random");
	expect(text, "p50 10  p90"); /* no interval where there is none */
	expect(text, "p99.9 10,000 (10,000 or more)  max");
	expect(text, "p99 10 (10-10,000)");
	expect(text, "1.000%  (0.544%-1.831%)");
	analyze_report_fini(&report);
}

Test(analyze_report, a_sample_without_outliers_gives_no_verdict)
{
	struct analyze_report report = {.documents = 20000, .looked_at = 1000, .array_count = 1};
	struct distribution_row usual = {3, 1000, 1000 * 32, 32};

	report.namespace = must_strndup("shop.books", 10);
	report.arrays = must_calloc(1, sizeof(*report.arrays));
	report.arrays[0].path = must_strndup("list", 4);
	distribution_add(&report.arrays[0].distribution, &usual, 5);
	distribution_finish(&report.arrays[0].distribution);
	report.arrays[0].advice = advice_make(&report.arrays[0].distribution, true);
	auto_free char *text = print(&report, analyze_report_text);
	auto_free char *json = print(&report, analyze_report_json);

	expect(text, "no outliers in the sample; up to 0.383% of the documents may be some");
	expect(text, "          5                0    0.000%  (0.000%-0.383%)");
	expect(json, "\"outliers_share_between\" : [ 0.0, 0.0038");
	cr_assert_null(strstr(text, "does not pay"));
	cr_assert_null(strstr(json, "\"pays\""));
	analyze_report_fini(&report);
}

Test(analyze_report, what_is_split_already_is_told)
{
	struct analyze_report report = make("buyers", 1000);

	report.spilled = 3;
	auto_free char *text = print(&report, analyze_report_text);

	expect(text, "3 documents are already split by Spillway");
	analyze_report_fini(&report);
}

Test(analyze_report, json_can_be_read)
{
	struct analyze_report report = make("in.\"quotes\"", 1000);
	auto_free char *text = print(&report, analyze_report_json);
	bson_error_t error;
	bson_t *read = bson_new_from_json((const uint8_t *)text, -1, &error);
	bson_iter_t iter, found;

	cr_assert_not_null(read, "%s", error.message);
	cr_assert(bson_iter_init(&iter, read) &&
		  bson_iter_find_descendant(&iter, "arrays.0.array", &found));
	cr_assert_str_eq(bson_iter_utf8(&found, NULL), "in.\"quotes\"");
	cr_assert(bson_iter_init(&iter, read) &&
		  bson_iter_find_descendant(&iter, "arrays.0.threshold", &found));
	cr_assert_eq(bson_iter_as_int64(&found), 50);
	cr_assert(bson_iter_init(&iter, read) &&
		  bson_iter_find_descendant(&iter, "arrays.0.histogram.14.documents", &found));
	cr_assert_eq(bson_iter_as_int64(&found), 10);
	bson_destroy(read);
	analyze_report_fini(&report);
}

Test(analyze_report, the_picture_has_a_bar_for_each_class)
{
	struct analyze_report report = make("a<b & \"c\"", 1000);
	auto_free char *text = print(&report, analyze_report_svg);
	int bars = 0;

	for (const char *at = text; (at = strstr(at, "<rect x=")); at++)
		bars++;
	cr_assert_eq(bars, 15);
	expect(text, "shop.books: a&lt;b &amp; &quot;c&quot;</text>");
	expect(text, ">threshold 50</text>");
	expect(text, "8192 to 16383 elements: 10 documents");
	cr_assert_null(strstr(text, "script"));
	cr_assert_null(strstr(text, "nan"));
	analyze_report_fini(&report);
}

Test(analyze_report, nothing_at_all_is_a_picture_too)
{
	struct analyze_report report = {.namespace = must_strndup("shop.none", 9)};
	auto_free char *text = print(&report, analyze_report_svg);
	auto_free char *said = print(&report, analyze_report_text);

	expect(text, "</svg>");
	expect(said, "no array was found in it: it is empty");
	analyze_report_fini(&report);
}
