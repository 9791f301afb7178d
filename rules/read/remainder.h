/* What a reply has no room for waits in a cursor of the server's own: its documents, as they were
 * read, go out once more as constants of an aggregate on the same namespace. Any Spillway can go on
 * with it. Each comes back as
 *
 *   {_spill: {"/rest": <the document's bytes>}}
 *
 * and the last one also says which cursor follows: "/then": <its id, 0 for none>. */
#pragma once

#include "protocol/bytes.h"

/* More bytes of documents don't fit in one command. */
#define REMAINDER_LIMIT (12 << 20)

/* Appends the aggregate's fields to the body that is open in `out`: these documents, and then the
 * cursor `then`. */
void remainder_write(struct buffer *out, const char *collection, const struct bytes *documents,
		     size_t count, int64_t then);
/* False where it is none of these. `then` is written where this document says what follows, which
 * `last` tells. */
must_check bool remainder_read(struct bytes document, struct bytes *image, bool *last,
			       int64_t *then);
