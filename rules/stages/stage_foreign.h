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
#include "rules/reassembly/reassemble.h"
#include "rules/rule/names.h"
#include "rules/stages/match_stands.h"

#define FOREIGN_HIDING 4

/* Where foreign namespaces are looked up. */
struct foreign {
	struct namespace_cache *cache;
	struct bytes database;
	bool strict;                   /* see struct reassembly */
	enum reassemble_damage damage; /* the same */
	/* The command's, where filters are judged by the indexes that are known: what is known may
	 * change until the command is written. NULL: they have been judged. */
	const struct element *collation;
	struct bytes pipeline; /* the client's, if what is written will be sent */
	size_t served;         /* stages that were written anew */
	const char *why;       /* what stands in the way; NULL: nothing */
	bool too_deep;         /* that, and mongod would not take it either */
	/* whose documents have been put together before: mongod's other engine is out; or NULL */
	const struct ruled_namespace *whole;
	const struct ruled_namespace *united; /* whose documents a $unionWith has added last */
	enum match_stands stands;             /* of the top level: for the next stage */
	/* The namespaces that came first, and whether the pipeline names one of their hidden
	 * fields: a pipeline of many joins is not walked through for each. */
	struct {
		const struct ruled_namespace *namespace;
		bool named;
	} hiding[FOREIGN_HIDING];
	size_t hiding_count;
};

/* Of further namespaces it is taken for granted, which costs mongod a stage. */
static inline bool foreign_names_hidden(struct foreign *foreign,
					const struct ruled_namespace *namespace)
{
	bool named;

	if (foreign->pipeline.length == 0)
		return false;
	for (size_t i = 0; i < foreign->hiding_count; i++)
		if (foreign->hiding[i].namespace == namespace)
			return foreign->hiding[i].named;
	if (foreign->hiding_count == FOREIGN_HIDING)
		return name_hides_any(namespace);
	named = name_hidden_occurs(foreign->pipeline, namespace);
	foreign->hiding[foreign->hiding_count].namespace = namespace;
	foreign->hiding[foreign->hiding_count++].named = named;
	return named;
}

/* How documents of the namespace are put together. */
static inline struct reassembly foreign_reassembly(struct foreign *foreign,
						   const struct ruled_namespace *namespace)
{
	return (struct reassembly){
		REASSEMBLE_WHOLE,
		.strict = foreign->strict,
		.sets_hidden = foreign_names_hidden(foreign, namespace),
		.damage = foreign->damage,
	};
}

/* Appends a stage, {$verb: ...}, as the array element `name`. Pipelines nest: $facet's, and those
 * of the stages themselves. Counts what was written anew. Where `why` is set, what was written is
 * of no use. */
void foreign_write_stage(struct foreign *foreign, struct buffer *out, const char *name,
			 const struct element *stage);

/* The same for the stages of a pipeline's top level, from *place on. Before a $merge into a ruled
 * namespace comes its guard (stage_guard.h): mongod does the rest. */
void foreign_write_top_stage(struct foreign *foreign, struct buffer *out, size_t *place,
			     const struct element *stage);
