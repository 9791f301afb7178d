/* Whether all that a document keeps stands in its overflow a second time: an application that keeps
 * a few at hand beside all of them, and no split. */
#pragma once

#include "protocol/bytes.h"

struct adopt_copies {
	uint64_t *kept;     /* hashes of the document's own elements, each once, by size */
	size_t count;       /* of these */
	size_t missing;     /* of these, not met in the overflow so far */
	unsigned char *met; /* for each */
};

void adopt_copies_init(struct adopt_copies *copies, struct bytes array);
/* The elements of an overflow document. */
void adopt_copies_add(struct adopt_copies *copies, struct bytes array);
bool adopt_copies_found(const struct adopt_copies *copies);
void adopt_copies_fini(struct adopt_copies *copies);
