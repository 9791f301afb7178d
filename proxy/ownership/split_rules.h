/* Rules that documents are split under. As long as any are, no Spillway serves without the rule, so
 * no read goes on that does not know of it. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* Such rules wait no more after a start (target_set_trust). Where records may not be read, none is
 * known to be one. */
must_check enum link_result split_rules_trust(struct link *link, struct target_set *targets,
					      struct rule_set *rules);
