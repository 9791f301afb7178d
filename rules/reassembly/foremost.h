/* The documents that come first in the order of a ruled array (docs/internals/decisions/reads.md,
 * 105): a find without a filter that sorts by the array, with a limit. An index of the overflow has
 * that order.
 *
 * An outlier's place is told by its best element: the least, or the greatest in descending order.
 * One aggregate puts in order: the first documents of main, by what main holds; documents that are
 * named, whole; and the overflow's best batch of all others. If that batch is not among the first,
 * these are the answer: no other outlier has a better element in the overflow than the last of
 * them, and so main has the best element of each of them. An element that left main before main was
 * read stands in the overflow when that is read, since garbage waits for gc_delay. Else outliers
 * are named, and asked is again. */
#pragma once

#include "protocol/command.h"
#include "rules/reassembly/reassemble.h"
#include "rules/rule/rules.h"

#define FOREMOST_MOST 250 /* documents that are asked for, or named */
#define FOREMOST_LOOKS 3  /* then another way */

struct foremost {
	const struct ruled_namespace *namespace;
	const struct target *target; /* by whose array is sorted */
	int32_t order;               /* 1 or -1 */
	int32_t by_id;               /* the same among equals; 0: in any order */
	int64_t most;                /* documents: skip and limit */
	struct buffer named;         /* _ids, an array; empty where none was named */
	size_t named_count;
	int looks;
};

/* False where the find is to be answered in another way. `limit`: documents that its first reply
 * brings, all that it returns. The read goes to a primary, outside a transaction. */
must_check bool foremost_of_find(const struct command *find, int64_t limit,
				 const struct ruled_namespace *namespace,
				 struct foremost *foremost);
void foremost_fini(struct foremost *foremost);

/* Appends the stages that give the documents, in order. What reassemble_write_stages does is still
 * to be done. Where outliers have to be named first, an error
 * is raised that raised_short knows. */
void foremost_write_stages(struct buffer *out, size_t *place, const struct foremost *foremost,
			   struct reassembly how);
/* Appends the fields of the command that tells whose batches come first in the overflow. */
void foremost_write_look(struct buffer *out, const struct foremost *foremost);
/* Takes its reply's batch. False where nobody new was named, or too many. */
must_check bool foremost_take(struct foremost *foremost, struct bytes batch);
/* So much time has passed since the question that garbage may have gone meanwhile. */
bool foremost_is_late(const struct foremost *foremost, uint64_t microseconds);
