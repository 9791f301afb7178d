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
