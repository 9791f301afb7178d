/* Tells the service manager that the main thread and all event loops turn: WATCHDOG=1. A loop that
 * hangs keeps the message back, and the manager ends the process. */
#pragma once

#include "proxy/client/loop.h"

struct watchdog;

/* NULL: the manager wants no such messages. The loops outlive the watchdog's last beat. */
struct watchdog *watchdog_new(struct loop *const *loops, size_t count);
/* After the loops have ended. */
void watchdog_free(struct watchdog *watchdog);
/* Of the main thread. If all loops have answered the last beat, tells the manager and asks them
 * again. */
void watchdog_beat(struct watchdog *watchdog);
/* How long the main thread may wait until the next beat; NULL: for ever. */
const struct timespec *watchdog_pause(const struct watchdog *watchdog);
