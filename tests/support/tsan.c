/* What the thread sanitizer of GCC 12 and clang 14 does not know: that a thread which was waited
 * for until a time of CLOCK_MONOTONIC has ended. It takes the wait for none, and every later access
 * for a race. It knows the function that takes a time of CLOCK_REALTIME.
 */
#include <pthread.h>
#include <time.h>

#define SECOND 1000000000L

int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
			 const struct timespec *until)
{
	struct timespec now, deadline;

	clock_gettime(clock, &now);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += until->tv_sec - now.tv_sec;
	deadline.tv_nsec += until->tv_nsec - now.tv_nsec;
	deadline.tv_sec += deadline.tv_nsec / SECOND;
	deadline.tv_nsec %= SECOND;
	if (deadline.tv_nsec < 0) {
		deadline.tv_sec--;
		deadline.tv_nsec += SECOND;
	}
	return pthread_timedjoin_np(thread, result, &deadline);
}
