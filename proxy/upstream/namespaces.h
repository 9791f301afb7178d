/* Which namespaces a rule's pattern matches on the server. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* The listing of one database was refused (the link says why), or that of all a pattern means: the
 * others are gone on with. */
typedef void (*namespaces_refused)(void *context, const char *database);

struct namespaces {
	struct target_set *targets;
	struct rule_set *rules; /* all there are, since overflows don't match */
	bool views;             /* those, too, and time series */
	bool all;               /* refused is also who may not see all; the others come then */
	namespaces_refused refused;
	void *context;
};

/* Each that the rule means becomes a target of the set. LINK_DONE or LINK_LOST. */
must_check enum link_result namespaces_find(struct link *link, const struct namespaces *namespaces,
					    const struct rule *rule);
