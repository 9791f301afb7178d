/* When the mover may work: what an operator has paused, and what `mover` of the configuration file
 * says of rate, lag and load. Any thread. Times are monotonic milliseconds. */
#pragma once

#include "proxy/base/metrics.h"
#include "proxy/upstream/link.h"
#include "rules/config/config.h"

struct pacer;

struct pacer *pacer_new(const struct config *config);
void pacer_free(struct pacer *pacer);
/* Other settings of `mover` hold from now on. */
void pacer_take_settings(struct pacer *pacer, const struct config *config);
/* Other rules, while nobody looks: of those that were there by name, it stays known whether one is
 * paused; others wait until the next look. */
void pacer_take_rules(struct pacer *pacer, struct rule_set *rules);
/* How many documents a second; 0: no limit. */
int64_t pacer_rate(const struct pacer *pacer);

/* Asks the server for pauses, lag and load, if that is due; logs what changed. One thread's.
 * `resumed` is called for each rule that goes on. */
must_check enum link_result pacer_look(struct pacer *pacer, struct link *link,
				       struct metrics *metrics,
				       void (*resumed)(void *context, const struct rule *rule),
				       void *context);

/* An operator has paused the rule; or it is not known yet whether one has. The rule may be of
 * another set. */
bool pacer_pauses(struct pacer *pacer, const struct rule *rule);
/* The same, or a secondary is too far behind, or the server has too much to do. */
bool pacer_holds(struct pacer *pacer, const struct rule *rule);

/* What somebody who moves a document keeps: all zeros at first. */
struct pace_place {
	int64_t slot; /* microseconds: when it may begin by the rate; 0: none was taken */
	int64_t rate; /* by which the slot was taken */
	bool urgent;  /* so much was pushed that clients pause: only an operator's pause holds it */
};
/* Until when the document has to wait; 0: it may be moved now. */
int64_t pacer_hold(struct pacer *pacer, const struct rule *rule, struct pace_place *place,
		   int64_t now);
