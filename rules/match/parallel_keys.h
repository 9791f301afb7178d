/* Indexes over two paths inside the elements of an array. mongod refuses one if an element has
 * arrays at both paths (171 CannotIndexParallelArrays), but looks at the elements in the main
 * document alone. These are the conditions by which the overflow is asked for such elements. */
#pragma once

#include "protocol/writer.h"
#include "rules/rule/rules.h"

enum parallel_keys {
	PARALLEL_NONE,     /* no index has two paths that can be parallel */
	PARALLEL_POSSIBLE, /* a filter was written */
	PARALLEL_MANY,     /* too many or too deep paths for a filter */
};

/* Appends a filter of the overflow's documents, as field `name`, for all indexes of a
 * createIndexes. `exact`: cleared if the filter may also find elements whose arrays are not
 * parallel. */
must_check enum parallel_keys parallel_keys_write(const struct rule *rule,
						  const struct element *indexes, const char *name,
						  struct buffer *out, bool *exact);
