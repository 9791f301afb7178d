/* Filters that mongod answers otherwise by an index on the array than from the documents.
 *
 * Where its bounds leave out documents that match, or take in others, or can't be made at all,
 * Spillway's stages, which go by the documents, say something else (docs/internals/mongod.md). */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

/* The filter has such a condition, and an index that is known is over a ruled array. Which path the
 * index is on is not looked at. `collation`: the command's; type 0 where it has none. */
bool index_bounds_differ(struct bytes filter, const struct element *collation,
			 const struct ruled_namespace *namespace);
