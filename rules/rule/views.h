/* Views that would give arrays short: names that the matcher refuses to read. Seldom new, and as
 * many as clients make.
 *
 * One thread sets them, any thread looks; what was set before goes once nobody looks. */
#pragma once

#include "rules/rule/rules.h"

#include <stdatomic.h>

struct view_names;

struct views {
	_Atomic(struct view_names *) current; /* NULL: none */
	atomic_int looking;                   /* threads that may still see what was set before */
};

void views_fini(struct views *views);
void views_set(struct views *views, const struct short_view *short_views, size_t count);
/* The rule whose array comes out short, else NULL. */
const struct rule *views_find(struct views *views, struct bytes database, struct bytes collection);
/* False where no view of this name is known in any database. */
bool views_may_hold(struct views *views, struct bytes collection);
