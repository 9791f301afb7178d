/* Filters that mongod answers otherwise by an index on the array than from the documents.
 *
 * Where its bounds leave out documents that match, or take in others, Spillway's stages, which go
 * by the documents, say something else (docs/internals/mongod.md). */
#pragma once

#include "rules/rules.h"

/* The filter has such a condition, and an index that is known is over a ruled array. Which path the
 * condition is on is not looked at. */
bool index_bounds_differ(struct bytes filter, const struct ruled_namespace *namespace);
