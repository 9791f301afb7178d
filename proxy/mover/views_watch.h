/* Looks for views that others made over ruled collections, so that reading them can be refused. */
#pragma once

#include "proxy/mover/mover_inner.h"

struct views_look;

struct views_look *views_look_new(void);
void views_look_free(struct views_look *look);
/* Lists the views of every database in which a rule is at work, and tells the rule set which of
 * them would give arrays short. */
must_check enum link_result views_look_now(struct views_look *look, struct mover *mover,
					   struct link *link);
/* Whether it is time for the next look: once a second, less often where there are many databases.
 */
bool views_look_due(struct views_look *look);
/* Some view may be gone: it is due. Any thread. */
void views_look_soon(struct views_look *look);
