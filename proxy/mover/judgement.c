/* For how long a judgement of a target's fitness holds, and when it is renewed. */
#include "proxy/mover/judgement.h"

#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "proxy/fitness/fitness.h"

#define JUDGED_MS 60000 /* for how long a judgement holds: others may change the collection */
#define JUDGING (MOVER_NEVER + 1) /* no judgement holds, and one is under way */

bool judgement_holds(const struct mover_target *target)
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
	int64_t judging = JUDGING;
	enum link_result result;

	if (both)
		atomic_store(&target->judged_at, JUDGING);
	atomic_store(&target->main_changed, false);
	result = fitness_check(link, mover->targets, target,
			       both ? FITNESS_OF_BOTH : FITNESS_OF_MAIN);
	if (result != LINK_DONE)
		atomic_store(&target->main_changed, true);
	else if (both) /* unless another thread has asked for one meanwhile */
		atomic_compare_exchange_strong(&target->judged_at, &judging, clock_now());
	if (result == LINK_DONE) {
		atomic_store(&target->mirror_due, true);
		atomic_store(&mover->news.recheck, true);
	}
	return result;
}

must_check enum link_result judgement_renew_silently(struct mover *mover, struct link *link,
						     struct mover_target *target, bool again,
						     bool *found)
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

must_check enum link_result judgement_renew(struct mover *mover, struct link *link,
					    struct mover_target *target, bool again)
{
	char reason[TARGET_REASON];
	bool found;
	enum link_result result = judgement_renew_silently(mover, link, target, again, &found);

	if (found && target_unfit(mover->targets, bytes_of(target->database),
				  bytes_of(target->collection), reason, sizeof(reason)))
		log_error("5001 %s", reason);
	return result;
}
