/* How long the arrays of a collection are: what `spillway analyze` counts and tells. Pure. */
#pragma once

#include "protocol/bytes.h"

/* Arrays of one length, counted. */
struct distribution_row {
	int64_t length;    /* or one of those below */
	int64_t documents; /* that have an array of this length */
	int64_t bytes;     /* of these arrays, all together */
	int64_t largest;   /* of them, in bytes */
};

#define LENGTH_MISSING (-1) /* no such field, or null */
#define LENGTH_OTHER (-2)   /* the field holds something else than an array */

#define SIZE_CLASSES 32 /* by bytes: class i holds what is larger than 2^(i-1) and at most 2^i */

/* All zeros is an empty one. */
struct distribution {
	struct distribution_row *rows; /* by length, once distribution_finish has been called */
	size_t count;
	size_t capacity;
	int64_t arrays;
	int64_t elements;
	int64_t bytes;
	int64_t largest; /* bytes */
	int64_t missing;
	int64_t other;
	int64_t classes[SIZE_CLASSES]; /* arrays of each size */
};

void distribution_add(struct distribution *distribution, const struct distribution_row *row,
		      int64_t size_class);
/* Sorts the rows and makes one of those of equal length: before anything is asked. */
void distribution_finish(struct distribution *distribution);
void distribution_fini(struct distribution *distribution);

/* The shortest length that `share` (0 to 1) of the arrays don't pass; 0 where there are none. */
int64_t distribution_percentile(const struct distribution *distribution, double share);
/* The same of all documents: one without an array is like one whose array is empty. */
int64_t distribution_percentile_of_all(const struct distribution *distribution, double share);
/* With an array or without. */
int64_t distribution_documents(const struct distribution *distribution);
int64_t distribution_longest(const struct distribution *distribution);
/* The same of bytes, as a power of two that is not passed. */
int64_t distribution_bytes_percentile(const struct distribution *distribution, double share);

struct above {
	int64_t documents; /* with more than so many elements */
	int64_t elements;  /* theirs that stand behind the first so many */
};
struct above distribution_above(const struct distribution *distribution, int64_t threshold);

/* Documents whose array has more bytes than this power of two. */
int64_t distribution_above_bytes(const struct distribution *distribution, int64_t bytes);

/* Arrays of `first` to `last` elements: 0, 1, 2-3, 4-7, ... */
struct histogram_bar {
	int64_t first;
	int64_t last;
	int64_t documents;
};
#define HISTOGRAM_BARS_MAX 64
/* As many bars as reach the longest array. */
size_t distribution_histogram(const struct distribution *distribution,
			      struct histogram_bar bars[HISTOGRAM_BARS_MAX]);

/* Between these two a share lies that was `found` times among `looked_at` drawn at random, 19 times
 * of 20 (Wilson's interval, which holds for few and for none, too). */
struct interval {
	double low;
	double high;
};
struct interval share_interval(int64_t found, int64_t looked_at);
/* The same for a percentile: between which lengths it lies; `high` is INFINITY where it may be
 * longer than any that was looked at. */
struct interval percentile_interval(const struct distribution *distribution, double share);
