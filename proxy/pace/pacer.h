/* When the mover may work: what an operator has paused, and what `mover` of the configuration file
 * says of rate, lag and load. Any thread. Times are monotonic milliseconds. */
#pragma once

#include "proxy/base/metrics.h"
#include "proxy/upstream/link.h"
#include "rules/config/config.h"

struct pacer;

struct pacer *pacer_new(const struct config *config);
void pacer_free(struct pacer *pacer);

/* Asks the server for pauses, lag and load, if that is due; logs what changed. One thread's.
 * `resumed` is called for each rule that goes on. */
must_check enum link_result pacer_look(struct pacer *pacer, struct link *link,
				       struct metrics *metrics,
				       void (*resumed)(void *context, const struct rule *rule),
				       void *context);

/* An operator has paused the rule; or it is not known yet whether one has. */
bool pacer_pauses(const struct pacer *pacer, const struct rule *rule);
/* The same, or a secondary is too far behind, or the server has too much to do. */
bool pacer_holds(const struct pacer *pacer, const struct rule *rule);

/* What somebody who moves a document keeps: all zeros at first. */
struct pace_place {
	int64_t slot; /* microseconds: when it may begin by the rate; 0: none was taken */
	bool urgent;  /* so much was pushed that clients pause: only an operator's pause holds it */
};
/* Until when the document has to wait; 0: it may be moved now. */
int64_t pacer_hold(struct pacer *pacer, const struct rule *rule, struct pace_place *place,
		   int64_t now);
