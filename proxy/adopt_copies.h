/* Whether what a document keeps stands in its overflow a second time, as its first or last
 * elements: an application that keeps a few at hand beside all of them, and no split. */
#pragma once

#include "protocol/bytes.h"

struct adopt_copies {
	uint64_t *kept;  /* hashes of the document's own elements */
	uint64_t *last;  /* of the overflow's last ones, as many: a ring */
	size_t count;    /* of the document's */
	size_t seen;     /* of the overflow's */
	bool first;      /* so far the first ones are the same */
	bool first_back; /* and in the other order */
};

void adopt_copies_init(struct adopt_copies *copies, struct bytes array);
/* The elements of an overflow document, in the order of these. */
void adopt_copies_add(struct adopt_copies *copies, struct bytes array);
bool adopt_copies_found(const struct adopt_copies *copies);
void adopt_copies_fini(struct adopt_copies *copies);
