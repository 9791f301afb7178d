/* A collection in portions of `_id`, one after the other: so `analyze` can say how far it is. Pure.
 */
#pragma once

#include "protocol/cursor.h"

/* All zeros holds nothing. */
struct portions {
	struct buffer bounds; /* {_id, ...}: where a portion ends, and the next one begins */
	size_t place;         /* in them: behind the next portion's begin, */
	struct element bound; /* which is this */
	bool ended;
	int64_t drawn;
	int64_t last, least, most; /* record */
	double way;                /* from record to record, in the order of _id */
	bool unknown;              /* a record had no number */
};

/* Those with an _id of `from` and beyond, below `to`; type 0 is an open end. */
struct portion {
	struct element from, to;
};

/* So many documents are to be drawn at random, for their _id; 0: the collection is too small. */
int64_t portions_wanted(int64_t documents);
/* Takes one of them, {_id, $recordId}: in the order of _id. */
void portions_add(struct portions *portions, struct bytes document);
/* Documents are stored about in the order of their _id. If not, who reads them in that order has to
 * fetch each page of the collection again and again. */
bool portions_fit(const struct portions *portions);
/* False: there is none any more. */
must_check bool portions_next(struct portions *portions, struct portion *portion);
void portions_fini(struct portions *portions);
