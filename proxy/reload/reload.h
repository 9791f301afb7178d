/* Reads the configuration again while Spillway serves: all that it changes holds from then on, or
 * nothing. */
#pragma once

#include "proxy/admin/admin.h"
#include "proxy/admin/reload_desk.h"
#include "proxy/client/listeners.h"

#include <stdatomic.h>

/* What a reload changes. */
struct reload {
	struct service *service;
	struct loop *const *loops; /* none yet: before clients are served */
	size_t loop_count;
	struct admin *admin; /* NULL: there is none */
	struct reload_desk *desk;
	struct listeners *listeners; /* NULL: clients are not served yet */
	const char *path;
	struct config *first; /* of the start: many hold on to it */
	bool sandboxed;
	bool root_allowed; /* to serve other machines */

	pthread_t thread; /* that reloads */
	bool running;
	bool again;           /* another one was asked for meanwhile */
	atomic_bool ended;    /* the thread is about to be joined */
	atomic_bool stopping; /* it is to give up */
};

/* The same rules in the same order. */
must_check bool reload_same_rules(const struct rule_set *one, const struct rule_set *other);
/* A reload in a thread of its own; while one runs, another follows. Without a thread it is refused.
 */
void reload_start(struct reload *reload);
/* To be called now and then while one runs: joins the thread once it has ended. */
void reload_poll(struct reload *reload);
/* Before the end: the one that runs gives up or ends. */
void reload_stop(struct reload *reload);
