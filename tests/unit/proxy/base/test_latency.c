#include "proxy/base/latency.h"

#include "rules/rule/text.h"

#include "tests/unit/shop.h"
#include "tests/unit/unit.h"

Test(latency, a_bucket_holds_what_takes_no_longer_than_its_bound)
{
	struct latency latency = {0};

	latency_note(&latency, 0, 1);
	latency_note(&latency, 1000, 1);
	latency_note(&latency, 1001, 1);
	latency_note(&latency, 10000000, 1);
	latency_note(&latency, 10000001, 1);
	cr_assert_eq(latency.buckets[0], 2);
	cr_assert_eq(latency.buckets[1], 1);
	cr_assert_eq(latency.buckets[LATENCY_BOUNDS - 1], 1);
	cr_assert_eq(latency.buckets[LATENCY_BOUNDS], 1);
	cr_assert_eq(latency.microseconds, 20002002);
}

Test(latency, the_loops_are_summed_by_rule_and_kind)
{
	struct shop shop = shop_open();
	struct rule_set *rules = shop.config->rules;
	const struct rule *rule = rule_set_at(rules, 1);
	struct latencies *one = latencies_new();
	struct latencies *other = latencies_new();
	struct buffer text = {0};
	auto_free char *printed = NULL;

	latencies_note(one, rule, LATENCY_READ, 2000);
	latencies_note(other, rule, LATENCY_READ, 3000000);
	latencies_note(other, rule, LATENCY_EDIT, 1);
	latencies_note(other, NULL, LATENCY_REFUSED, 1);
	latency_note(&one->forwarded, 7, LATENCY_SAMPLE);
	cr_assert_eq(latencies_total(rule, LATENCY_READ).count, 2);
	cr_assert_eq(latencies_total(rule, LATENCY_READ).microseconds, 3002000);
	cr_assert_eq(latencies_total(rule, LATENCY_WRITE).count, 0);
	cr_assert_eq(latencies_total(NULL, LATENCY_FORWARDED).count, LATENCY_SAMPLE);
	latencies_print(&text, rules);
	printed = text_steal(&text);
	cr_assert(strstr(printed, "_bucket{verdict=\"read\",rule=\"first\",le=\"0.0025\"} 1\n"));
	cr_assert(strstr(printed, "_bucket{verdict=\"read\",rule=\"first\",le=\"+Inf\"} 2\n"));
	cr_assert(strstr(printed, "_sum{verdict=\"read\",rule=\"first\"} 3.002000\n"));
	cr_assert(strstr(printed, "_count{verdict=\"refused\",rule=\"\"} 1\n"));
	cr_assert_not(strstr(printed, "verdict=\"write\""));
	latencies_free_all();
	shop_close(&shop);
}

Test(latency, a_rule_of_another_set_goes_by_its_name)
{
	struct shop shop = shop_open();
	struct rule named = *rule_set_at(shop.config->rules, 1), other = named;
	struct latencies *latencies = latencies_new();
	static char name[] = "later";

	other.name = name;
	other.index = 7000;
	latencies_note(latencies, &other, LATENCY_READ, 1);
	named.index = 9000;
	latencies_note(latencies, &named, LATENCY_READ, 2000);
	named.index = 0;
	latencies_note(latencies, &named, LATENCY_READ, 2000);
	cr_assert_eq(latencies_total(&named, LATENCY_READ).count, 2);
	cr_assert_eq(latencies_total(&other, LATENCY_READ).count, 1);
	latencies_free_all();
	shop_close(&shop);
}

Test(latency, one_of_eight_forwarded_requests_is_drawn_without_a_rhythm)
{
	struct latencies *latencies = latencies_new();
	int drawn = 0, by_place[8] = {0};

	for (int i = 0; i < 80000; i++) {
		bool is = latency_draw(latencies);

		drawn += is;
		by_place[i % 8] += is;
	}
	cr_assert(drawn > 9500 && drawn < 10500, "%d", drawn);
	for (int i = 0; i < 8; i++)
		cr_assert(by_place[i] > 1000 && by_place[i] < 1500, "%d: %d", i, by_place[i]);
	latencies_free_all();
}
