/* Which arrays grow in passing updates, and in which documents, in fixed memory: a Space-Saving
 * sketch (Metwally, Agrawal and El Abbadi, 2005) of arrays, and in each of them one of documents.
 * What is met for the first time takes the place of what was met least, and the count of that; how
 * much may belong to others is kept beside each count. So whoever is met often is never missed. */
#pragma once

#include "protocol/bytes.h"

#define SKETCH_ARRAYS 64
#define SKETCH_DOCUMENTS 16

struct sketch_count {
	uint64_t key;     /* a hash */
	int64_t elements; /* 0: the place is free */
	int64_t over;     /* of these, so many at most are others' */
};

struct sketch_array {
	struct sketch_count count;
	char *namespace; /* database.collection; owned */
	char *array;     /* its path; owned */
	/* Since it has its place: */
	int64_t pushes;
	int64_t elements;
	int64_t bytes; /* of the elements */
	struct sketch_count documents[SKETCH_DOCUMENTS];
};

/* All zeros is an empty one. */
struct sketch {
	struct sketch_array arrays[SKETCH_ARRAYS];
};

/* One push, as an update says it. */
struct sketch_push {
	struct bytes database, collection, array;
	struct bytes document; /* whatever tells its document from others; empty: not known */
	int64_t elements;
	int64_t bytes;
};

void sketch_fini(struct sketch *sketch);
/* The key makes it hard to choose names that look alike. All sketches that are to be merged have
 * the same one. */
void sketch_count(struct sketch *sketch, const struct sketch_push *push, uint64_t key);
/* Adds what `from` has counted. */
void sketch_merge(struct sketch *sketch, const struct sketch *from);
/* The array that grew most in one document first; free places last. */
void sketch_sort(struct sketch *sketch);

/* How many elements one document got at least: the `place`th of those that got most, from 0. */
int64_t sketch_grown(const struct sketch_array *array, size_t place);
