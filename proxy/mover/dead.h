/* Dead generations (docs/internals/spill-protocol.md, "Garbage"): which there are (G0), and which
 * of them main documents name (G1). */
#pragma once

#include "proxy/ownership/renamed.h"
#include "proxy/spill/expired.h"
#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

struct generations {
	uint8_t (*all)[16]; /* owned */
	size_t count;
};

/* The generations of one document, of which those that are alive are taken out. */
struct dead {
	struct dead *next;
	struct mover_target *target;
	int64_t due;
	uint64_t serial; /* of the link that G0 and G1 ran on */
	uint8_t type;
	struct bytes link; /* owned */
	struct generations dead;
	bool present; /* the document is there */
	bool marked;  /* some batch counts up to an edition */
	struct expired expired;
};

void dead_free(struct dead *dead);

/* What G0 and G1 find. */
struct dead_look {
	struct mover_target *target;
	struct dead *found; /* one a link value, newest first */
	struct generations alive;
	bool unreadable;            /* a state on this page: nobody knows what is alive */
	bool latest;                /* main as it is now, be it majority committed or not */
	char renamed[RENAMED_SIZE]; /* the collection that may need all of it; empty: none */
	bool sure;                  /* none needs it, as was asked before */
};

/* Takes the first one that was found out, for the caller to free; NULL: there is none. */
struct dead *dead_pop(struct dead_look *looking);
void dead_look_fini(struct dead_look *looking);

/* G0: the generations of the batches of these documents (an array of `_id`s). */
must_check enum link_result dead_find(struct dead_look *looking, struct link *link,
				      struct bytes links);
/* G1: the generations that are alive. `take` gets each main document, and calls dead_take_main. */
must_check enum link_result dead_find_alive(struct dead_look *looking, struct link *link,
					    link_document take);
/* One overflow document of G0, and one main document of G1; the context is the look. */
void dead_take_overflow(void *context, struct bytes document);
void dead_take_main(void *context, struct bytes document);
/* The main document's entry, or NULL: its `_id` may equal the link and be written otherwise. */
struct dead *dead_entry_of(struct dead_look *looking, struct bytes document);

/* Asks whose the overflow is, if that is not known. */
must_check enum link_result dead_ask_owner(struct link *link, struct mover_target *target);
/* Whether it is proven enough whose the overflow is. What a present document has left goes if that
 * is only likely. */
bool dead_may_go(const struct dead *dead);
/* Keeps those that are dead, and none if that can't be told. */
void dead_keep(struct dead *dead, const struct dead_look *looking);

/* ---- those that wait until they may be removed ---- */

#define DEAD_HEAP_MAX 100000
#define DEAD_HEAP_BYTES (64 << 20) /* of `_id`s, which clients choose, and of generations */

/* By the time when they are due. */
struct dead_heap {
	struct dead **all;
	size_t count, room;
	size_t bytes;
};

void dead_heap_fini(struct dead_heap *heap);
/* Takes `dead` over; false, and it stays the caller's, where the heap is full. */
must_check bool dead_heap_put(struct dead_heap *heap, struct dead *dead);
/* One that is due, for the caller; NULL: there is none. */
struct dead *dead_heap_take(struct dead_heap *heap, int64_t now);
/* When the first is due; INT64_MAX: there is none. */
int64_t dead_heap_due(const struct dead_heap *heap);
