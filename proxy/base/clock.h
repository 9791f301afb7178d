/* Milliseconds. */
#pragma once

#include "protocol/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* Since some moment in the past; never goes back. */
int64_t clock_now(void);
/* Since 1970. */
int64_t clock_wall(void);
/* Sleeps; false if `stopping` comes true meanwhile, which is looked at ten times a second. */
must_check bool clock_pause(int64_t milliseconds, const atomic_bool *stopping);

/* A condition that is waited for by this clock. */
void clock_condition_init(pthread_cond_t *condition);
/* Waits, with the lock held, until somebody signals or it is this time. */
void clock_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until);
/* As the system's functions want a time of this clock. */
struct timespec clock_timespec(int64_t milliseconds);
