/* Milliseconds. */
#pragma once

#include "protocol/base.h"

#include <stdatomic.h>
#include <stdint.h>

/* Since some moment in the past; never goes back. */
int64_t clock_now(void);
/* Since 1970. */
int64_t clock_wall(void);
/* Sleeps; false if `stopping` comes true meanwhile, which is looked at ten times a second. */
must_check bool clock_pause(int64_t milliseconds, const atomic_bool *stopping);
