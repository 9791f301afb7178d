/* Milliseconds. */
#pragma once

#include <stdint.h>

/* Since some moment in the past; never goes back. */
int64_t clock_now(void);
/* Since 1970. */
int64_t clock_wall(void);
