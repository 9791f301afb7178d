/* Keeps work behind the traffic from running ahead of the secondaries, or of a rate. */
#pragma once

#include "proxy/job/job.h"

#include <pthread.h>

/* Asks how far the slowest secondary is behind, for `job->lag`. A standalone has none. */
must_check enum link_result lag_ask(struct job *job);

/* Before each document or group, of what writes: sleeps while an operator has paused the rule.
 * LINK_LOST where that was interrupted. */
must_check enum link_result throttle_pause(struct job *job);

struct throttle {
	pthread_mutex_t lock;
	int64_t began;
	int64_t done;
	int64_t asked; /* when the members were asked for their lag */
	int64_t told;  /* when it was said that one is waited for */
};

/* Behind each document: sleeps as long as the options want. LINK_LOST where that was interrupted.
 */
must_check enum link_result throttle_wait(struct throttle *throttle, struct job *job);
