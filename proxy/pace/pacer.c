/* When the mover may work: pauses, rate, lag and load. */
#include "proxy/pace/pacer.h"

#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "proxy/pace/load.h"
#include "proxy/pace/pauses.h"
#include "protocol/cursor.h"

#include <inttypes.h>
#include <stdlib.h>

#define LOOK_MS 1000
#define HELD_MS 500   /* until what is held is looked at again */
#define SLOT_MS 10000 /* until who has a slot asks again: the rate may be another one */

/* Whether an operator has paused a rule. */
enum pace {
	PACE_UNKNOWN, /* not read yet */
	PACE_GOES,
	PACE_PAUSED,
};

struct pacer {
	_Atomic int64_t rate, max_lag_ms, max_load; /* as the file has them; 0: off */
	atomic_bool lags, loaded;
	int64_t looked_at;
	bool lag_refused, load_refused;
	pthread_mutex_t lock; /* of what follows */
	struct rule_set *rules;
	enum pace *paces; /* by the rules' indexes */
	int64_t next;     /* microseconds: the first slot that nobody has */
};

struct pacer *pacer_new(const struct config *config)
{
	struct pacer *pacer = must_calloc(1, sizeof(*pacer));

	pthread_mutex_init(&pacer->lock, NULL);
	pacer_take_settings(pacer, config);
	pacer->rules = rule_set_ref(config->rules);
	pacer->paces = must_calloc(rule_set_count(config->rules) + 1, sizeof(*pacer->paces));
	pacer->looked_at = INT64_MIN / 2;
	return pacer;
}

void pacer_free(struct pacer *pacer)
{
	pthread_mutex_destroy(&pacer->lock);
	free(pacer->paces);
	rule_set_unref(pacer->rules);
	free(pacer);
}

void pacer_take_settings(struct pacer *pacer, const struct config *config)
{
	int64_t rate;

	pthread_mutex_lock(&pacer->lock);
	rate = atomic_exchange(&pacer->rate, config->mover.rate);
	if (rate != config->mover.rate)
		pacer->next = 0; /* who has a slot takes another one */
	pthread_mutex_unlock(&pacer->lock);
	atomic_store(&pacer->max_lag_ms, config->mover.max_lag_ms);
	atomic_store(&pacer->max_load, config->mover.max_load);
}

/* By the rule's name: it may be of a set that was there before, or comes. Under the lock. */
static enum pace pace_of(const struct pacer *pacer, const struct rule *rule)
{
	size_t count = rule_set_count(pacer->rules);

	if (rule->index < count && rule_set_at(pacer->rules, rule->index) == rule)
		return pacer->paces[rule->index];
	for (size_t i = 0; i < count; i++)
		if (strcmp(rule->name, rule_set_at(pacer->rules, i)->name) == 0)
			return pacer->paces[i];
	return PACE_UNKNOWN;
}

void pacer_take_rules(struct pacer *pacer, struct rule_set *rules)
{
	size_t count = rule_set_count(rules);
	enum pace *paces = must_calloc(count + 1, sizeof(*paces));

	pthread_mutex_lock(&pacer->lock);
	for (size_t i = 0; i < count; i++)
		paces[i] = pace_of(pacer, rule_set_at(rules, i));
	free(pacer->paces);
	rule_set_unref(pacer->rules);
	pacer->paces = paces;
	pacer->rules = rule_set_ref(rules);
	pacer->looked_at = INT64_MIN / 2;
	pthread_mutex_unlock(&pacer->lock);
}

int64_t pacer_rate(const struct pacer *pacer)
{
	return atomic_load(&pacer->rate);
}

/* What an operator has paused. */

struct reading {
	const struct rule_set *rules;
	bool *paused;
};

static void take_pause(void *context, struct bytes pause)
{
	struct reading *reading = context;
	struct bytes name;

	if (!document_find_string(pause, "_id.pause", &name))
		return;
	for (size_t i = 0; i < rule_set_count(reading->rules); i++)
		if (bytes_are(name, rule_set_at(reading->rules, i)->name))
			reading->paused[i] = true;
}

static void tell_pause(const struct rule *rule, bool paused)
{
	if (paused)
		log_info("4040 rule '%s' is paused: nothing is moved; 'spillway resume' lets it go "
			 "on",
			 rule->name);
	else
		log_info("4041 rule '%s' goes on: it is paused no more", rule->name);
}

static enum link_result look_for_pauses(struct pacer *pacer, struct link *link, bool *paused)
{
	struct reading reading = {pacer->rules, paused};

	return pauses_each(link, take_pause, &reading);
}

/* What it was before. */
static enum pace set_pace(struct pacer *pacer, size_t index, enum pace pace)
{
	enum pace before;

	pthread_mutex_lock(&pacer->lock);
	before = pacer->paces[index];
	pacer->paces[index] = pace;
	pthread_mutex_unlock(&pacer->lock);
	return before;
}

static void take_pauses(struct pacer *pacer, const bool *paused, struct metrics *metrics,
			void (*resumed)(void *context, const struct rule *rule), void *context)
{
	int64_t count = 0;

	for (size_t i = 0; i < rule_set_count(pacer->rules); i++) {
		const struct rule *rule = rule_set_at(pacer->rules, i);
		bool before =
			set_pace(pacer, i, paused[i] ? PACE_PAUSED : PACE_GOES) == PACE_PAUSED;

		count += paused[i];
		if (before != paused[i])
			tell_pause(rule, paused[i]);
		if (before && !paused[i])
			resumed(context, rule);
	}
	atomic_store(&metrics->rules_paused, count);
}

/* Lag and load. */

static void warn_once(bool *warned, const char *setting, const struct link *link)
{
	if (!*warned)
		log_warning(
			"4042 mover: '%s' can't be kept, and nothing waits for it: the upstream "
			"account needs the role clusterMonitor: %s",
			setting, link_error(link)->message);
	*warned = true;
}

static enum link_result look_at_lag(struct pacer *pacer, struct link *link)
{
	int64_t most = atomic_load(&pacer->max_lag_ms);
	struct lag lag = {.milliseconds = -1};
	enum link_result result = most ? load_ask_lag(link, &lag) : LINK_DONE;
	bool lags = lag.milliseconds > most;

	if (result == LINK_REFUSED)
		warn_once(&pacer->lag_refused, "max_lag", link);
	if (!most)
		atomic_store(&pacer->lags, false);
	if (!most || result != LINK_DONE)
		return result;
	if (atomic_exchange(&pacer->lags, lags) == lags)
		return LINK_DONE;
	if (lags)
		log_info("4043 mover: waits: the secondary '%s' is %" PRId64
			 " ms behind, and max_lag is %" PRId64 " ms",
			 lag.member, lag.milliseconds, most);
	else
		log_info("4044 mover: goes on: the slowest secondary is %" PRId64 " ms behind",
			 lag.milliseconds);
	return LINK_DONE;
}

static enum link_result look_at_load(struct pacer *pacer, struct link *link)
{
	int64_t most = atomic_load(&pacer->max_load), load = 0;
	enum link_result result = most ? load_ask_operations(link, &load) : LINK_DONE;
	bool loaded = load > most;

	if (result == LINK_REFUSED)
		warn_once(&pacer->load_refused, "max_load", link);
	if (!most)
		atomic_store(&pacer->loaded, false);
	if (!most || result != LINK_DONE)
		return result;
	if (atomic_exchange(&pacer->loaded, loaded) == loaded)
		return LINK_DONE;
	log_info("4045 mover: %s: %" PRId64
		 " operations are at work or wait in the server, and max_load is %" PRId64,
		 loaded ? "waits" : "goes on", load, most);
	return LINK_DONE;
}

must_check enum link_result pacer_look(struct pacer *pacer, struct link *link,
				       struct metrics *metrics,
				       void (*resumed)(void *context, const struct rule *rule),
				       void *context)
{
	auto_free bool *paused = must_calloc(rule_set_count(pacer->rules) + 1, sizeof(*paused));
	int64_t now = clock_now();
	enum link_result result;

	if (now < pacer->looked_at + LOOK_MS)
		return LINK_DONE;
	result = look_for_pauses(pacer, link, paused);
	if (result != LINK_DONE)
		return result;
	take_pauses(pacer, paused, metrics, resumed, context);
	pacer->looked_at = now;
	result = look_at_lag(pacer, link);
	if (result != LINK_LOST)
		result = look_at_load(pacer, link);
	atomic_store(&metrics->mover_held,
		     atomic_load(&pacer->lags) || atomic_load(&pacer->loaded));
	return result == LINK_LOST ? LINK_LOST : LINK_DONE;
}

/* Who has to wait. */

bool pacer_pauses(struct pacer *pacer, const struct rule *rule)
{
	enum pace pace;

	pthread_mutex_lock(&pacer->lock);
	pace = pace_of(pacer, rule);
	pthread_mutex_unlock(&pacer->lock);
	return pace != PACE_GOES;
}

bool pacer_holds(struct pacer *pacer, const struct rule *rule)
{
	return pacer_pauses(pacer, rule) || atomic_load(&pacer->lags) ||
	       atomic_load(&pacer->loaded);
}

/* The next slot that nobody has. */
static int64_t take_slot(struct pacer *pacer, int64_t now, int64_t rate)
{
	int64_t slot;

	pthread_mutex_lock(&pacer->lock);
	slot = pacer->next > now ? pacer->next : now;
	pacer->next = slot + 1000000 / rate;
	pthread_mutex_unlock(&pacer->lock);
	return slot;
}

int64_t pacer_hold(struct pacer *pacer, const struct rule *rule, struct pace_place *place,
		   int64_t now)
{
	int64_t rate = pacer_rate(pacer);

	if (place->urgent ? pacer_pauses(pacer, rule) : pacer_holds(pacer, rule))
		return now + HELD_MS;
	if (place->urgent || !rate)
		return 0;
	if (!place->slot || place->rate != rate)
		*place = (struct pace_place){.slot = take_slot(pacer, 1000 * now, rate),
					     .rate = rate};
	if (place->slot > 1000 * (now + SLOT_MS))
		return now + SLOT_MS;
	if (place->slot > 1000 * now)
		return place->slot / 1000 + 1;
	place->slot = 0;
	return 0;
}
