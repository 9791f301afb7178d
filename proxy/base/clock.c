/* Milliseconds. */
#include "proxy/base/clock.h"

#include <poll.h>
#include <time.h>

static int64_t milliseconds_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clock_now(void)
{
	return milliseconds_of(CLOCK_MONOTONIC);
}

int64_t clock_wall(void)
{
	return milliseconds_of(CLOCK_REALTIME);
}

must_check bool clock_pause(int64_t milliseconds, const atomic_bool *stopping)
{
	int64_t until = clock_now() + milliseconds, left;

	while (!atomic_load(stopping) && (left = until - clock_now()) > 0)
		(void)poll(NULL, 0, left < 100 ? (int)left : 100);
	return !atomic_load(stopping);
}

struct timespec clock_timespec(int64_t milliseconds)
{
	return (struct timespec){.tv_sec = milliseconds / 1000,
				 .tv_nsec = milliseconds % 1000 * 1000000};
}

void clock_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

void clock_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until)
{
	struct timespec when = clock_timespec(until);

	pthread_cond_timedwait(condition, lock, &when);
}
