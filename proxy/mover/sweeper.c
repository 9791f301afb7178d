/* The sweeper: a thread that looks through whole collections, when it is time or somebody asks. */
#include "proxy/mover/sweeper.h"

#include "proxy/base/ballast.h"
#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "proxy/mover/judgement.h"
#include "proxy/mover/sweep.h"
#include "proxy/pace/pacer.h"
#include "proxy/upstream/namespaces.h"

#define SWEEP_SOON_MS 1000
/* From a sweep to the next that is asked for, if 20 times as long as it took is not longer. */
#define SWEEP_AGAIN_MS 10000
#define PAUSED_MS 1000
#define SWEEP_LOOK_MS 60000 /* the longest sleep between two looks at what is due */

void sweeper_wake(struct mover *mover)
{
	pthread_mutex_lock(&mover->lock);
	mover->news.sweep = true;
	pthread_cond_broadcast(&mover->changed);
	pthread_mutex_unlock(&mover->lock);
}

void sweeper_soon(struct mover *mover, struct mover_target *target)
{
	int64_t soon = clock_now() + SWEEP_SOON_MS, again = target->sweep.again;

	if (soon < again)
		soon = again;
	/* Not looked at yet: that is due at once, but where sweeps are off. */
	if (target->sweep.due == 0 ? target->rule->sweep_ms == 0 : soon < target->sweep.due)
		target->sweep.due = soon;
	sweeper_wake(mover);
}

/* Without `existing: move` nobody finds by itself what clients change while the rule waits. */
static void learn(struct mover *mover, struct link *link, struct mover_target *target)
{
	int64_t none = INT64_MAX;
	enum link_result result;

	if (target->rule->sweep_ms == 0 || target->rule->moves_existing || target->read_only ||
	    target->sweep.seen.whole)
		return;
	result = judgement_renew(mover, link, target, false);
	if (result == LINK_DONE && target->fitness == FITNESS_FIT)
		result = sweep_learn(mover, link, target);
	/* Unless it waits no more: that has made a sweep due. */
	if (result == LINK_LOST)
		(void)!atomic_compare_exchange_strong(&target->sweep.due, &none,
						      clock_now() + KEEP_MS);
}

static void sweep_if_due(struct mover *mover, struct link *link, struct mover_target *target)
{
	int64_t began = clock_now(), took, period = target->rule->sweep_ms;
	bool first = target->sweep.due == 0;
	enum link_result result;

	if (target->sweep.due > began)
		return;
	target->sweep.due = INT64_MAX;
	if (target->reload.waits) { /* its end makes a sweep due */
		learn(mover, link, target);
		return;
	}
	if ((first && period == 0) || target->read_only)
		return; /* off */
	if (pacer_pauses(mover->pacer, target->rule)) {
		target->sweep.due = began + PAUSED_MS;
		return;
	}
	result = judgement_renew(mover, link, target, !first);
	if (result == LINK_DONE && target->fitness == FITNESS_FIT)
		result = sweep_target(mover, link, target);
	if (target_is_gone(target))
		return;
	period = target->rule->sweep_ms;
	took = clock_now() - began;
	target->sweep.again =
		clock_now() + (20 * took > SWEEP_AGAIN_MS ? 20 * took : SWEEP_AGAIN_MS);
	if (result == LINK_LOST)
		target->sweep.due = mover_earliest(target->sweep.due, clock_now() + KEEP_MS);
	else if (period > 0)
		target->sweep.due = mover_earliest(target->sweep.due, began + period);
}

/* Sleeps until then, or until a sweep may be due earlier. */
static void await_sweep(struct mover *mover, int64_t until)
{

	pthread_mutex_lock(&mover->lock);
	while (!atomic_load(&mover->stopping) && !mover->news.sweep && clock_now() < until)
		clock_condition_wait(&mover->changed, &mover->lock, until);
	mover->news.sweep = false;
	pthread_mutex_unlock(&mover->lock);
}

/* How often the namespaces of patterns are listed: as often as the rule with the shortest period is
 * swept. 0: never. */
static int64_t listing_period(const struct mover *mover)
{
	struct rule_set *rules = mover->reload.rules;
	int64_t period = 0;

	for (size_t i = 0; i < rule_set_count(rules); i++) {
		int64_t each = rule_set_at(rules, i)->sweep_ms;

		if (each > 0 && rule_is_pattern(rule_set_at(rules, i)) &&
		    (!period || each < period))
			period = each;
	}
	return period;
}

/* Sweeps what is due; returns when the next is. */
static int64_t sweep_all(struct mover *mover, struct link *link)
{
	struct mover_target *target;
	int64_t next = clock_now() + SWEEP_LOOK_MS;

	for (size_t i = 0; (target = target_at(mover->targets, i)); i++) {
		sweep_if_due(mover, link, target);
		next = mover_earliest(next, target->sweep.due);
	}
	return next;
}

struct listing {
	struct mover *mover;
	struct link *link;
};

static void tell_refused(void *context, const char *database)
{
	const struct listing *listing = context;

	if (!atomic_exchange(&listing->mover->news.unlisted, true))
		log_warning("4013 mover: the collections of '%s' can't be listed, so that only "
			    "those in "
			    "use are swept: %s",
			    database, link_error(listing->link)->message);
}

/* Finds the namespaces that the rules' patterns match now; each becomes a target. */
static enum link_result find_namespaces(struct mover *mover, struct link *link)
{
	struct rule_set *rules = mover->reload.rules;
	struct listing listing = {mover, link};
	const struct namespaces namespaces = {.targets = mover->targets,
					      .rules = rules,
					      .views = true,
					      .refused = tell_refused,
					      .context = &listing};
	enum link_result result = LINK_DONE;

	for (size_t i = 0; result == LINK_DONE && i < rule_set_count(rules); i++) {
		const struct rule *rule = rule_set_at(rules, i);

		if (rule_is_pattern(rule))
			result = namespaces_find(link, &namespaces, rule);
	}
	return result;
}

/* Returns when the next listing is due. */
static int64_t list_if_due(struct mover *mover, struct link *link, int64_t *due)
{
	int64_t period = listing_period(mover);

	if (!period)
		return INT64_MAX;
	if (clock_now() >= *due)
		*due = clock_now() + (find_namespaces(mover, link) == LINK_DONE ? period : KEEP_MS);
	return *due;
}

void *sweeper_run(void *context)
{
	struct mover *mover = context;
	struct link *link = NULL;
	bson_error_t error;
	int64_t next = 0, listing_due = 0;

	ballast_be_patient();
	log_name_thread("sweeper");
	while (!atomic_load(&mover->stopping)) {
		await_sweep(mover, next);
		next = clock_now() + KEEP_MS;
		mover_enter(mover);
		if (atomic_load(&mover->ready) && mover_connect(mover, &link, &error)) {
			next = list_if_due(mover, link, &listing_due);
			next = mover_earliest(next, sweep_all(mover, link));
		}
		mover_leave(mover);
	}
	link_free(link);
	return NULL;
}
