/* Preloaded into a program under test: the clock of the day jumps by the seconds that a test says,
 * in a file that both map (support/failing.py). The monotonic clock does not. */
#include "tests/support/preloaded.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* As support/failing.py has them. */
struct control {
	_Atomic int64_t seconds;
	_Atomic int64_t asked; /* times that the clock of the day was read */
};

static struct control none, *control = &none;

__attribute__((constructor)) static void open_control(void)
{
	control = map_control("DAY_CLOCK", &none, sizeof(none));
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = (int)syscall(SYS_clock_gettime, clock, now);

	if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		now->tv_sec += control->seconds;
		control->asked++;
	}
	return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec exact;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &exact);
	*now = (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *also)
{
	struct timespec exact;

	clock_gettime(CLOCK_REALTIME, &exact);
	if (also)
		*also = exact.tv_sec;
	return exact.tv_sec;
}
