/* Walks a collection under a rule page by page, in the order of an index: main documents by `_id`,
 * the overflow by link.
 *
 * A page is measured in documents looked at, not found, so that none takes long. Bounds are index
 * bounds (min, max), which don't stop at a change of type. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

void place_set(struct place *place, uint8_t type, struct bytes value);
void place_fini(struct place *place);

/* Main documents. The caller sets the first three. */
struct id_pages {
	struct link *link;
	const struct mover_target *target;
	int64_t size;      /* of the next page */
	struct place from; /* the next page begins here */
	bool ended;
	bool overflow; /* the overflow's documents instead, with their links */
	bool sizes;    /* of documents without a state also `size`, the bytes of {a: <the array>} */
};

/* Writes the filter for what is wanted as field `name`. */
typedef void (*page_filter)(struct buffer *out, const char *name, const struct rule *rule);
/* Hands over the `_id` of each wanted document of the next page, as {_id}, or {_id, <link>}. */
must_check enum link_result id_pages_next(struct id_pages *pages, page_filter filter,
					  link_document each, void *context);
void id_pages_fini(struct id_pages *pages);

#define LINKED_NO_STATE (-1)
#define LINKED_NO_DOCUMENT (-2)

/* One link value of the overflow, by its bytes: 1 and 1.0 are two. */
struct linked {
	struct place link;
	int64_t batches; /* how many it has */
	int64_t moved;   /* n of the state of the document with this very `_id`, or one of these */
	bool edited;     /* that array was edited in place */
	int64_t time;    /* t of that state: milliseconds since 1970; 0: it has none */
};

/* Overflow documents, with their main documents. The caller sets the first two. A link is on the
 * page that its last document is on. */
struct link_pages {
	struct link *link;
	const struct mover_target *target;
	struct linked *all; /* the page */
	size_t count;
	size_t bytes; /* of its links */
	int64_t documents;
	struct linked open;        /* the last link looked at, which may go on; type 0: none */
	struct place from, number; /* link and number of the last document looked at */
	int64_t passed;            /* documents of this place in front of that one */
	bool full;                 /* of links */
	bool ended;
};
must_check enum link_result link_pages_next(struct link_pages *pages);
void link_pages_fini(struct link_pages *pages);
