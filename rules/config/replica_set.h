/* Reads `replica_set`: a range of ports, one for each member that the set may have. */
#pragma once

#include "rules/config/config.h"
#include "rules/config/section.h"

/* Fills config->listen with an entry for each port of the range. Which server stands behind an
 * entry is not known here. `file`: the whole file's section, whose settings have been read. */
void replica_set_read(const struct section *file, struct config *config);
/* The seed, where there is one, against config->upstream_uri. `account`: somebody named that; else
 * it becomes the seed. */
void replica_set_take_seed(const struct section *file, struct config *config, bool account);
