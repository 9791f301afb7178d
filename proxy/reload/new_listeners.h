/* Other listeners while Spillway serves: what may fail comes first. */
#pragma once

#include "proxy/reload/reload.h"
#include "rules/config/config_listen.h"

/* Those of one reload. All zeros: as they are. */
struct new_listeners {
	struct reload *reload;
	struct listen_plan plan;
	struct places *places;      /* as they will be */
	struct member_names *names; /* what the servers behind them call themselves */
	struct listeners_change *change;
};

/* Gives each listener of the file a place, and reads the certificates of the new ones. Nothing to
 * do with `replica_set`. False, and why. */
must_check bool new_listeners_place(struct new_listeners *listeners, struct reload *reload,
				    struct config *config, char *reason, size_t size);
/* Whether one opens or closes. */
bool new_listeners_differ(const struct new_listeners *listeners);
/* Asks the servers what a start asks them: whether they are of the deployment, and whether all
 * members have a listener. */
must_check enum mover_check new_listeners_try(struct new_listeners *listeners,
					      const atomic_bool *stopping, char *reason,
					      size_t size);
/* Listens on new addresses. False, and why. */
must_check bool new_listeners_bind(struct new_listeners *listeners, char *reason, size_t size);
/* From here on clients connect to them. */
void new_listeners_take(struct new_listeners *listeners);
/* Gives back what was not taken. */
void new_listeners_fini(struct new_listeners *listeners);
