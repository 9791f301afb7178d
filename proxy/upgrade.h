/* An upgrade, seen by the process that goes: it starts the program anew, gives it the listening
 * sockets, and serves the connections that are open to their end. */
#pragma once

#include "proxy/admin/admin.h"
#include "proxy/admin/reload_desk.h"
#include "proxy/client/listeners.h"

#include <sys/types.h>

struct upgrade {
	struct service *service;
	struct listeners *listeners;
	struct admin *admin; /* NULL: there is none */
	struct reload_desk *desk;
	const char *path; /* of the file */
	bool wanted;      /* asked for while a reload ran */
	int channel;      /* to the new process; -1: no upgrade runs */
};

void upgrade_start(struct upgrade *upgrade);
static inline bool upgrade_runs(const struct upgrade *upgrade)
{
	return upgrade->channel >= 0;
}
/* To be called now and then while one runs. True once the new process accepts connections: it has
 * been told that it serves from now on, and the service manager knows it as the main process. */
bool upgrade_poll(struct upgrade *upgrade);
/* The upgrade that runs is given up: the new process ends. */
void upgrade_cancel(struct upgrade *upgrade);
