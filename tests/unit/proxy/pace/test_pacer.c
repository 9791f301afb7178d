/* Tests proxy/pace/pacer.c with a server that answers by a script: who has to wait, and until when.
 */
#include "tests/unit/scripted.h"

#include "proxy/pace/pacer.h"
#include "rules/rule/text.h"

struct pacing {
	struct config *config;
	struct metrics metrics;
	struct pacer *pacer;
	struct scripted script;
	const struct rule *rule;
	int resumed;
};

static void count_resumed(void *context, const struct rule *rule)
{
	struct pacing *pacing = context;

	pacing->resumed += rule == pacing->rule;
}

static void begin(struct pacing *pacing, const char *mover, const char *const *replies)
{
	auto_buffer struct buffer file = {0};
	auto_free char *problems = NULL;

	*pacing = (struct pacing){0};
	text_append(&file,
		    "listen: [{ address: h:1, server: h:2 }]\nmover: %s\nrules: [{ name: r, "
		    "namespace: shop.books, array: f, threshold: 3, overflow: { link: of, array: "
		    "more } }]\n",
		    mover);
	pacing->config = config_parse("f", buffer_view(&file), NULL, &problems);
	cr_assert(pacing->config, "%s", problems);
	pacing->rule = rule_set_at(pacing->config->rules, 0);
	pacing->pacer = pacer_new(pacing->config);
	scripted_begin(&pacing->script, SCRIPTED_MEMBER, replies);
	cr_assert(pacer_pauses(pacing->pacer, pacing->rule), "nothing is known yet");
	cr_assert_eq(pacer_look(pacing->pacer, pacing->script.link, &pacing->metrics, count_resumed,
				pacing),
		     LINK_DONE);
}

static void end(struct pacing *pacing)
{
	scripted_end(&pacing->script);
	pacer_free(pacing->pacer);
	config_free(pacing->config);
}

#define begin_with(pacing, mover, ...) \
	begin((pacing), (mover), (const char *const[]){__VA_ARGS__, NULL})

static int64_t hold(struct pacing *pacing, struct pace_place *place, int64_t now)
{
	return pacer_hold(pacing->pacer, pacing->rule, place, now);
}

Test(pacer, a_pause_holds_also_what_is_urgent)
{
	struct pacing pacing;
	struct pace_place place = {.urgent = true};

	begin_with(&pacing, "{}",
		   SCRIPTED_BATCH("[{'_id': {'pause': 'other'}}, {'_id': {'pause': 'r'}}]"));
	cr_assert(pacer_pauses(pacing.pacer, pacing.rule));
	cr_assert_eq(hold(&pacing, &place, 1000), 1500);
	cr_assert_eq(pacing.metrics.rules_paused, 1);
	cr_assert_eq(pacing.resumed, 0);
	end(&pacing);
}

Test(pacer, lag_and_load_hold_what_is_not_urgent)
{
	struct pacing pacing;
	struct pace_place place = {0}, urgent = {.urgent = true};

	begin_with(&pacing, "{ max_lag: 2s, max_load: 9 }", SCRIPTED_BATCH("[]"),
		   "{'ok': 1.0, 'members': [{'name': 'a:1', 'state': 1, 'optimeDate': {'$date': "
		   "9000}}, {'name': 'b:1', 'state': 2, 'optimeDate': {'$date': 7000}}]}",
		   "{'ok': 1.0, 'globalLock': {'currentQueue': {'total': 2}, 'activeClients': "
		   "{'total': 99, 'readers': 3, 'writers': 5}}}");
	cr_assert_not(pacer_pauses(pacing.pacer, pacing.rule));
	cr_assert(pacer_holds(pacing.pacer, pacing.rule), "10 operations are more than 9");
	cr_assert_eq(hold(&pacing, &place, 1000), 1500);
	cr_assert_eq(hold(&pacing, &urgent, 1000), 0);
	cr_assert_eq(pacing.metrics.mover_held, 1);
	end(&pacing);
}

Test(pacer, an_account_that_may_not_ask_waits_for_nothing)
{
	struct pacing pacing;
	struct pace_place place = {0};

	begin_with(&pacing, "{ max_lag: 2s, max_load: 9 }",
		   "{'ok': 0.0, 'code': 13, 'errmsg': 'not authorized'}",
		   "{'ok': 0.0, 'code': 13, 'errmsg': 'not authorized'}",
		   "{'ok': 0.0, 'code': 13, 'errmsg': 'not authorized'}");
	cr_assert_eq(hold(&pacing, &place, 1000), 0);
	cr_assert_eq(pacing.metrics.mover_held, 0);
	end(&pacing);
}

Test(pacer, each_document_has_a_slot_of_its_own)
{
	struct pacing pacing;
	struct pace_place places[4] = {{0}}, urgent = {.urgent = true};

	begin_with(&pacing, "{ rate: 4 }", SCRIPTED_BATCH("[]"));
	cr_assert_eq(hold(&pacing, &places[0], 1000), 0);
	cr_assert_eq(hold(&pacing, &places[1], 1000), 1251);
	cr_assert_eq(hold(&pacing, &places[2], 1000), 1501);
	cr_assert_eq(hold(&pacing, &places[1], 1100), 1251, "it keeps its slot");
	cr_assert_eq(hold(&pacing, &urgent, 1100), 0);
	cr_assert_eq(hold(&pacing, &places[1], 1251), 0);
	cr_assert_eq(hold(&pacing, &places[2], 1600), 0);
	cr_assert_eq(hold(&pacing, &places[3], 9000), 0, "what was not used is not saved up");
	cr_assert_eq(hold(&pacing, &places[0], 9000), 9251);
	end(&pacing);
}

/* The rules r and s, in another order than before. */
static struct config *other_file(void)
{
	static const char file[] =
		"listen: [{ address: h:1, server: h:2 }]\nmover: { rate: 1000 }\n"
		"rules: [{ name: s, namespace: shop.toys, array: f, threshold: 3, overflow: { "
		"link: of, array: more } }, { name: r, namespace: shop.books, array: f, "
		"threshold: 5, overflow: { link: of, array: more } }]\n";
	auto_free char *problems = NULL;
	struct config *config = config_parse("f", bytes_of(file), NULL, &problems);

	cr_assert(config, "%s", problems);
	return config;
}

Test(pacer, a_reload_keeps_pauses_by_name_and_a_new_rule_waits_for_a_look)
{
	struct pacing pacing;
	struct config *other = other_file();
	const struct rule *s = rule_set_at(other->rules, 0), *r = rule_set_at(other->rules, 1);

	begin_with(&pacing, "{}", SCRIPTED_BATCH("[]"),
		   SCRIPTED_BATCH("[{'_id': {'pause': 'r'}}]"));
	pacer_take_rules(pacing.pacer, other->rules);
	cr_assert(pacer_pauses(pacing.pacer, s), "nothing is known of it yet");
	cr_assert_not(pacer_pauses(pacing.pacer, r));
	cr_assert_not(pacer_pauses(pacing.pacer, pacing.rule),
		      "who began under the rule of before");
	cr_assert_eq(pacer_look(pacing.pacer, pacing.script.link, &pacing.metrics, count_resumed,
				&pacing),
		     LINK_DONE);
	cr_assert_not(pacer_pauses(pacing.pacer, s));
	pacer_take_rules(pacing.pacer, pacing.config->rules);
	cr_assert(pacer_pauses(pacing.pacer, pacing.rule));
	cr_assert(pacer_pauses(pacing.pacer, s), "it is gone");
	cr_assert_eq(pacing.resumed, 0);
	end(&pacing);
	config_free(other);
}

Test(pacer, another_rate_holds_for_who_has_a_slot)
{
	struct pacing pacing;
	struct config *other = other_file();
	struct pace_place places[20] = {{0}};

	begin_with(&pacing, "{ rate: 1 }", SCRIPTED_BATCH("[]"));
	for (int i = 0; i < 20; i++)
		cr_assert_leq(hold(&pacing, &places[i], 1000), 11001);
	pacer_take_settings(pacing.pacer, other);
	cr_assert_eq(pacer_rate(pacing.pacer), 1000);
	cr_assert_eq(hold(&pacing, &places[19], 11000), 0, "slots of before count no more");
	cr_assert_eq(hold(&pacing, &places[18], 11000), 11002);
	end(&pacing);
	config_free(other);
}
