/* Which system calls the process may still make: none that starts programs, gets at other processes
 * or changes files, users or the kernel. */
#pragma once

#include "protocol/base.h"

/* For this thread and those that it starts, for ever. False where the kernel or the machine knows
 * no such filter: errno says why. */
must_check bool seccomp_enter(void);
