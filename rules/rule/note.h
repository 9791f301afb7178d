/* What a client's write leaves for the mover to look at. */
#pragma once

#include "rules/rule/rules.h"

/* What the write did to a ruled array, as far as one can tell without looking. */
enum mover_reason {
	MOVER_APPENDED, /* elements were pushed: `elements` says how many; a round when `gather`
			   wait, or `max_bytes` of them, or after `settle` */
	MOVER_CHANGED, /* the document was inserted, replaced, or the array set or unset as a whole:
			  look after `settle`; clear garbage */
	MOVER_EDITED,  /* folded back by an edit: look after `quiet`; clear garbage */
	MOVER_DELETED, /* clear garbage */
	MOVER_SOMEWHERE, /* some document of the collection, nothing known of it: look through the
			    collection soon, rate-limited */
};

/* What the mover does while a client that changed a collection waits for its reply. */
enum mover_tending {
	MOVER_TEND_NOTHING,
	MOVER_TEND_INDEXES, /* indexes on the array were made or dropped: the overflow's follow */
	MOVER_TEND_GONE,    /* the collection was dropped or renamed: so goes its overflow */
};

/* All views; whoever keeps a note copies them. */
struct mover_note {
	enum mover_reason reason;
	const struct rule *rule;
	struct bytes database;
	struct bytes collection;
	uint8_t id_type; /* BSON type of `_id`; 0: not known, then `filter` tells which documents it
			    may be */
	struct bytes id;
	struct bytes filter;    /* a find filter; empty where `id` is known */
	struct bytes collation; /* of the filter; empty: none */
	int64_t elements;
	int64_t bytes;               /* of the elements, where they are known */
	struct bytes operation_time; /* of the write's reply: 8 bytes, or empty */
	bool unsettled; /* not visible yet perhaps (in a transaction, or unacknowledged): look
			   several times, up to 60 s */
};
