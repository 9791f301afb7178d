/* The admin address: the status page, the rules, metrics and health over HTTP, in libmicrohttpd's
 * own thread. */
#pragma once

#include "proxy/mover/mover.h"

struct admin;

/* NULL in *admin, and true, where the configuration has no admin address. False where it can't be
 * listened on. */
must_check bool admin_start(struct admin **admin, const struct config *config, struct mover *mover);
void admin_stop(struct admin *admin);
