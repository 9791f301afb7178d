/* Finds that go out as they came and whose replies mostly go back so: a sequence is made only of
 * one whose reply has something to be put together. */
#pragma once

#include "rules/rule/rules.h"

/* True where the whole frame is a find on a ruled namespace of which match_packet says
 * VERDICT_READ, and whose sequence begins by sending these bytes. False of whatever is not quickly
 * seen to be one. */
must_check bool plain_find(struct namespace_cache *cache, struct bytes frame,
			   const struct ruled_namespace **namespace);
/* True where its sequence would pass this reply, a whole frame, on as it is. */
must_check bool plain_find_passes(const struct ruled_namespace *namespace, struct bytes frame);
