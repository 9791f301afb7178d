/* Reads a document under a rule, and its overflow, whole. */
#pragma once

#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"

/* mongod takes it for an `_id`. A link that somebody wrote by hand may be anything, and of such a
 * one mongod refuses conditions. */
bool target_may_be_id(const struct element *value);

/* `image`: to be freed with bson_free; NULL: there is no such document. */
must_check enum link_result target_read_document(struct link *link,
						 const struct mover_target *target,
						 const struct element *id, uint8_t **image,
						 struct bytes *document);
/* The overflow documents of the document `id`, in the order of their numbers, whatever wrote them.
 */
must_check enum link_result target_read_overflow(struct link *link,
						 const struct mover_target *target,
						 const struct element *id, link_document each,
						 void *context);
/* The same in the order of their places in the array, whatever their numbers. */
must_check enum link_result target_read_places(struct link *link, const struct mover_target *target,
					       const struct element *id, link_document each,
					       void *context);
