/* What a service manager says in the environment. */
#pragma once

#include <stdint.h>

/* A whole number above 0; 0: the variable is absent or holds anything else. */
int64_t environment_number(const char *variable);
