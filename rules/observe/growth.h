/* Which arrays an update makes longer, as far as its own text says: $push and $addToSet of whole
 * paths. Pipelines, replacements and positions tell nothing. */
#pragma once

#include "protocol/packet.h"
#include "rules/observe/sketch.h"

/* Counts what the command in this whole OP_MSG frame, not compressed, pushes. Of others nothing. */
void growth_count(struct sketch *sketch, struct bytes frame, uint64_t key);
