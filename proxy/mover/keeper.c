/* The keeper: a thread that looks at the servers until all is good, learns their names, judges
 * targets again, and collects garbage. */
#include "proxy/mover/keeper.h"

#include "proxy/base/ballast.h"
#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "proxy/fitness/mirror.h"
#include "proxy/mover/garbage.h"
#include "proxy/mover/judgement.h"
#include "proxy/mover/sweeper.h"
#include "proxy/mover/tend.h"
#include "proxy/mover/views_watch.h"
#include "proxy/ownership/gone_rules.h"
#include "proxy/ownership/split_rules.h"
#include "proxy/pace/pacer.h"
#include "proxy/upstream/deployment.h"
#include "proxy/upstream/facts.h"
#include "proxy/upstream/member_names.h"
#include "proxy/upstream/open_reads.h"

#include <stdio.h>

#define NAMES_MS 5000 /* how often it asks servers that have not said their name */
#define LOOK_MS 20
#define OVERFLOWS_MS 2000 /* how often overflow collections are looked for */
#define OVERFLOWS_AT_ONCE 20
#define LOST_MS 10000        /* how often one that is lost is asked for again */
#define LOOK_BYTES (8 << 20) /* of links in one look for garbage */

struct keeper {
	struct mover *mover;
	struct link *link;
	int64_t names_due;
	size_t overflow_at; /* the target whose overflow is looked for next */
	int64_t overflow_due;
	bool trusted;     /* rules that documents are split under wait no more */
	bool told_shared; /* that new rules wait for another process */
};

/* Asks the servers behind the listeners what they call themselves. */
static void learn_names(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	const struct config *config = mover->config;
	const struct places *places = paths_reach(mover->paths)->places;
	const char *server;
	struct link *link;
	bson_error_t error;

	if (clock_now() < keeper->names_due || config->replica_set.on)
		return;
	for (size_t i = 0; i < config->listen_count; i++) {
		server = places_server(places, i);
		if (!server || member_names_known(mover->names, i))
			continue;
		link = link_open_member(config->upstream_uri, server, &mover->stopping, &error);
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
	struct rule_set *rules = mover->reload.rules;

	for (size_t i = 0; i < rule_set_count(rules); i++) {
		const struct rule *rule = rule_set_at(rules, i);
		struct mover_target *target;
		bool found;

		if (rule_is_pattern(rule))
			continue;
		target = target_get(mover->targets, rule, bytes_of(rule->database),
				    bytes_of(rule->collection));
		if (!target) {
			snprintf(reason, size,
				 "'%s.%s' can't be looked at: too many namespaces are known, or "
				 "the rules are being changed",
				 rule->database, rule->collection);
			return MOVER_CHECK_NO_SERVER;
		}
		/* What was found unfit may have been mended. */
		if (judgement_renew_silently(mover, keeper->link, target,
					     target->fitness == FITNESS_UNFIT,
					     &found) != LINK_DONE) {
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
		gone_rules_find(keeper->link, keeper->mover->reload.rules, edited, reason, size);

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
	char left[sizeof(keeper->mover->check.reason)];
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

	switch (deployment_look(keeper->link, paths_reach(mover->paths), mover->names,
				&mover->stopping, reason, size)) {
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

/* Members of a replica set have to be known before one can be asked. */
static enum mover_check await_members(struct mover *mover, char *reason, size_t size)
{
	struct places *places = paths_reach(mover->paths)->places;
	enum places_state state;

	while ((state = places_look(places, reason, size)) == PLACES_UNSEEN &&
	       !atomic_load(&mover->stopping))
		mover_pause(mover, LOOK_MS);
	switch (state) {
	case PLACES_KNOWN:
		return MOVER_CHECK_GOOD;
	case PLACES_WRONG:
		return MOVER_CHECK_BAD;
	case PLACES_UNSEEN:
	case PLACES_WAITING:
		break;
	}
	return MOVER_CHECK_NO_SERVER;
}

/* What was touched meanwhile, and was forgotten or never noted. */
static void sweep_resumed(void *context, const struct rule *rule)
{
	struct mover *mover = context;
	struct mover_target *target;

	for (size_t i = 0; (target = target_at(mover->targets, i)); i++)
		if (target->rule == rule)
			sweeper_soon(mover, target);
}

static enum link_result look_at_pace(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;

	return pacer_look(mover->pacer, keeper->link, mover->metrics, sweep_resumed, mover);
}

static enum mover_check check_servers(struct keeper *keeper, char *reason, size_t size)
{
	struct mover *mover = keeper->mover;
	bson_error_t error = {0};
	enum mover_check check = await_members(mover, reason, size);

	if (check != MOVER_CHECK_GOOD)
		return check;
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
	if (views_look_now(mover->views, mover, keeper->link) != LINK_DONE ||
	    look_at_pace(keeper) != LINK_DONE) {
		snprintf(reason, size, "%s", link_error(keeper->link)->message);
		return MOVER_CHECK_NO_SERVER;
	}
	return MOVER_CHECK_GOOD;
}

static void keep_check(struct mover *mover, enum mover_check check, const char *reason)
{
	bool news;

	pthread_mutex_lock(&mover->lock);
	news = !mover->check.done || strcmp(mover->check.reason, reason) != 0;
	mover->check.done = true;
	mover->check.outcome = check;
	snprintf(mover->check.reason, sizeof(mover->check.reason), "%s", reason);
	pthread_cond_broadcast(&mover->changed);
	pthread_mutex_unlock(&mover->lock);
	if (news && check == MOVER_CHECK_BAD)
		log_error("5006 %s", reason);
	else if (news && check == MOVER_CHECK_NO_SERVER && !atomic_load(&mover->stopping))
		log_warning("2025 the servers can't be looked at yet; trying on: %s", reason);
}

/* Until all is known to be good; the first outcome is what mover_first_check tells. */
static void check_until_good(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	char reason[sizeof(mover->check.reason)] = "";
	enum mover_check check;

	if (atomic_load(&mover->ready))
		return;
	check = check_servers(keeper, reason, sizeof(reason));
	keep_check(mover, check, reason);
	if (check == MOVER_CHECK_GOOD) {
		atomic_store(&mover->answered_at, clock_now());
		atomic_store(&mover->ready, true);
		sweeper_wake(mover);
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

	if (!atomic_exchange(&mover->news.recheck, false) &&
	    target_unfit_count(mover->targets) == 0)
		return;
	for (size_t i = 0; (target = target_at(mover->targets, i)); i++) {
		if (recheck_is_due(target) &&
		    (!mover_connect(mover, &keeper->link, &error) ||
		     judgement_renew(mover, keeper->link, target, true) != LINK_DONE)) {
			atomic_store(&target->recheck, true);
			atomic_store(&mover->news.recheck, true);
			continue;
		}
		if (target->fitness != FITNESS_FIT ||
		    !atomic_exchange(&target->mirror_due, false) ||
		    (mover_connect(mover, &keeper->link, &error) &&
		     mirror_renew(keeper->link, target) != LINK_LOST))
			continue;
		atomic_store(&target->mirror_due, true);
		atomic_store(&mover->news.recheck, true);
	}
}

/* It is not the one that was judged. */
static bool overflow_is_other(struct keeper *keeper, const struct mover_target *target)
{
	struct collection_facts facts = {0};
	uint64_t uuid[2];
	enum link_result result = facts_read_entry(keeper->link, target->overflow_database,
						   target->overflow_collection, &facts);

	facts_uuid(&facts, uuid);
	facts_fini(&facts);
	return result == LINK_DONE &&
	       (uuid[0] != target->stored.uuid[0] || uuid[1] != target->stored.uuid[1]);
}

static bool overflow_is_due(struct keeper *keeper, const struct mover_target *target)
{
	if (target->stored.lost)
		return clock_now() >= target->judged_at + LOST_MS;
	return target->fitness == FITNESS_FIT &&
	       (target->stored.uuid[0] || target->stored.uuid[1]) &&
	       overflow_is_other(keeper, target);
}

/* One that somebody dropped straight at mongod is missed at once. */
static void look_at_overflows(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	struct mover_target *target = NULL;
	bson_error_t error;

	if (!atomic_load(&mover->ready) || clock_now() < keeper->overflow_due ||
	    !mover_connect(mover, &keeper->link, &error))
		return;
	keeper->overflow_due = clock_now() + OVERFLOWS_MS;
	for (int i = 0; i < OVERFLOWS_AT_ONCE; i++) {
		target = target_at(mover->targets, keeper->overflow_at++);
		if (!target)
			break;
		if (!overflow_is_due(keeper, target))
			continue;
		atomic_store(&target->judged_at, MOVER_NEVER);
		atomic_store(&target->recheck, true);
		atomic_store(&mover->news.recheck, true);
	}
	if (!target)
		keeper->overflow_at = 0;
}

static void keep_pace(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	bson_error_t error;

	if (atomic_load(&mover->ready) && mover_connect(mover, &keeper->link, &error))
		(void)!look_at_pace(keeper);
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
		mover_queue_give_back(mover->garbage, works, count, MOVER_ABSENT);
		mover_pause(mover, CONNECT_PAUSE_MS);
		return;
	}
	for (; count > 0; works += filled, count -= filled) {
		filled = fill_look(works, count);
		if (target_is_gone(works[0]->target)) {
			mover_queue_give_back(mover->garbage, works, filled, MOVER_SETTLED);
			continue;
		}
		if (gc_look(mover->gc, keeper->link, works, filled) == LINK_REFUSED)
			metric_add_shared(&mover->metrics->move_errors, 1);
	}
}

static bool is_settled(struct mover *mover)
{
	bool settled;

	pthread_mutex_lock(&mover->lock);
	settled = mover->reload.settled;
	pthread_mutex_unlock(&mover->lock);
	return settled;
}

/* After a start all rules wait, also those under which others have gone on moving. */
static void trust_split(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	bson_error_t error;

	if (keeper->trusted || mover_was_reloaded(mover) ||
	    !open_reads_were_met(mover->reload.reads) ||
	    !mover_connect(mover, &keeper->link, &error))
		return;
	keeper->trusted =
		split_rules_trust(keeper->link, mover->targets, mover->reload.rules) == LINK_DONE;
	sweeper_wake(mover);
}

/* A start serves an account without the right to look; a reload with a new rule refuses it. */
static bool may_not_see(struct mover *mover)
{
	return open_reads_are_unseen(mover->reload.reads) && !mover_was_reloaded(mover);
}

/* Clients of the process before would read short arrays. */
static bool is_shared(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;

	if (!mover_was_reloaded(mover) || !atomic_load(&mover->reload.shared))
		return false;
	if (!keeper->told_shared)
		log_info("4050 mover: the process before this one still serves connections, and "
			 "knows nothing of the new rules; until it has ended, no tail moves under "
			 "these rules");
	keeper->told_shared = true;
	return true;
}

/* A new rule may move, once nobody goes on with a read that began without it. */
static void let_go(struct keeper *keeper)
{
	struct mover *mover = keeper->mover;
	const struct open_reads_place place = {.config = mover->config,
					       .places = paths_reach(mover->paths)->places,
					       .rules = mover->reload.rules,
					       .targets = mover->targets,
					       .stopping = &mover->stopping};

	if (!atomic_load(&mover->ready) || !is_settled(mover) ||
	    !target_set_waits(mover->targets) || is_shared(keeper))
		return;
	if (!open_reads_have_ended(mover->reload.reads, &place) && !may_not_see(mover)) {
		trust_split(keeper);
		return;
	}
	if (mover_was_reloaded(mover) || open_reads_were_told(mover->reload.reads))
		log_info("4046 mover: tails move under the new rules, too, from now on");
	target_set_go(mover->targets);
	sweeper_wake(mover);
}

void *keeper_run(void *context)
{
	struct mover *mover = context;
	struct keeper keeper = {.mover = mover};
	struct mover_work *works[MOVER_TAKE_MAX];
	int64_t due, next;
	size_t count;
	bool more;

	ballast_be_patient();
	log_name_thread("keeper");
	while (!atomic_load(&mover->stopping)) {
		mover_enter(mover);
		check_until_good(&keeper);
		learn_names(&keeper);
		let_go(&keeper);
		more = tend_list_work(mover->tended, mover, &keeper.link);
		look_at_overflows(&keeper);
		check_again(&keeper);
		look_at_views(&keeper);
		keep_pace(&keeper);
		due = gc_sweep_out(mover->gc, keeper.link, clock_now());
		count = mover_queue_take(mover->garbage, clock_now(), works, &next);
		if (count > 0)
			look_for_garbage(&keeper, works, count);
		mover_leave(mover);
		if (count == 0 && !more)
			mover_queue_wait(mover->garbage, mover_earliest(mover_earliest(due, next),
									clock_now() + KEEP_MS));
	}
	link_free(keeper.link);
	return NULL;
}
