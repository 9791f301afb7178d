/* Cheap questions about many documents at once: which of them need a round. */
#pragma once

#include "proxy/mover/mover_inner.h"

/* Asks about these taken entries of one target, in one query, and gives them all back to the queue.
 * LINK_REFUSED is logged. */
must_check enum link_result look_at_documents(struct mover *mover, struct link *link,
					      struct mover_work **works, size_t count);
/* Finds the outliers among the documents that the taken entry's filter matches, and puts them into
 * the queue. The entry stays taken. */
must_check enum link_result look_for_filter(struct mover *mover, struct link *link,
					    struct mover_work *work);

/* Appends as field `name` the filter for documents that a round has something to do with. */
void look_write_candidates(struct buffer *out, const char *name, const struct rule *rule);
