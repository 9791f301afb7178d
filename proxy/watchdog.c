/* Tells the service manager that the main thread and all event loops turn. */
#include "proxy/watchdog.h"

#include "proxy/base/clock.h"
#include "proxy/process/notify.h"

#include <stdatomic.h>
#include <stdlib.h>

#define BEATS 4 /* in the time that the manager waits: one may be late, and one be lost */

/* A loop's answer; it lies in the loop's list of tasks until the loop comes to it. */
struct beat {
	struct loop_task task; /* the first: a task is its beat */
	struct watchdog *watchdog;
};

struct watchdog {
	struct loop *const *loops;
	struct beat *beats; /* one for each loop */
	size_t count;
	bool asked;
	atomic_size_t unanswered;
	struct timespec pause;
};

static void answer(struct loop *loop, struct loop_task *task)
{
	struct beat *beat = (struct beat *)(void *)task;

	(void)loop;
	atomic_fetch_sub(&beat->watchdog->unanswered, 1);
}

struct watchdog *watchdog_new(struct loop *const *loops, size_t count)
{
	int64_t most = notify_watchdog_ms();
	struct watchdog *watchdog;

	if (most == 0)
		return NULL;
	watchdog = must_calloc(1, sizeof(*watchdog));
	watchdog->loops = loops;
	watchdog->count = count;
	watchdog->beats = must_calloc(count, sizeof(*watchdog->beats));
	watchdog->pause = clock_timespec(most / BEATS > 0 ? most / BEATS : 1);
	return watchdog;
}

void watchdog_free(struct watchdog *watchdog)
{
	if (!watchdog)
		return;
	free(watchdog->beats);
	free(watchdog);
}

static void ask(struct watchdog *watchdog)
{
	atomic_store(&watchdog->unanswered, watchdog->count);
	for (size_t i = 0; i < watchdog->count; i++) {
		watchdog->beats[i] = (struct beat){.task.run = answer, .watchdog = watchdog};
		loop_post(watchdog->loops[i], &watchdog->beats[i].task);
	}
	watchdog->asked = true;
}

void watchdog_beat(struct watchdog *watchdog)
{
	if (!watchdog || atomic_load(&watchdog->unanswered) > 0)
		return;
	if (watchdog->asked)
		notify_send("WATCHDOG=1");
	ask(watchdog);
}

const struct timespec *watchdog_pause(const struct watchdog *watchdog)
{
	return watchdog ? &watchdog->pause : NULL;
}
