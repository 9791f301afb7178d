/* Indexes of a main collection over a ruled array, and their likes on the overflow's array
 * (docs/internals/spill-protocol.md, "Indexes").
 *
 * Of a compound key the fields of the array are taken, since overflow documents have no others; a
 * partial filter, which names fields of the main document, is left out. What has no like there: a
 * hashed key, which can't hold arrays, a wildcard over all fields, and an index over what holds the
 * array. */
#pragma once

#include "protocol/writer.h"
#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* How the names of indexes begin that were made here; others are not touched. */
#define MIRROR_NAME "spillway:"

/* Appends the like of a main collection's index, as createIndexes wants it, named `name` to the
 * open document; false where it has none: then nothing is appended. */
must_check bool mirror_write(const struct rule *rule, struct bytes index, const char *name,
			     struct buffer *out);
/* Whether the two are the same but for their names. */
bool mirror_same(struct bytes one, struct bytes other);
/* Whether this index of an overflow collection was made here. */
bool mirror_is_ours(struct bytes index);
/* An index's name; empty where it has none. */
struct bytes mirror_name(struct bytes index);

/* Makes the likes that the overflow lacks, and drops those whose index on the main collection is
 * gone. What the server refuses is logged: reads are right without them. */
must_check enum link_result mirror_renew(struct link *link, struct mover_target *target);
