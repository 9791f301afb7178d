/* What is known of the indexes on ruled and overflow collections, which come and go: those of the
 * overflow tell what a question to it costs, and no more; those of the ruled collection what a
 * hint means.
 *
 * Any thread tells, any thread asks. What is known of one collection lives until all who asked the
 * book for it have left it: there are no more than collections that somebody has to do with. */
#pragma once

#include "protocol/cursor.h"

#include <pthread.h>

#define INDEX_BOOK_ROWS 8192

struct known_indexes;

struct index_book {
	pthread_mutex_t lock;
	uint64_t key;
	struct known_indexes *rows[INDEX_BOOK_ROWS]; /* by the names' hash */
};

/* `key`: a secret, for the hash. */
void index_book_init(struct index_book *book, uint64_t key);
void index_book_fini(struct index_book *book);
/* Made at the first call; nothing is known then. */
struct known_indexes *index_book_find(struct index_book *book, struct bytes database,
				      struct bytes collection);
/* Once for each find: gone with the last. `indexes` may be NULL. */
void index_book_leave(struct index_book *book, struct known_indexes *indexes);

/* Those that are there now: an array, as listIndexes gives them; copied. */
void known_indexes_take(struct known_indexes *indexes, struct bytes now);
/* Whether an index that is there begins with the path. `indexes` may be NULL. */
bool known_indexes_serve(struct known_indexes *indexes, const char *path);

/* Whether an index that is there gives documents in the order of this sort, or in its reverse.
 * `indexes` may be NULL. */
bool known_indexes_sort(struct known_indexes *indexes, struct bytes sort);

enum index_meant {
	INDEX_NOT_KNOWN, /* no index that is known is meant: it may have been made elsewhere */
	INDEX_MEANT,
	INDEX_MEANT_SO, /* and `judge` says so */
};

/* What is known of an index that a hint, or a collMod, means by its name or its keys; `hint` NULL:
 * of the text index, of which a collection has one at most. `indexes` may be NULL. */
enum index_meant known_indexes_judge(struct known_indexes *indexes, const struct element *hint,
				     bool (*judge)(const void *context, struct bytes index),
				     const void *context);
/* Whether `judge` says so of some index that is known. `indexes` may be NULL. */
bool known_indexes_any(struct known_indexes *indexes,
		       bool (*judge)(const void *context, struct bytes index), const void *context);
/* As mongod compares the keys of a hint with an index's. */
bool index_keys_same(struct bytes one, struct bytes other);

/* What mongod answers a distinct without a query from. */
enum index_scan {
	INDEX_SCAN_UNKNOWN,   /* no index is known, which a collection always has */
	INDEX_SCAN_NONE,      /* the documents */
	INDEX_SCAN_KEYS,      /* the keys of an index that begins with the path */
	INDEX_SCAN_SPARSE,    /* of a sparse one on the path alone */
	INDEX_SCAN_FETCHES,   /* one document for each key of an index with a collation */
	INDEX_SCAN_AMBIGUOUS, /* which index, or which documents it lacks, can't be told */
};

/* The collation that a command gives. */
enum collation_given {
	COLLATION_NONE, /* the collection's counts */
	COLLATION_SIMPLE,
	COLLATION_OTHER,
};
enum collation_given collation_given(const struct element *collation);

/* mongod takes the index with the fewest fields. `indexes` may be NULL. */
enum index_scan known_indexes_scan(struct known_indexes *indexes, struct bytes path,
				   enum collation_given collation);

/* Whether one of these indexes, an array, begins with the path, and has all documents. `keys`: what
 * its key is called. */
bool indexes_begin_with(struct bytes indexes, const char *keys, const char *path);
