/* The threads that run rounds: they take what is due from the queue, and move tails. */
#include "proxy/mover/rounds.h"

#include "proxy/base/ballast.h"
#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "proxy/mover/garbage.h"
#include "proxy/mover/judgement.h"
#include "proxy/mover/look.h"
#include "proxy/mover/refit.h"
#include "proxy/mover/warn.h"
#include "proxy/pace/pacer.h"
#include "proxy/spill/round.h"

#define REFUSED_TRIES 2 /* rounds before what a server refuses is told */
#define WAITS_MS 1000   /* how often what a new rule may not move yet is looked at */
#define DEMAND_TRIES 5  /* rounds before somebody who waits is told that nothing moved */

static void show_queue(struct mover *mover)
{
	atomic_store(&mover->metrics->mover_queue, (int64_t)mover_queue_count(mover->rounds));
}

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
	if (round->overlapped && round->overlap_from < work->overlap_from)
		work->overlap_from = round->overlap_from;
}

/* Nothing is left to be moved: batches that overlap are stored anew, so that they hold each element
 * once. */
static void mend_overlap(struct mover *mover, struct link *link, struct mover_work *work)
{
	const struct element id = {.type = work->id_type, .value = work->id};
	enum refit end = REFIT_RESTS;

	if (refit_overlapping(link, work->target, &id, work->overlap_from, &end) != LINK_DONE ||
	    end != REFIT_BUSY)
		work->overlap_from = MOVER_NO_OVERLAP;
	if (end != REFIT_FOLDED)
		return;
	mover_queue_look(mover->rounds, work->target, id.type, id.value, clock_now());
	mover_queue_look(mover->garbage, work->target, id.type, id.value, clock_now());
}

/* Clients that edit the document in place, one behind the other, are nothing to mend. */
static bool wants_mending(const struct link *link)
{
	return link_error(link)->code != ERROR_WRITE_CONFLICT;
}

static void run_round(struct mover *mover, struct link *link, struct mover_work *work)
{
	struct round round;
	enum round_end end = round_of(mover, link, work, &round);

	/* Once or twice somebody may only have been there at the same time. */
	if (round.refused && work->tries >= REFUSED_TRIES && wants_mending(link))
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
	if (end == ROUND_REST && work->overlap_from != MOVER_NO_OVERLAP)
		mend_overlap(mover, link, work);
	tell(mover, work, &round, end);
	mover_queue_done(mover->rounds, work, outcome_of(mover, work, &round, end), clock_now());
}

/* Paused, or beyond what the file allows. A client that waits for the move waits for nothing else.
 * While much waits, a paused rule's documents are forgotten: the sweep that follows the pause finds
 * them. */
static bool is_held(struct mover *mover, struct mover_work *work)
{
	const struct rule *rule = work->target->rule;
	enum mover_outcome outcome = MOVER_HELD;
	int64_t until;

	if (mover_queue_demanded(mover->rounds, work))
		return false;
	until = pacer_hold(mover->pacer, rule, &work->held.place, clock_now());
	if (!until)
		return false;
	if (pacer_pauses(mover->pacer, rule) &&
	    mover_queue_count(mover->rounds) > MOVER_QUEUE_MAX / 2)
		outcome = MOVER_SETTLED;
	mover_queue_done(mover->rounds, work, outcome, until);
	return true;
}

/* A new rule moves nothing yet. While much waits its documents are forgotten, if a sweep will find
 * them. */
static void keep_waiting(struct mover *mover, struct mover_work **works, size_t count)
{
	const struct mover_target *target = works[0]->target;
	bool found_later = target->rule->sweep_ms > 0 &&
			   (target->rule->moves_existing || target->sweep.learned);
	bool forgets = found_later && mover_queue_count(mover->rounds) > MOVER_QUEUE_MAX / 2;

	for (size_t i = 0; i < count; i++) {
		mover_queue_tell(mover->rounds, works[i], false);
		mover_queue_done(mover->rounds, works[i], forgets ? MOVER_SETTLED : MOVER_HELD,
				 clock_now() + WAITS_MS);
	}
}

/* Entries of one target: one outlier, one filter, or many documents to be asked about. */
static void work_on(struct mover *mover, struct link *link, struct mover_work **works, size_t count)
{
	struct mover_target *target = works[0]->target;
	bool stores = works[0]->id_type && works[0]->outlier;
	enum link_result result = LINK_DONE;

	if (target_is_gone(target)) {
		mover_queue_give_back(mover->rounds, works, count, MOVER_SETTLED);
		return;
	}
	if (target->reload.waits) {
		keep_waiting(mover, works, count);
		return;
	}
	if (stores && is_held(mover, works[0]))
		return;
	/* Who only looks needs no judgement that is fresh. */
	if (stores || target->fitness != FITNESS_FIT)
		result = judgement_renew(mover, link, target, false);

	if (result != LINK_DONE) {
		mover_queue_give_back(mover->rounds, works, count, MOVER_ABSENT);
	} else if (target->fitness == FITNESS_UNFIT || target->owner == OWNER_OPEN ||
		   (stores && target->fitness != FITNESS_FIT)) {
		mover_queue_give_back(mover->rounds, works, count, MOVER_SETTLED);
	} else if (!works[0]->id_type) {
		result = look_for_filter(mover, link, works[0]);
		mover_queue_give_back(mover->rounds, works, 1,
				      result == LINK_LOST ? MOVER_ABSENT : MOVER_SETTLED);
	} else if (works[0]->outlier) {
		run_round(mover, link, works[0]);
	} else if (look_at_documents(mover, link, works, count) == LINK_REFUSED) {
		metric_add_shared(&mover->metrics->move_errors, 1);
		mover_warn(mover->warnings, target, link_error(link));
	}
}

void *rounds_run(void *context)
{
	struct mover *mover = context;
	struct mover_work *works[MOVER_TAKE_MAX];
	struct link *link = NULL;
	bson_error_t error;
	int64_t next;
	size_t count;

	ballast_be_patient();
	log_name_thread("rounds");
	while (!atomic_load(&mover->stopping)) {
		bool lost = false;

		mover_enter(mover);
		count = mover_queue_take(mover->rounds, clock_now(), works, &next);
		if (count > 0 && mover_connect(mover, &link, &error)) {
			work_on(mover, link, works, count);
		} else if (count > 0) {
			mover_queue_give_back(mover->rounds, works, count, MOVER_ABSENT);
			lost = true;
		}
		mover_leave(mover);
		if (lost)
			mover_pause(mover, CONNECT_PAUSE_MS);
		else if (count == 0)
			mover_queue_wait(mover->rounds, next);
		show_queue(mover);
	}
	link_free(link);
	return NULL;
}
