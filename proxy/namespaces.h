/* Which namespaces a rule's pattern matches on the server. */
#pragma once

#include "proxy/mover_link.h"
#include "proxy/mover_target.h"

/* Each becomes a target of the set. `rules`: all there are, since overflows don't match. `views`:
 * those, too. */
must_check enum link_result namespaces_find(struct link *link, struct target_set *targets,
					    struct rule_set *rules, const struct rule *rule,
					    bool views);
