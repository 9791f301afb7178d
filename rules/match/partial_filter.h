/* Which documents a partial index has, if its filter names a ruled array.
 *
 * mongod judges the filter by what is stored. A document whose tail has moved keeps its array, as
 * an array, and all that is around it. So {f: {$exists: true}} holds of what is stored if it holds
 * of the whole, and conditions on elements need not. */
#pragma once

#include "protocol/cursor.h"

/* A partialFilterExpression tells of the array, and of what holds it, only that it is there: the
 * index has a document as it is stored if it has the whole one. */
must_check bool partial_filter_holds(struct bytes filter, const char *array);
/* The same of one condition of a filter, on a field. */
must_check bool partial_condition_holds(const struct element *condition, const char *array);
