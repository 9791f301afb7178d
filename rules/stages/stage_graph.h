/* $graphLookup from a ruled namespace: mongod searches documents as they are stored, then those
 * that were found are put together, as a collection of their own:
 *
 *   {$graphLookup: {..., as}}
 *   {$lookup: {let: {found: "$<as>"}, pipeline: [{$documents: "$$found"}, reassembly], as}}
 *
 * Not where the search itself reads a ruled array, nor in a $facet, which takes no $documents. */
#pragma once

#include "rules/stages/stage_foreign.h"

/* Appends both stages from *place on. False where the stage is no $graphLookup from a ruled
 * namespace: nothing is written. What stands in the way is foreign->why. */
bool graph_write(struct foreign *foreign, struct buffer *out, size_t *place,
		 const struct element *stage, bool in_facet);
