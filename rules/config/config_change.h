/* What a changed configuration file changes: each setting by name, with its value before and
 * after. */
#pragma once

#include "rules/config/config.h"
#include "rules/config/settings.h"

struct config_change {
	const struct setting *setting;
	char *name; /* `limits.memory`, `listen.127.0.0.1:27117.server`, `rules.sales.threshold` */
	char *before; /* as the file would have it, without passwords; NULL: it was not there */
	char *after;  /* NULL: it is not there any more */
};

/* All zeros: none. */
struct config_changes {
	struct config_change *list;
	size_t count;
};

/* Listeners are told apart by their addresses, rules by their names: one that only one of the two
 * has is one change, of `listen` or `rules`. The place of a rule in the list is no change. */
void config_compare(const struct config *before, const struct config *after,
		    struct config_changes *changes);
void config_changes_fini(struct config_changes *changes);

/* Whether no setting differs. */
bool config_listen_equals(const struct config_listen *one, const struct config_listen *other);
/* Whether documents that were split under one are found under the other: no setting differs that
 * may only change after `undo` (SETTING_UNDO). */
bool config_rule_finds(const struct rule *one, const struct rule *other);
/* Whether no setting differs, except the name. */
bool config_rule_equals(const struct rule *one, const struct rule *other);
