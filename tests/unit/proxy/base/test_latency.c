#include "proxy/base/latency.h"

#include "rules/rule/text.h"

#include "tests/unit/shop.h"
#include "tests/unit/unit.h"

Test(latency, a_bucket_holds_what_takes_no_longer_than_its_bound)
{
	struct latency latency = {0};

	latency_note(&latency, 0);
	latency_note(&latency, 1000);
	latency_note(&latency, 1001);
	latency_note(&latency, 10000000);
	latency_note(&latency, 10000001);
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
	struct latencies *one = latencies_new(rule_set_count(rules));
	struct latencies *other = latencies_new(rule_set_count(rules));
	struct buffer text = {0};
	auto_free char *printed = NULL;

	latencies_note(one, rule, LATENCY_READ, 2000);
	latencies_note(other, rule, LATENCY_READ, 3000000);
	latencies_note(other, rule, LATENCY_EDIT, 1);
	latencies_note(other, NULL, LATENCY_REFUSED, 1);
	latency_note(&one->forwarded, 7);
	cr_assert_eq(latencies_total(rule, LATENCY_READ).count, 2);
	cr_assert_eq(latencies_total(rule, LATENCY_READ).microseconds, 3002000);
	cr_assert_eq(latencies_total(rule, LATENCY_WRITE).count, 0);
	cr_assert_eq(latencies_total(NULL, LATENCY_FORWARDED).count, 1);
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
