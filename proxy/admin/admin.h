/* The admin address: the status page, the rules, metrics and health over HTTP, in a thread of
 * its own. */
#pragma once

#include "proxy/client/loop.h"

struct admin;

/* NULL in *admin, and true, where the configuration has no admin address. False where it can't be
 * listened on. */
must_check bool admin_start(struct admin **admin, const struct service *service);
void admin_stop(struct admin *admin);
