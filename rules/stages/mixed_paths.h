/* Inclusions of paths below a ruled array ({$project: {"f.sub": 1}}), also those that mongod makes
 * itself because later stages want some fields only. Elements that are no documents leave gaps
 * there, or are gone before, as mongod's plan is; and a position in a path (f.0) is taken for a
 * field of the elements. Where other stages could tell, a stage before them raises an error for a
 * document whose array has such elements (RAISED_MIXED), or any (RAISED_NUMBERED).
 */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

enum unmixed_at {
	UNMIXED_FRONT, /* nothing but $match stages came before */
	UNMIXED_LATER,
	UNMIXED_INNER, /* in a pipeline whose documents go into another: what follows may tell, too
			*/
};

/* Appends what has to come before `stage`, of documents of `namespace`, from *place on. `behind`:
 * at the stages that follow it. */
void unmixed_write(struct buffer *out, size_t *place, const struct element *stage,
		   struct cursor behind, enum unmixed_at at,
		   const struct ruled_namespace *namespace);
/* The same of a find that mongod may sort after it has projected. */
void unmixed_write_find(struct buffer *out, size_t *place, const struct element *sort,
			const struct element *projection, const struct ruled_namespace *namespace);
