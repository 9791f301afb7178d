/* The listeners of a process that runs. A connection knows its listener by the listener's place in
 * config->listen, so a place never gets another listener: a reload opens and closes places, and
 * fills free ones. All configurations of the process share the array. */
#pragma once

#include "rules/config/config.h"

#define CONFIG_LISTEN_FREE 64 /* places for listeners that reloads bring */

/* Adds the free places, before anybody holds on to the array. Not with `replica_set`. */
void config_listen_spread(struct config *config);

/* What one reload does to the places. All zeros: nothing. */
struct listen_plan {
	struct config *running; /* whose array it is; NULL: nothing changes */
	bool *open;             /* the places that will be open */
	bool *filled;           /* by this plan */
};

/* Gives each listener of `fresh` a place: the one that has its settings already, or a free one.
 * Then `fresh` shares the array of `running`. False: no place is free. Both are without
 * `replica_set`. */
must_check bool listen_plan_make(struct listen_plan *plan, struct config *running,
				 struct config *fresh);
/* Whether the plan opens this place, or closes it. */
bool listen_plan_opens(const struct listen_plan *plan, size_t index);
bool listen_plan_closes(const struct listen_plan *plan, size_t index);
/* From here on the running configuration has these listeners. */
void listen_plan_take(struct listen_plan *plan);
/* Empties again what a plan has filled that was not taken. */
void listen_plan_fini(struct listen_plan *plan);
