/* Pipelines that reach ruled namespaces from elsewhere, by $lookup and $unionWith: mongod puts the
 * foreign documents together in the stage's own pipeline.
 *
 * A join on fields that no rule is about stays mongod's: it runs first. One on a ruled array is
 * asked of each foreign document when it is whole, as a collection of one:
 *
 *   {$replaceWith: {o: the local document, d: the foreign one}}
 *   {$lookup: {localField: o.<local>, foreignField, let: {d}, pipeline: [{$documents: [d]}]}} */
#pragma once

#include "protocol/writer.h"
#include "rules/rules.h"

/* Where foreign namespaces are looked up. */
struct foreign {
	struct namespace_cache *cache;
	struct bytes database;
	size_t served;   /* stages that were written anew */
	const char *why; /* what stands in the way; NULL: nothing */
};

/* Appends a stage, {$verb: ...}, as the array element `name`. Pipelines nest: $facet's, and those
 * of the stages themselves. Counts what was written anew. Where `why` is set, what was written is
 * of no use. */
void foreign_write_stage(struct foreign *foreign, struct buffer *out, const char *name,
			 const struct element *stage);
