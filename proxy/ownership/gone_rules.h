/* Rules that are recorded and not in the file any more. */
#pragma once

#include "proxy/upstream/link.h"
#include "rules/rule/rules.h"

/* Looks for overflow of rules that are gone. `reason` is empty where there is none. `edited` gets
 * the records, one behind the other, of rules whose array was edited before they moved anything. */
must_check enum link_result gone_rules_find(struct link *link, struct rule_set *rules,
					    struct buffer *edited, char *reason, size_t size);
/* Removes these, unless another Spillway is connected: asked before this one has other links, which
 * can't be told from another's. One that can't be removed stays, and is told where it is in the
 * way. */
must_check enum link_result gone_rules_remove_edited(struct link *link, struct bytes edited);
