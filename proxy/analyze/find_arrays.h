/* Finds the arrays of some documents: the paths that lead to them. */
#pragma once

#include "protocol/cursor.h"

struct found_array {
	char *path; /* owned */
	int64_t elements;
};

/* All zeros is an empty one. */
struct found_arrays {
	struct found_array *arrays;
	size_t count;
};

/* Adds what this document holds. Paths go through documents, not through arrays; names with a dot
 * or a leading dollar can't be asked for and are passed over, as is Spillway's own state. */
void found_arrays_add(struct found_arrays *found, struct bytes document);
/* Those with the most elements first. */
void found_arrays_sort(struct found_arrays *found);
void found_arrays_fini(struct found_arrays *found);
