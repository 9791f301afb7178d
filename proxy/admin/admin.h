/* The admin address: the status page, the rules, metrics and health over HTTP, in a thread of
 * its own. */
#pragma once

#include "proxy/client/loop.h"

struct admin;

/* NULL in *admin, and true, where the configuration has no admin address. False where it can't be
 * listened on. */
must_check bool admin_start(struct admin **admin, struct service *service);
void admin_stop(struct admin *admin);
/* The same, for an upgrade: the socket goes on listening in the other process. */
void admin_leave(struct admin *admin);
/* Where it listens; -1: there is no admin address. Stays the admin's. */
int admin_socket(const struct admin *admin);

/* For a reload: what the files of `admin` hold now. NULL if they are wrong; *mistake (freed by the
 * caller) says why. */
struct admin_load;
struct admin_load *admin_load(struct admin *admin, const struct config *config, char **mistake);
/* Requests are judged by it from now on, and by the service's configuration; a new certificate ends
 * connections. */
void admin_take(struct admin *admin, struct admin_load *load);
/* Takes NULL. */
void admin_load_free(struct admin_load *load);
