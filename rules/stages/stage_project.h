/* A find's projection as aggregation stages, behind which documents are what find would return.
 *
 * $project takes most of it; these it doesn't know:
 *   {f: {$elemMatch: C}}   {$lookup: {let: {f}, pipeline: [{$documents: an {f: [element]} each},
 *                          {$match: {f: {$elemMatch: C}}}, {$limit: 1}]}}: mongod's matcher, as in
 *                          a filter, on one element after the other
 *   {"f.$": 1}             the same with the filter's condition on f. Only where that condition
 *                          alone can say which element is meant
 *   {f: {$slice: ...}}     cut out of what is projected, as find does it */
#pragma once

#include "protocol/writer.h"
#include "rules/rule/rules.h"

enum project_judgement {
	PROJECT_SERVED,
	PROJECT_WRONG,    /* mongod refuses it */
	PROJECT_UNSERVED, /* can't be written exactly */
};

/* `filter`: of the same find, type 0 where it has none. */
enum project_judgement project_judge(struct bytes projection, const struct element *filter,
				     const struct ruled_namespace *namespace);
/* Whether it has an f.$ that no condition of the filter is about: mongod then fails at the first
 * array that it projects. */
bool project_may_miss(struct bytes projection, const struct element *filter,
		      const struct ruled_namespace *namespace);
enum project_arrays {
	PROJECT_WHOLE,
	PROJECT_CUT,    /* ruled arrays have been sliced */
	PROJECT_MARKED, /* the same, and `_spill` says of which that is to be done yet */
};
/* Appends the stages for a projection that is served. */
void project_write(struct buffer *out, size_t *place, struct bytes projection,
		   const struct element *filter, const struct ruled_namespace *namespace,
		   enum project_arrays arrays);
