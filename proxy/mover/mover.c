/* The mover as the rest of the program sees it: its threads are started and stopped, notes are
 * taken.
 */
#include "proxy/mover/mover.h"

#include "proxy/base/ballast.h"
#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "proxy/mover/garbage.h"
#include "proxy/mover/keeper.h"
#include "proxy/mover/rounds.h"
#include "proxy/mover/servers_watch.h"
#include "proxy/mover/sweeper.h"
#include "proxy/mover/tend.h"
#include "proxy/mover/views_watch.h"
#include "proxy/mover/warn.h"
#include "proxy/pace/pacer.h"
#include "proxy/upstream/member_names.h"
#include "proxy/upstream/members.h"
#include "proxy/upstream/open_reads.h"

#include <stdio.h>
#include <stdlib.h>

#define ROUND_THREADS 2
#define MEMBERS_MS 10000     /* between two looks at the members, if nothing changes */
#define SILENCE_MS 6000      /* for how long none may answer before we are not ready */
#define HOLD_SLICE_MS 100    /* how often a reload that waits is asked whether it goes on */
#define GARBAGE_WINDOW_MS 20 /* notes that come within it are looked at by one query */

/* What threads share. */

void mover_pause(struct mover *mover, int64_t milliseconds)
{
	int64_t until = clock_now() + milliseconds;

	pthread_mutex_lock(&mover->lock);
	while (!atomic_load(&mover->stopping) && clock_now() < until)
		clock_condition_wait(&mover->changed, &mover->lock, until);
	pthread_mutex_unlock(&mover->lock);
}

void mover_enter(struct mover *mover)
{
	pthread_mutex_lock(&mover->lock);
	while (mover->reload.held && !atomic_load(&mover->stopping))
		pthread_cond_wait(&mover->changed, &mover->lock);
	mover->reload.working++;
	pthread_mutex_unlock(&mover->lock);
}

void mover_leave(struct mover *mover)
{
	pthread_mutex_lock(&mover->lock);
	mover->reload.working--;
	if (mover->reload.held)
		pthread_cond_broadcast(&mover->changed);
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
		log_warning("2022 " SERVERS_WAITING
			    "%s. Until then no tail moves, and writes that ask for "
			    "a majority wait",
			    text);
}

static void watch_back(void *context, bool told)
{
	if (told)
		log_info("2023 " SERVERS_BACK);
	set_lacking(context, "");
}

static void *run_watcher(void *context)
{
	struct mover *mover = context;
	const struct servers_watch watch = {.config = mover->config,
					    .places = paths_reach(mover->paths)->places,
					    .stopping = &mover->stopping,
					    .works = watch_works,
					    .pause = watch_pause,
					    .answered = watch_answered,
					    .lacks = watch_lacks,
					    .back = watch_back,
					    .context = mover};

	ballast_be_patient();
	log_name_thread("watcher");
	servers_watch_run(&watch);
	return NULL;
}

static void *run_paths(void *context)
{
	struct mover *mover = context;

	ballast_be_patient();
	log_name_thread("paths");
	while (!atomic_load(&mover->stopping)) {
		paths_look(mover->paths, &mover->stopping);
		mover_pause(mover, KEEP_MS);
	}
	return NULL;
}

/* With `replica_set`: what clients are told of members follows what is found. */
static void *run_members(void *context)
{
	struct mover *mover = context;
	struct places *places = paths_reach(mover->paths)->places;
	struct members *members = members_new(mover->config, places, &mover->stopping);
	char reason[512];

	while (!atomic_load(&mover->stopping)) {
		members_look(members);
		for (size_t i = 0; i < mover->config->listen_count; i++)
			member_names_set(mover->names, i, places_server(places, i));
		members_await_change(members,
				     places_look(places, reason, sizeof(reason)) == PLACES_KNOWN
					     ? MEMBERS_MS
					     : KEEP_MS);
	}
	members_free(members);
	return NULL;
}

/* What the rest of the program calls. */

static void start_thread(struct mover *mover, void *(*run)(void *))
{
	require(pthread_create(&mover->threads.all[mover->threads.count++], NULL, run, mover) == 0);
}

struct mover *mover_start(const struct reach *reach, struct metrics *metrics)
{
	struct mover *mover = must_calloc(1, sizeof(*mover));
	const struct config *config = reach->config;

	mover->config = config;
	mover->paths = paths_new(reach);
	mover->metrics = metrics;
	mover->pacer = pacer_new(config);
	mover->reload.rules = rule_set_ref(config->rules);
	mover->targets = target_set_new(config->rules);
	target_set_hold(mover->targets);
	mover->rounds = mover_queue_new();
	mover->garbage = mover_queue_new();
	mover->names = member_names_new(config, reach->places);
	mover->gc = gc_new(mover);
	mover->warnings = mover_warnings_new();
	mover->tended = tend_list_new();
	mover->views = views_look_new();
	mover->reload.reads = open_reads_new();
	mover->reload.settled = true;
	pthread_mutex_init(&mover->lock, NULL);
	pthread_mutex_init(&mover->fitness_lock, NULL);
	clock_condition_init(&mover->changed);
	start_thread(mover, keeper_run);
	start_thread(mover, run_watcher);
	start_thread(mover, run_paths);
	if (config->replica_set.on)
		start_thread(mover, run_members);
	start_thread(mover, sweeper_run);
	for (int i = 0; i < ROUND_THREADS; i++)
		start_thread(mover, rounds_run);
	return mover;
}

/* A command that no server answers, or no majority, is left as by a crash. */
static void join_or_cut(struct mover *mover, pthread_t thread, int64_t until)
{
	struct timespec deadline = clock_timespec(until);

	while (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &deadline) != 0) {
		link_cut_all(&mover->stopping);
		deadline = clock_timespec(clock_now() + LINK_CUT_MS);
	}
}

void mover_end(struct mover *mover)
{
	int64_t until = clock_now() + LINK_ANSWER_MS;

	pthread_mutex_lock(&mover->lock);
	atomic_store(&mover->stopping, true);
	pthread_cond_broadcast(&mover->changed);
	pthread_mutex_unlock(&mover->lock);
	mover_queue_close(mover->rounds);
	mover_queue_close(mover->garbage);
	for (size_t i = 0; i < mover->threads.count; i++)
		join_or_cut(mover, mover->threads.all[i], until);
	mover->threads.count = 0;
	tend_list_close(mover->tended);
}

void mover_stop(struct mover *mover)
{
	mover_end(mover);
	mover_queue_free(mover->rounds);
	mover_queue_free(mover->garbage);
	gc_free(mover->gc);
	mover_warnings_free(mover->warnings);
	tend_list_free(mover->tended);
	views_look_free(mover->views);
	open_reads_free(mover->reload.reads);
	member_names_free(mover->names);
	paths_free(mover->paths);
	pacer_free(mover->pacer);
	target_set_free(mover->targets);
	rule_set_unref(mover->reload.rules);
	pthread_cond_destroy(&mover->changed);
	pthread_mutex_destroy(&mover->lock);
	pthread_mutex_destroy(&mover->fitness_lock);
	free(mover);
}

/* ---- Other rules while the mover runs. */

must_check bool mover_hold(struct mover *mover, int64_t milliseconds, const atomic_bool *stopping)
{
	int64_t until = clock_now() + milliseconds;
	bool held;

	pthread_mutex_lock(&mover->lock);
	mover->reload.held = true;
	while (mover->reload.working > 0 && clock_now() < until && !atomic_load(stopping))
		clock_condition_wait(&mover->changed, &mover->lock,
				     mover_earliest(until, clock_now() + HOLD_SLICE_MS));
	held = mover->reload.working == 0;
	mover->reload.held = held;
	pthread_cond_broadcast(&mover->changed);
	pthread_mutex_unlock(&mover->lock);
	return held;
}

void mover_release(struct mover *mover)
{
	pthread_mutex_lock(&mover->lock);
	mover->reload.held = false;
	pthread_cond_broadcast(&mover->changed);
	pthread_mutex_unlock(&mover->lock);
}

static void meet_exact(struct mover *mover)
{
	for (size_t i = 0; i < rule_set_count(mover->reload.rules); i++) {
		const struct rule *rule = rule_set_at(mover->reload.rules, i);
		struct mover_target *target;

		if (rule_is_pattern(rule))
			continue;
		target = target_get(mover->targets, rule, bytes_of(rule->database),
				    bytes_of(rule->collection));
		if (target)
			atomic_store(&target->recheck, true);
	}
}

/* Of targets that are left. */
static void count_waiting(struct mover *mover)
{
	struct mover_target *target;
	int64_t waiting = 0;

	for (size_t i = 0; (target = target_at(mover->targets, i)); i++)
		waiting += target->sweep.waiting;
	atomic_store(&mover->metrics->existing_waiting, waiting);
}

void mover_take_settings(struct mover *mover, const struct config *config)
{
	pacer_take_settings(mover->pacer, config);
}

must_check unsigned mover_take_rules(struct mover *mover, struct rule_set *rules)
{
	struct rule_set *before = mover->reload.rules;
	unsigned turn;

	pthread_mutex_lock(&mover->lock);
	mover->reload.settled = false;
	turn = ++mover->reload.turn;
	pthread_mutex_unlock(&mover->lock);
	mover->reload.rules = rule_set_ref(rules);
	pacer_take_rules(mover->pacer, rules);
	target_set_take(mover->targets, rules);
	count_waiting(mover);
	open_reads_forget(mover->reload.reads);
	meet_exact(mover);
	rule_set_unref(before);
	atomic_store(&mover->news.recheck, true);
	views_look_soon(mover->views);
	return turn;
}

bool mover_was_reloaded(struct mover *mover)
{
	unsigned turn;

	pthread_mutex_lock(&mover->lock);
	turn = mover->reload.turn;
	pthread_mutex_unlock(&mover->lock);
	return turn > 0;
}

void mover_share(struct mover *mover, bool shares)
{
	atomic_store(&mover->reload.shared, shares);
}

bool mover_rules_wait(struct mover *mover)
{
	return mover_was_reloaded(mover) && target_set_waits(mover->targets);
}

void mover_settled(struct mover *mover, unsigned turn)
{
	pthread_mutex_lock(&mover->lock);
	mover->reload.settled |= turn == mover->reload.turn;
	pthread_mutex_unlock(&mover->lock);
	mover_queue_wake(mover->garbage);
	sweeper_wake(mover);
}

/* ---- Notes. */

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
		sweeper_soon(mover, target);
	else if (note->reason == MOVER_DELETED)
		mover_queue_forget(mover->rounds, target, note, now);
	else
		noted = mover_queue_note(mover->rounds, target, note, now);
	if (noted == MOVER_NOTE_DROPPED)
		drop_note(mover);
	/* Who pushes while an operator has paused the rule, or it waits, waits for nothing. */
	return noted == MOVER_NOTE_HEAVY && !target->reload.waits &&
	       !pacer_pauses(mover->pacer, note->rule);
}

void mover_move_now(struct mover *mover, const struct mover_note *note,
		    void (*done)(void *context, bool moved), void *context)
{
	struct mover_target *target =
		target_get(mover->targets, note->rule, note->database, note->collection);
	struct mover_waiter *waiter;

	if (!target || !note->id_type || target->read_only || target->reload.waits) {
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
	char reason[16];

	return mover_ready(mover) && clock_now() < atomic_load(&mover->answered_at) + SILENCE_MS &&
	       paths_lead(mover->paths, reason, sizeof(reason)) && !target_lost(mover->targets);
}

void mover_doubt(struct mover *mover, size_t listen_index)
{
	paths_doubt(mover->paths, listen_index);
}

must_check bool mover_first_check(struct mover *mover, int64_t milliseconds,
				  enum mover_check *check)
{
	int64_t until = clock_now() + milliseconds;
	bool checked;

	pthread_mutex_lock(&mover->lock);
	while (!mover->check.done && clock_now() < until)
		clock_condition_wait(&mover->changed, &mover->lock, until);
	checked = mover->check.done;
	if (checked)
		*check = mover->check.outcome;
	pthread_mutex_unlock(&mover->lock);
	return checked;
}

/* Unless something else is the reason. */
static void tell_loss(struct mover *mover, bool leads, char *reason, size_t size)
{
	const struct mover_target *lost = target_lost(mover->targets);

	if (leads && lost)
		snprintf(reason, size,
			 "rule '%s': the overflow '%s.%s' was dropped or replaced while documents "
			 "are split there; restore it, or see 'spillway verify'",
			 lost->rule->name, lost->overflow_database, lost->overflow_collection);
}

void mover_not_ready(struct mover *mover, char *reason, size_t size)
{
	const char *lacking = mover->lacking;

	pthread_mutex_lock(&mover->lock);
	if (mover_ready(mover) && clock_now() < atomic_load(&mover->answered_at) + SILENCE_MS)
		tell_loss(mover, paths_lead(mover->paths, reason, size), reason, size);
	else if (mover_ready(mover))
		snprintf(reason, size, "no server has answered for %d seconds%s%s",
			 SILENCE_MS / 1000, lacking[0] ? ": " : "", lacking);
	else
		snprintf(reason, size, "%s", lacking[0] ? lacking : mover->check.reason);
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

bool mover_pauses(const struct mover *mover, const struct rule *rule)
{
	return pacer_pauses(mover->pacer, rule);
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
	atomic_store(&mover->news.recheck, true);
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
