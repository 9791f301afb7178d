/* What is known of the indexes on overflow collections, which come and go: a hint of what a
 * question to the overflow costs, and never more.
 *
 * Any thread tells, any thread asks. What is known of one collection lives as long as the book. */
#pragma once

#include "protocol/bytes.h"

#include <pthread.h>

#define INDEX_BOOK_ROWS 1024

struct overflow_indexes;

struct index_book {
	pthread_mutex_t lock;
	uint64_t key;
	struct overflow_indexes *rows[INDEX_BOOK_ROWS]; /* by the names' hash */
};

/* `key`: a secret, for the hash. */
void index_book_init(struct index_book *book, uint64_t key);
void index_book_fini(struct index_book *book);
/* Made at the first call; nothing is known then. */
struct overflow_indexes *index_book_find(struct index_book *book, struct bytes database,
					 struct bytes collection);

/* Those that are there now: an array, as listIndexes gives them; copied. */
void overflow_indexes_take(struct overflow_indexes *indexes, struct bytes now);
/* Whether an index that is there begins with the path. `indexes` may be NULL. */
bool overflow_indexes_serve(struct overflow_indexes *indexes, const char *path);

/* Whether one of these indexes, an array, begins with the path, and has all documents. `keys`: what
 * its key is called. */
bool indexes_begin_with(struct bytes indexes, const char *keys, const char *path);
