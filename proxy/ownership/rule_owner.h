/* Whose an overflow is: by what is recorded, else by whose documents refer to it. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* Compares the rule with what is recorded, and records it as it is now. `reason` is empty, or says
 * why it can't hold: documents are spilled under another layout, or the overflow is another's. An
 * account that has no rights on the database is warned of. */
must_check enum link_result rule_owner_hold(struct link *link, struct mover_target *target,
					    char *reason, size_t size);
/* Asks the records whose the overflow is, then documents, and notes it in the target; `reason` says
 * where it is another's. */
must_check enum link_result rule_owner_ask(struct link *link, struct mover_target *target,
					   char *reason, size_t size);
/* Nobody knows whose: nothing may be moved there; `reason` says so. */
bool rule_owner_is_open(const struct mover_target *target, char *reason, size_t size);
/* The collection has another name now, or is missing, and another's documents refer to the
 * overflow; `reason` names it. */
must_check enum link_result rule_owner_renamed(struct link *link, const struct mover_target *target,
					       char *reason, size_t size);
/* May what no document refers to be collected? Only where the overflow is known to be this rule's,
 * and the main collection is there, no other by its name, which is recorded
 * (renamed.h): what a client drops is tended at once. */
must_check enum link_result rule_owner_collects(struct link *link, struct mover_target *target,
						bool *collects);
