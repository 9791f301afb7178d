/* The mover's threads: two run rounds, one keeps (names, fitness, garbage), one sweeps, one watches
 * whether servers answer. */
#include "proxy/mover/mover.h"
#include "proxy/base/clock.h"

#include "proxy/upstream/deployment.h"
#include "proxy/fitness/fitness.h"
#include "proxy/ownership/gone_rules.h"
#include "proxy/base/log.h"
#include "proxy/upstream/member_names.h"
#include "proxy/mover/garbage.h"
#include "proxy/mover/mover_inner.h"
#include "proxy/mover/look.h"
#include "proxy/spill/round.h"
#include "proxy/mover/tend.h"
#include "proxy/mover/views_watch.h"
#include "proxy/mover/warn.h"
#include "proxy/mover/refit.h"
#include "proxy/mover/servers_watch.h"
#include "proxy/mover/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUND_THREADS 2
#define CONNECT_PAUSE_MS 200
#define KEEP_MS 1000         /* how often the keeper tries again what did not work */
#define JUDGED_MS 60000      /* for how long a judgement holds: others may change the collection */
#define SILENCE_MS 6000      /* for how long none may answer before we are not ready */
#define NAMES_MS 5000        /* how often it asks servers that have not said their name */
#define REFUSED_TRIES 2      /* rounds before what a server refuses is told */
#define DEMAND_TRIES 5       /* rounds before somebody who waits is told that nothing moved */
#define GARBAGE_WINDOW_MS 20 /* notes that come within it are looked at by one query */
#define LOOK_BYTES (8 << 20) /* of links in it */
#define SWEEP_SOON_MS 1000
#define SWEEP_AGAIN_MS \
	10000 /* from a sweep to the next that is asked for, or 20 times as long as it took */
#define SWEEP_LOOK_MS 60000 /* the longest sleep between two looks at what is due */

/* What threads share. */

void mover_pause(struct mover *mover, int64_t milliseconds)
{
	int64_t until = clock_now() + milliseconds;
	struct timespec when = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};

	pthread_mutex_lock(&mover->lock);
	while (!atomic_load(&mover->stopping) && clock_now() < until)
		pthread_cond_timedwait(&mover->changed, &mover->lock, &when);
	pthread_mutex_unlock(&mover->lock);
}

must_check bool mover_connect(struct mover *mover, struct link **link, bson_error_t *error)
{
	if (*link && link_alive(*link))
		return true;
	link_free(*link);
	*link = link_open(mover->config->upstream_uri, &mover->stopping, error);
	if (!*link)
		metric_add_shared(&mover->metrics->upstream_failures, 1);
	return *link != NULL;
}

static bool judgement_holds(const struct mover_target *target)
{
	return target->fitness != FITNESS_UNKNOWN && clock_now() < target->judged_at + JUDGED_MS;
}

/* But for what may have changed on the main collection. */
static bool overflow_is_judged(const struct link *link, const struct mover_target *target)
{
	return judgement_holds(target) && target->judged_on == link_process(link);
}

static bool is_judged(const struct link *link, const struct mover_target *target)
{
	return overflow_is_judged(link, target) && !target->main_changed;
}

static enum link_result judge_now(struct mover *mover, struct link *link,
				  struct mover_target *target)
{
	bool both = target->fitness != FITNESS_FIT || !overflow_is_judged(link, target);
	enum link_result result;

	atomic_store(&target->main_changed, false);
	result = fitness_check(link, mover->targets, target,
			       both ? FITNESS_OF_BOTH : FITNESS_OF_MAIN);
	if (result != LINK_DONE)
		atomic_store(&target->main_changed, true);
	else if (both)
		atomic_store(&target->judged_at, clock_now());
	if (result == LINK_DONE) {
		atomic_store(&target->mirror_due, true);
		atomic_store(&mover->recheck_due, true);
	}
	return result;
}

/* `found`: it has become unfit just now. */
static enum link_result judge(struct mover *mover, struct link *link, struct mover_target *target,
			      bool again, bool *found)
{
	enum link_result result = LINK_DONE;

	*found = false;
	if (!again && is_judged(link, target))
		return LINK_DONE;
	pthread_mutex_lock(&mover->fitness_lock);
	if (again || !is_judged(link, target)) {
		enum fitness before = target->fitness;

		result = judge_now(mover, link, target);
		*found = before != FITNESS_UNFIT && target->fitness == FITNESS_UNFIT;
		atomic_store(&mover->metrics->unfit_namespaces,
			     (int64_t)target_unfit_count(mover->targets));
	}
	pthread_mutex_unlock(&mover->fitness_lock);
	return result;
}

must_check enum link_result mover_judge(struct mover *mover, struct link *link,
					struct mover_target *target, bool again)
{
	char reason[sizeof(target->reason)];
	bool found;
	enum link_result result = judge(mover, link, target, again, &found);

	if (found && target_unfit(mover->targets, bytes_of(target->database),
				  bytes_of(target->collection), reason, sizeof(reason)))
		log_error("%s", reason);
	return result;
}

/* A sweep may be due earlier than the sweeper thinks. */
static void wake_sweeper(struct mover *mover)
{
	pthread_mutex_lock(&mover->lock);
	mover->sweep_news = true;
	pthread_cond_broadcast(&mover->changed);
	pthread_mutex_unlock(&mover->lock);
}

void mover_sweep_soon(struct mover *mover, struct mover_target *target)
{
	int64_t soon = clock_now() + SWEEP_SOON_MS, again = target->sweep_again;

	if (soon < again)
		soon = again;
	/* Not looked at yet: that is due at once, but where sweeps are off. */
	if (target->sweep_due == 0 ? target->rule->sweep_ms == 0 : soon < target->sweep_due)
		target->sweep_due = soon;
	wake_sweeper(mover);
}

static void show_queue(struct mover *mover)
{
	atomic_store(&mover->metrics->mover_queue, (int64_t)mover_queue_count(mover->rounds));
}

/* Rounds. */

static void tell(struct mover *mover, struct mover_work *work, const struct round *round,
		 enum round_end end)
{
	if (round->elements > 0)
		mover_queue_tell(mover->rounds, work, true);
	else if (end != ROUND_RETRY || work->tries >= DEMAND_TRIES)
		mover_queue_tell(mover->rounds, work, false);
}

/* Dead generations hold the numbers of a document's batches: a look for garbage, and another round
 * once that is gone. */
static void wait_for_garbage(struct mover *mover, const struct mover_work *work, int64_t now)
{
	struct mover_target *target = work->target;

	mover_queue_look(mover->garbage, target, work->id_type, work->id, now);
	mover_queue_look(mover->rounds, target, work->id_type, work->id,
			 now + target->rule->gc_delay_ms + KEEP_MS);
}

static enum mover_outcome outcome_of(struct mover *mover, const struct mover_work *work,
				     const struct round *round, enum round_end end)
{
	int64_t now = clock_now();

	switch (end) {
	case ROUND_REST:
		if (round->spilled)
			mover_queue_room(mover->rounds, work, MOVER_ROOM_OUTLIER, now);
		return MOVER_SETTLED;
	case ROUND_LEFT:
		mover_queue_room(mover->rounds, work, INT64_MAX, now);
		return MOVER_SETTLED;
	case ROUND_GARBAGE:
		wait_for_garbage(mover, work, now);
		return MOVER_SETTLED;
	case ROUND_RETRY:
		return MOVER_RETRY;
	case ROUND_LOST:
		return MOVER_ABSENT;
	}
	require(!"a round that ends without a name");
}

static enum round_end round_of(struct mover *mover, struct link *link,
			       const struct mover_work *work, struct round *round)
{
	*round = (struct round){.link = link,
				.target = work->target,
				.metrics = mover->metrics,
				.id_type = work->id_type,
				.id = work->id,
				.operation_time = work->operation_time,
				.hot = work->hot,
				.tries = work->tries};
	return round_run(round);
}

static void keep_overlap(struct mover_work *work, const struct round *round)
{
	if (!round->overlapped)
		return;
	if (!work->overlapped || round->overlap_from < work->overlap_from)
		work->overlap_from = round->overlap_from;
	work->overlapped = true;
}

/* Nothing is left to be moved: batches that overlap are stored anew, so that they hold each element
 * once. */
static void mend_overlap(struct mover *mover, struct link *link, struct mover_work *work)
{
	const struct element id = {.type = work->id_type, .value = work->id};
	enum refit end = REFIT_RESTS;

	work->overlapped =
		refit_overlapping(link, work->target, &id, work->overlap_from, &end) == LINK_DONE &&
		end == REFIT_BUSY;
	if (end != REFIT_FOLDED)
		return;
	mover_queue_look(mover->rounds, work->target, id.type, id.value, clock_now());
	mover_queue_look(mover->garbage, work->target, id.type, id.value, clock_now());
}

static void run_round(struct mover *mover, struct link *link, struct mover_work *work)
{
	struct round round;
	enum round_end end = round_of(mover, link, work, &round);

	/* Once or twice somebody may only have been there at the same time. */
	if (round.refused && work->tries >= REFUSED_TRIES)
		mover_warn(mover->warnings, work->target, link_error(link));
	if (end == ROUND_GARBAGE && mover_queue_demanded(mover->rounds, work) &&
	    gc_clear(link, work->target,
		     &(struct element){.type = work->id_type, .value = work->id},
		     mover->metrics) == LINK_DONE)
		end = round_of(mover, link, work, &round);

	if (round.length > 0)
		target_met(mover->targets, work->target, work->id_type, work->id, round.length);
	if (round.elements > 0)
		atomic_store(&mover->metrics->mover_lag_microseconds,
			     1000 * (clock_now() - work->due_since));
	/* Whoever ended the generation has looked before that. */
	if (round.stored_in_vain)
		mover_queue_look(mover->garbage, work->target, work->id_type, work->id,
				 clock_now());
	keep_overlap(work, &round);
	if (end == ROUND_REST && work->overlapped)
		mend_overlap(mover, link, work);
	tell(mover, work, &round, end);
	mover_queue_done(mover->rounds, work, outcome_of(mover, work, &round, end), clock_now());
}

static void give_back(struct mover_queue *queue, struct mover_work **works, size_t count,
		      enum mover_outcome outcome)
{
	for (size_t i = 0; i < count; i++) {
		mover_queue_tell(queue, works[i], false);
		mover_queue_done(queue, works[i], outcome, clock_now());
	}
}

/* Entries of one target: one outlier, one filter, or many documents to be asked about. */
static void work_on(struct mover *mover, struct link *link, struct mover_work **works, size_t count)
{
	struct mover_target *target = works[0]->target;
	bool stores = works[0]->id_type && works[0]->outlier;
	enum link_result result = LINK_DONE;

	/* Who only looks needs no judgement that is fresh. */
	if (stores || target->fitness != FITNESS_FIT)
		result = mover_judge(mover, link, target, false);

	if (result != LINK_DONE) {
		give_back(mover->rounds, works, count, MOVER_ABSENT);
	} else if (target->fitness == FITNESS_UNFIT || target->owner == OWNER_OPEN ||
		   (stores && target->fitness != FITNESS_FIT)) {
		give_back(mover->rounds, works, count, MOVER_SETTLED);
	} else if (!works[0]->id_type) {
		result = look_for_filter(mover, link, works[0]);
		give_back(mover->rounds, works, 1,
			  result == LINK_LOST ? MOVER_ABSENT : MOVER_SETTLED);
	} else if (works[0]->outlier) {
		run_round(mover, link, works[0]);
	} else if (look_at_documents(mover, link, works, count) == LINK_REFUSED) {
		metric_add_shared(&mover->metrics->move_errors, 1);
		mover_warn(mover->warnings, target, link_error(link));
	}
}

static void *run_rounds(void *context)
{
	struct mover *mover = context;
	struct mover_work *works[MOVER_TAKE_MAX];
	struct link *link = NULL;
	bson_error_t error;
	int64_t next;
	size_t count;

	while (!atomic_load(&mover->stopping)) {
		count = mover_queue_take(mover->rounds, clock_now(), works, &next);
		if (count == 0) {
			mover_queue_wait(mover->rounds, next);
		} else if (mover_connect(mover, &link, &error)) {
			work_on(mover, link, works, count);
		} else {
			give_back(mover->rounds, works, count, MOVER_ABSENT);
			mover_pause(mover, CONNECT_PAUSE_MS);
		}
		show_queue(mover);
	}
	link_free(link);
	return NULL;
}

/* The keeper. */

struct keeper {
	struct mover *mover;
	struct link *link;
	int64_t names_due;
};

/* Asks the servers behind the listeners what they call themselves. */
static void learn_names(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	const struct config *config = mover->config;
	struct link *link;
	bson_error_t error;

	if (clock_now() < keeper->names_due)
		return;
	for (size_t i = 0; i < config->listen_count; i++) {
		if (member_names_known(mover->names, i))
			continue;
		link = link_open_member(config->upstream_uri, config->listen[i].server,
					&mover->stopping, &error);
		if (!link)
			continue;
		member_names_learn_hello(mover->names, i, link_hello(link));
		link_free(link);
	}
	keeper->names_due = clock_now() + NAMES_MS;
}

/* Every namespace that the rules name exactly. */
static enum mover_check check_rules(struct keeper *keeper, char *reason, size_t size)
{
	struct mover *mover = keeper->mover;
	struct rule_set *rules = mover->config->rules;

	for (size_t i = 0; i < rule_set_count(rules); i++) {
		const struct rule *rule = rule_set_at(rules, i);
		struct mover_target *target;
		bool found;

		if (rule_is_pattern(rule))
			continue;
		target = target_get(mover->targets, rule, bytes_of(rule->database),
				    bytes_of(rule->collection));
		require(target);
		/* What was found unfit may have been mended. */
		if (judge(mover, keeper->link, target, target->fitness == FITNESS_UNFIT, &found) !=
		    LINK_DONE) {
			snprintf(reason, size, "%s", link_error(keeper->link)->message);
			return MOVER_CHECK_NO_SERVER;
		}
		if (target_unfit(mover->targets, bytes_of(rule->database),
				 bytes_of(rule->collection), reason, size))
			return MOVER_CHECK_BAD;
	}
	return MOVER_CHECK_GOOD;
}

/* What was spilled under rules that are not in the file. `edited`: records that may go. */
static enum mover_check check_gone(struct keeper *keeper, struct buffer *edited, char *reason,
				   size_t size)
{
	enum link_result result =
		gone_rules_find(keeper->link, keeper->mover->config->rules, edited, reason, size);

	if (result == LINK_LOST) {
		snprintf(reason, size, "%s", link_error(keeper->link)->message);
		return MOVER_CHECK_NO_SERVER;
	}
	return reason[0] ? MOVER_CHECK_BAD : MOVER_CHECK_GOOD;
}

/* Once no rule is gone clients may connect: namespaces that no rule is on are read as they are. */
static enum mover_check check_file(struct keeper *keeper, char *reason, size_t size)
{
	auto_buffer struct buffer edited = {0};
	char left[sizeof(keeper->mover->check_reason)];
	enum mover_check gone = check_gone(keeper, &edited, left, sizeof(left));
	enum mover_check check;

	if (gone == MOVER_CHECK_GOOD)
		atomic_store(&keeper->mover->admits, true);
	check = check_rules(keeper, reason, size);
	if (check == MOVER_CHECK_GOOD && gone != MOVER_CHECK_GOOD) {
		snprintf(reason, size, "%s", left);
		return gone;
	}
	if (check == MOVER_CHECK_GOOD &&
	    gone_rules_remove_edited(keeper->link, buffer_view(&edited)) == LINK_LOST) {
		snprintf(reason, size, "%s", link_error(keeper->link)->message);
		return MOVER_CHECK_NO_SERVER;
	}
	return check;
}

/* Before anything is made there. */
static enum mover_check check_deployment(struct keeper *keeper, char *reason, size_t size)
{
	struct mover *mover = keeper->mover;

	switch (deployment_look(keeper->link, mover->config, mover->names, &mover->stopping, reason,
				size)) {
	case DEPLOYMENT_FITS:
		return MOVER_CHECK_GOOD;
	case DEPLOYMENT_OTHER:
		return MOVER_CHECK_BAD;
	case DEPLOYMENT_UNSEEN:
		return MOVER_CHECK_NO_SERVER;
	case DEPLOYMENT_LOST:
		break;
	}
	snprintf(reason, size, "%s", link_error(keeper->link)->message);
	return MOVER_CHECK_NO_SERVER;
}

static enum mover_check check_servers(struct keeper *keeper, char *reason, size_t size)
{
	struct mover *mover = keeper->mover;
	bson_error_t error = {0};
	enum mover_check check;

	learn_names(keeper);
	if (!mover_connect(mover, &keeper->link, &error)) {
		if (link_sign_in_failed(&error, reason, size))
			return MOVER_CHECK_BAD;
		snprintf(reason, size, "%s", error.message);
		return MOVER_CHECK_NO_SERVER;
	}
	check = check_deployment(keeper, reason, size);
	if (check == MOVER_CHECK_GOOD)
		check = check_file(keeper, reason, size);
	if (check != MOVER_CHECK_GOOD)
		return check;
	if (views_look_now(mover->views, mover, keeper->link) != LINK_DONE) {
		snprintf(reason, size, "%s", link_error(keeper->link)->message);
		return MOVER_CHECK_NO_SERVER;
	}
	return MOVER_CHECK_GOOD;
}

static void keep_check(struct mover *mover, enum mover_check check, const char *reason)
{
	bool news;

	pthread_mutex_lock(&mover->lock);
	news = !mover->checked || strcmp(mover->check_reason, reason) != 0;
	mover->checked = true;
	mover->check = check;
	snprintf(mover->check_reason, sizeof(mover->check_reason), "%s", reason);
	pthread_cond_broadcast(&mover->changed);
	pthread_mutex_unlock(&mover->lock);
	if (news && check == MOVER_CHECK_BAD)
		log_error("%s", reason);
	else if (news && check == MOVER_CHECK_NO_SERVER && !atomic_load(&mover->stopping))
		log_warning("the servers can't be looked at yet; trying on: %s", reason);
}

/* Until all is known to be good; the first outcome is what mover_first_check tells. */
static void check_until_good(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	char reason[sizeof(mover->check_reason)] = "";
	enum mover_check check;

	if (atomic_load(&mover->ready))
		return;
	check = check_servers(keeper, reason, sizeof(reason));
	keep_check(mover, check, reason);
	if (check == MOVER_CHECK_GOOD) {
		atomic_store(&mover->answered_at, clock_now());
		atomic_store(&mover->ready, true);
		wake_sweeper(mover);
	}
}

/* Nobody works on an unfit target, so nobody else would see that it was mended. */
static bool recheck_is_due(struct mover_target *target)
{
	return atomic_exchange(&target->recheck, false) ||
	       (target->fitness == FITNESS_UNFIT && !judgement_holds(target));
}

static void check_again(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	struct mover_target *target;
	bson_error_t error;

	if (!atomic_exchange(&mover->recheck_due, false) && target_unfit_count(mover->targets) == 0)
		return;
	for (size_t i = 0; (target = target_at(mover->targets, i)); i++) {
		if (recheck_is_due(target) &&
		    (!mover_connect(mover, &keeper->link, &error) ||
		     mover_judge(mover, keeper->link, target, true) != LINK_DONE)) {
			atomic_store(&target->recheck, true);
			atomic_store(&mover->recheck_due, true);
			continue;
		}
		if (target->fitness != FITNESS_FIT ||
		    !atomic_exchange(&target->mirror_due, false) ||
		    (mover_connect(mover, &keeper->link, &error) &&
		     fitness_mirror(keeper->link, target) != LINK_LOST))
			continue;
		atomic_store(&target->mirror_due, true);
		atomic_store(&mover->recheck_due, true);
	}
}
static void look_at_views(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	bson_error_t error;

	if (!atomic_load(&mover->ready) || !views_look_due(mover->views))
		return;
	if (!mover_connect(mover, &keeper->link, &error) ||
	    views_look_now(mover->views, mover, keeper->link) != LINK_DONE)
		mover_pause(mover, CONNECT_PAUSE_MS);
}

/* How many of these go into one command: as many as their links leave room for. */
static size_t fill_look(struct mover_work **works, size_t count)
{
	size_t filled = 1;

	for (size_t size = works[0]->id.length; filled < count; filled++) {
		size += works[filled]->id.length;
		if (size > LOOK_BYTES)
			break;
	}
	return filled;
}

static void look_for_garbage(struct keeper *keeper, struct mover_work **works, size_t count)
{
	struct mover *mover = keeper->mover;
	bson_error_t error;
	size_t filled;

	if (!mover_connect(mover, &keeper->link, &error)) {
		give_back(mover->garbage, works, count, MOVER_ABSENT);
		mover_pause(mover, CONNECT_PAUSE_MS);
		return;
	}
	for (; count > 0; works += filled, count -= filled) {
		filled = fill_look(works, count);
		if (gc_look(mover->gc, keeper->link, works, filled) == LINK_REFUSED)
			metric_add_shared(&mover->metrics->move_errors, 1);
	}
}

static int64_t earliest(int64_t one, int64_t other)
{
	return one < other ? one : other;
}

static void *run_keeper(void *context)
{
	struct mover *mover = context;
	struct keeper keeper = {.mover = mover};
	struct mover_work *works[MOVER_TAKE_MAX];
	int64_t due, next;
	size_t count;
	bool more;

	while (!atomic_load(&mover->stopping)) {
		check_until_good(&keeper);
		learn_names(&keeper);
		more = tend_list_work(mover->tended, mover, &keeper.link);
		check_again(&keeper);
		look_at_views(&keeper);
		due = gc_sweep_out(mover->gc, keeper.link, clock_now());
		count = mover_queue_take(mover->garbage, clock_now(), works, &next);
		if (count > 0)
			look_for_garbage(&keeper, works, count);
		else if (!more)
			mover_queue_wait(mover->garbage,
					 earliest(earliest(due, next), clock_now() + KEEP_MS));
	}
	link_free(keeper.link);
	return NULL;
}

/* The sweeper. */

static void sweep_if_due(struct mover *mover, struct link *link, struct mover_target *target)
{
	int64_t began = clock_now(), took, period = target->rule->sweep_ms;
	bool first = target->sweep_due == 0;
	enum link_result result;

	if (target->sweep_due > began)
		return;
	target->sweep_due = INT64_MAX;
	if ((first && period == 0) || target->read_only)
		return; /* off */
	result = mover_judge(mover, link, target, !first);
	if (result == LINK_DONE && target->fitness == FITNESS_FIT)
		result = sweep_target(mover, link, target);
	took = clock_now() - began;
	target->sweep_again =
		clock_now() + (20 * took > SWEEP_AGAIN_MS ? 20 * took : SWEEP_AGAIN_MS);
	if (result == LINK_LOST)
		target->sweep_due = earliest(target->sweep_due, clock_now() + KEEP_MS);
	else if (period > 0)
		target->sweep_due = earliest(target->sweep_due, began + period);
}

/* Sleeps until then, or until a sweep may be due earlier. */
static void await_sweep(struct mover *mover, int64_t until)
{
	struct timespec when = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};

	pthread_mutex_lock(&mover->lock);
	while (!atomic_load(&mover->stopping) && !mover->sweep_news && clock_now() < until)
		pthread_cond_timedwait(&mover->changed, &mover->lock, &when);
	mover->sweep_news = false;
	pthread_mutex_unlock(&mover->lock);
}

/* How often the namespaces of patterns are listed: as often as the rule with the shortest period is
 * swept. 0: never. */
static int64_t listing_period(const struct mover *mover)
{
	struct rule_set *rules = mover->config->rules;
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
		next = earliest(next, target->sweep_due);
	}
	return next;
}

static void *run_sweeper(void *context)
{
	struct mover *mover = context;
	struct link *link = NULL;
	bson_error_t error;
	int64_t period = listing_period(mover), listing_due = period ? 0 : INT64_MAX;
	int64_t next = clock_now() + KEEP_MS;

	while (!atomic_load(&mover->stopping)) {
		await_sweep(mover, earliest(next, listing_due));
		next = clock_now() + KEEP_MS;
		if (!atomic_load(&mover->ready) || !mover_connect(mover, &link, &error))
			continue;
		if (clock_now() >= listing_due)
			listing_due = clock_now() + (sweep_find_namespaces(mover, link) == LINK_DONE
							     ? period
							     : KEEP_MS);
		next = sweep_all(mover, link);
	}
	link_free(link);
	return NULL;
}

/* The watcher. */

static bool watch_works(void *context)
{
	return atomic_load(&((struct mover *)context)->ready);
}

static void watch_pause(void *context, int64_t milliseconds)
{
	mover_pause(context, milliseconds);
}

static void watch_answered(void *context)
{
	struct mover *mover = context;

	if (atomic_load(&mover->ready))
		atomic_store(&mover->answered_at, clock_now());
}

static void set_lacking(struct mover *mover, const char *text)
{
	pthread_mutex_lock(&mover->lock);
	snprintf(mover->lacking, sizeof(mover->lacking), "%s", text);
	pthread_mutex_unlock(&mover->lock);
}

static void watch_lacks(void *context, const char *text, bool first)
{
	set_lacking(context, text);
	if (first)
		log_warning(SERVERS_WAITING "%s. Until then no tail moves, and writes that ask for "
					    "a majority wait",
			    text);
}

static void watch_back(void *context, bool told)
{
	if (told)
		log_info(SERVERS_BACK);
	set_lacking(context, "");
}

static void *run_watcher(void *context)
{
	struct mover *mover = context;
	const struct servers_watch watch = {.config = mover->config,
					    .stopping = &mover->stopping,
					    .works = watch_works,
					    .pause = watch_pause,
					    .answered = watch_answered,
					    .lacks = watch_lacks,
					    .back = watch_back,
					    .context = mover};

	servers_watch_run(&watch);
	return NULL;
}

/* What the rest of the program calls. */

static void start_thread(struct mover *mover, void *(*run)(void *))
{
	require(pthread_create(&mover->threads[mover->thread_count++], NULL, run, mover) == 0);
}

struct mover *mover_start(const struct config *config, struct metrics *metrics)
{
	struct mover *mover = must_calloc(1, sizeof(*mover));
	pthread_condattr_t clock;

	mover->config = config;
	mover->metrics = metrics;
	mover->targets = target_set_new(config->rules);
	mover->rounds = mover_queue_new();
	mover->garbage = mover_queue_new();
	mover->names = member_names_new(config);
	mover->gc = gc_new(mover);
	mover->warnings = mover_warnings_new();
	mover->tended = tend_list_new();
	mover->views = views_look_new();
	pthread_mutex_init(&mover->lock, NULL);
	pthread_mutex_init(&mover->fitness_lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&mover->changed, &clock);
	pthread_condattr_destroy(&clock);
	start_thread(mover, run_keeper);
	start_thread(mover, run_watcher);
	start_thread(mover, run_sweeper);
	for (int i = 0; i < ROUND_THREADS; i++)
		start_thread(mover, run_rounds);
	return mover;
}

/* A command that no server answers, or no majority, is left as by a crash. */
static void join_or_cut(struct mover *mover, pthread_t thread, int64_t until)
{
	struct timespec deadline = {until / 1000, until % 1000 * 1000000};

	while (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &deadline) != 0) {
		link_cut_all(&mover->stopping);
		until = clock_now() + LINK_CUT_MS;
		deadline = (struct timespec){until / 1000, until % 1000 * 1000000};
	}
}

void mover_stop(struct mover *mover)
{
	int64_t until = clock_now() + LINK_ANSWER_MS;

	pthread_mutex_lock(&mover->lock);
	atomic_store(&mover->stopping, true);
	pthread_cond_broadcast(&mover->changed);
	pthread_mutex_unlock(&mover->lock);
	mover_queue_close(mover->rounds);
	mover_queue_close(mover->garbage);
	for (size_t i = 0; i < mover->thread_count; i++)
		join_or_cut(mover, mover->threads[i], until);
	mover_queue_free(mover->rounds);
	mover_queue_free(mover->garbage);
	gc_free(mover->gc);
	mover_warnings_free(mover->warnings);
	tend_list_free(mover->tended);
	views_look_free(mover->views);
	member_names_free(mover->names);
	target_set_free(mover->targets);
	pthread_cond_destroy(&mover->changed);
	pthread_mutex_destroy(&mover->lock);
	pthread_mutex_destroy(&mover->fitness_lock);
	free(mover);
}

static void drop_note(struct mover *mover)
{
	metric_add_shared(&mover->metrics->notes_dropped, 1);
}

bool mover_note(struct mover *mover, const struct mover_note *note)
{
	struct mover_target *target =
		target_get(mover->targets, note->rule, note->database, note->collection);
	enum mover_noted noted = MOVER_NOTE_KEPT;
	int64_t now = clock_now();

	if (!target) {
		drop_note(mover);
		return false;
	}
	if (target->read_only)
		return false;
	if (note->id_type && (note->reason == MOVER_CHANGED || note->reason == MOVER_EDITED ||
			      note->reason == MOVER_DELETED))
		mover_queue_look_behind(mover->garbage, target, note, now, now + GARBAGE_WINDOW_MS);
	if (note->reason == MOVER_SOMEWHERE)
		mover_sweep_soon(mover, target);
	else if (note->reason == MOVER_DELETED)
		mover_queue_forget(mover->rounds, target, note, now);
	else
		noted = mover_queue_note(mover->rounds, target, note, now);
	if (noted == MOVER_NOTE_DROPPED)
		drop_note(mover);
	return noted == MOVER_NOTE_HEAVY;
}

void mover_move_now(struct mover *mover, const struct mover_note *note,
		    void (*done)(void *context, bool moved), void *context)
{
	struct mover_target *target =
		target_get(mover->targets, note->rule, note->database, note->collection);
	struct mover_waiter *waiter;

	if (!target || !note->id_type || target->read_only) {
		done(context, false);
		return;
	}
	waiter = must_calloc(1, sizeof(*waiter));
	waiter->done = done;
	waiter->context = context;
	if (!mover_queue_demand(mover->rounds, target, note, waiter, clock_now()))
		drop_note(mover);
}

void mover_tend(struct mover *mover, const struct mover_note *note, enum mover_tending what,
		void (*done)(void *context, bool tended), void *context)
{
	struct mover_target *target =
		target_get(mover->targets, note->rule, note->database, note->collection);

	if (!target || !mover_ready(mover)) {
		done(context, false);
		return;
	}
	tend_list_add(mover->tended, target, what, done, context);
	mover_queue_wake(mover->garbage);
}

bool mover_admits(const struct mover *mover)
{
	return atomic_load(&mover->admits);
}

bool mover_ready(const struct mover *mover)
{
	return atomic_load(&mover->ready);
}

bool mover_serves(const struct mover *mover)
{
	return mover_ready(mover) && clock_now() < atomic_load(&mover->answered_at) + SILENCE_MS;
}

must_check bool mover_first_check(struct mover *mover, int64_t milliseconds,
				  enum mover_check *check)
{
	int64_t until = clock_now() + milliseconds;
	struct timespec when = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
	bool checked;

	pthread_mutex_lock(&mover->lock);
	while (!mover->checked && clock_now() < until)
		pthread_cond_timedwait(&mover->changed, &mover->lock, &when);
	checked = mover->checked;
	if (checked)
		*check = mover->check;
	pthread_mutex_unlock(&mover->lock);
	return checked;
}

void mover_not_ready(struct mover *mover, char *reason, size_t size)
{
	const char *lacking = mover->lacking;

	pthread_mutex_lock(&mover->lock);
	if (mover_ready(mover))
		snprintf(reason, size, "no server has answered for %d seconds%s%s",
			 SILENCE_MS / 1000, lacking[0] ? ": " : "", lacking);
	else
		snprintf(reason, size, "%s", lacking[0] ? lacking : mover->check_reason);
	pthread_mutex_unlock(&mover->lock);
}

bool mover_lacks(struct mover *mover, char *what, size_t size)
{
	pthread_mutex_lock(&mover->lock);
	snprintf(what, size, "%s", mover->lacking);
	pthread_mutex_unlock(&mover->lock);
	return what[0];
}

must_check bool mover_view(struct mover *mover, size_t index, struct target_view *view)
{
	return target_view(mover->targets, index, view);
}

size_t mover_view_count(struct mover *mover)
{
	return target_count(mover->targets);
}

bool mover_unfit(struct mover *mover, struct bytes database, struct bytes collection, char *reason,
		 size_t size)
{
	return target_unfit(mover->targets, database, collection, reason, size);
}

/* No collection: anywhere in the database, be it the array's or the overflow's. */
static bool target_lies_in(const struct mover_target *target, struct bytes database,
			   struct bytes collection)
{
	if (collection.length == 0)
		return bytes_are(database, target->database) ||
		       bytes_are(database, target->overflow_database);
	return bytes_are(database, target->database) && bytes_are(collection, target->collection);
}

static void recheck_soon(struct mover *mover, struct mover_target *target)
{
	atomic_store(&target->recheck, true);
	atomic_store(&mover->recheck_due, true);
}

void mover_recheck(struct mover *mover, struct bytes database, struct bytes collection)
{
	struct mover_target *target;

	for (size_t i = 0; (target = target_at(mover->targets, i)); i++) {
		if (!target_lies_in(target, database, collection))
			continue;
		atomic_store(&target->main_changed, true);
		recheck_soon(mover, target);
	}
	mover_queue_wake(mover->garbage);
}

/* An overflow in another database stays behind when its main collection's is dropped. */
static void recheck_gone(struct mover *mover, struct mover_target *target, struct bytes database,
			 bool whole)
{
	atomic_store(&target->judged_at, MOVER_NEVER);
	if (target->fitness == FITNESS_UNFIT)
		recheck_soon(mover, target);
	if (whole && bytes_are(database, target->database) &&
	    !bytes_are(database, target->overflow_database))
		tend_list_add(mover->tended, target, MOVER_TEND_GONE, NULL, NULL);
}

/* Nothing is asked of the server before somebody needs it: a database may be dropped, and filled,
 * many times a second. */
void mover_recheck_gone(struct mover *mover, struct bytes database, struct bytes collection)
{
	struct mover_target *target;

	for (size_t i = 0; (target = target_at(mover->targets, i)); i++)
		if (target_lies_in(target, database, collection))
			recheck_gone(mover, target, database, collection.length == 0);
	if (collection.length == 0)
		views_look_soon(mover->views);
	mover_queue_wake(mover->garbage);
}

bool mover_advertised(struct mover *mover, struct bytes member, struct bytes *advertised)
{
	return member_names_find(mover->names, member, advertised);
}

void mover_learn_name(struct mover *mover, size_t listen_index, struct bytes me)
{
	member_names_learn(mover->names, listen_index, me);
}
