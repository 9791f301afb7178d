/* Which files the process may still open: system files and certificates, to read. */
#pragma once

#include "protocol/base.h"

/* From here on this thread, and those that it starts, write no file and read only what stands below
 * `folders` (a NULL ends them) and below the system's own. The version of landlock in the kernel;
 * 0: it has none, or it is switched off. */
int landlock_enter(const char *const *folders);
