/* Whether `serve` may run as root: what takes over the process would have the machine. */
#pragma once

#include "rules/config/config.h"

#include <bson/bson.h>

#define ROOT_ALLOW "SPILLWAY_ALLOW_ROOT"

/* True for root where only this machine can connect, or where it is `allowed` on the command line
 * or by SPILLWAY_ALLOW_ROOT=1. True for all other users. */
must_check bool root_may_listen(const struct config *config, bool allowed, bson_error_t *error);
/* The same at the start: with a line in the log for root. */
must_check bool root_may_serve(const struct config *config, bool allowed, bson_error_t *error);
