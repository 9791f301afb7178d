/* Preloaded into a program under test: measures the turns of its event loops, from one wait for
 * events to the next, in a file that a test maps, too (support/failing.py). */
#include "tests/support/preloaded.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* As support/failing.py has them: nanoseconds of CPU, since other programs on the machine do not
 * change them much. */
struct control {
	_Atomic int64_t longest;
	_Atomic int64_t sum;
};

static struct control none, *control = &none;
/* The thread's turn; 0: it has not waited yet. The model is one that a library may have, although
 * all is compiled as for a program. */
static __thread __attribute__((tls_model("initial-exec"))) int64_t began;

typedef int wait(int, struct epoll_event *, int, int);
typedef int wait_masked(int, struct epoll_event *, int, int, const sigset_t *);

static wait *real_wait;
static wait_masked *real_wait_masked;

__attribute__((constructor)) static void open_control(void)
{
	*(void **)&real_wait = dlsym(RTLD_NEXT, "epoll_wait");
	*(void **)&real_wait_masked = dlsym(RTLD_NEXT, "epoll_pwait");
	control = map_control("TURNS", &none, sizeof(none));
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

static void end_turn(void)
{
	int64_t took = now() - began, longest = control->longest;

	if (began == 0)
		return;
	control->sum += took;
	while (took > longest && !atomic_compare_exchange_weak(&control->longest, &longest, took))
		;
}

int epoll_wait(int file, struct epoll_event *events, int most, int timeout)
{
	int count;

	end_turn();
	count = real_wait(file, events, most, timeout);
	began = now();
	return count;
}

int epoll_pwait(int file, struct epoll_event *events, int most, int timeout, const sigset_t *masked)
{
	int count;

	end_turn();
	count = real_wait_masked(file, events, most, timeout, masked);
	began = now();
	return count;
}
