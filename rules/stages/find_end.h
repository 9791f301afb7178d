/* Where mongod's own find closes its cursor: an aggregate that stands for a find closes at the same
 * reply. */
#pragma once

#include "protocol/command.h"
#include "rules/rule/rules.h"

/* The batch size that the aggregate asks for, so that its cursor is open or closed as the find's.
 * `limit`: the find's, 0: none; `size`: the find's batchSize. An aggregate closes its cursor only
 * when it is asked for more documents than there are. */
int64_t find_end_batch(const struct command *command, const struct ruled_namespace *namespace,
		       int64_t limit, int64_t size);
