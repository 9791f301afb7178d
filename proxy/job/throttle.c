/* Keeps work behind the traffic from running ahead of the secondaries, or of a rate. */
#include "proxy/job/throttle.h"

#include "proxy/job/job_walk.h"
#include "proxy/terminal/progress.h"
#include "proxy/base/clock.h"

#include "proxy/pace/load.h"
#include "proxy/pace/pauses.h"

#include <stdio.h>

#define ASK_MS 500

must_check enum link_result lag_ask(struct job *job)
{
	struct lag lag = {.milliseconds = job->lag};
	enum link_result result = load_ask_lag(job->link, &lag);

	if (result != LINK_DONE)
		return result;
	job->lag = lag.milliseconds;
	snprintf(job->lagging, sizeof(job->lagging), "%s", lag.member);
	return result;
}

/* Of all hands: one asks, and the others wait for it. */
static struct {
	pthread_mutex_t lock;
	int64_t asked;
	int64_t told;
} pauses = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum link_result wait_for_resume(struct job *job)
{
	bool paused = true, waited = false;
	enum link_result result = LINK_DONE;

	while (result == LINK_DONE && paused) {
		result = pauses_ask(job->link, job->rule->name, &paused);
		pauses.asked = clock_now();
		if (result != LINK_DONE || !paused)
			break;
		job_show_pause(job, &pauses.told);
		waited = true;
		if (!job_pause(ASK_MS))
			return LINK_LOST;
	}
	if (waited && result == LINK_DONE)
		progress_clear();
	return result;
}

must_check enum link_result throttle_pause(struct job *job)
{
	enum link_result result = LINK_DONE;

	if (!job->options.execute)
		return LINK_DONE;
	pthread_mutex_lock(&pauses.lock);
	if (pauses.asked == 0 || clock_now() >= pauses.asked + ASK_MS)
		result = wait_for_resume(job);
	pthread_mutex_unlock(&pauses.lock);
	return result;
}

/* While a secondary is too far behind. */
static enum link_result wait_for_secondaries(struct throttle *throttle, struct job *job)
{
	enum link_result result = LINK_DONE;

	if (!job->options.lag_ms || clock_now() < throttle->asked + ASK_MS)
		return LINK_DONE;
	while (result == LINK_DONE) {
		result = lag_ask(job);
		throttle->asked = clock_now();
		if (result != LINK_DONE || job->lag <= job->options.lag_ms)
			return result;
		job_show_lag(job, &throttle->told);
		if (!job_pause(ASK_MS))
			return LINK_LOST;
	}
	return result;
}

/* When the next document may begin by the rate, counted from the first. */
static int64_t count_one(struct throttle *throttle, const struct job *job)
{
	if (!throttle->began)
		throttle->began = clock_now();
	throttle->done++;
	return job->options.rate ? throttle->began + throttle->done * 1000 / job->options.rate : 0;
}

must_check enum link_result throttle_wait(struct throttle *throttle, struct job *job)
{
	enum link_result result;
	int64_t due;

	pthread_mutex_lock(&throttle->lock);
	due = count_one(throttle, job);
	pthread_mutex_unlock(&throttle->lock);
	if (due && !job_pause(due - clock_now()))
		return LINK_LOST;
	pthread_mutex_lock(&throttle->lock); /* one waits, and the others for it */
	result = wait_for_secondaries(throttle, job);
	pthread_mutex_unlock(&throttle->lock);
	return result;
}
