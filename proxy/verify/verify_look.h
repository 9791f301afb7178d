/* One document under a rule, read from the server until it holds still, and judged. */
#pragma once

#include "proxy/job/job.h"
#include "proxy/verify/verify_document.h"

/* `verify` is the caller's to end with verify_document_fini; `main` is what was judged (`image`: to
 * be freed with bson_free; NULL where the document is gone). What changed each time it was looked
 * at is found to be busy. */
must_check enum link_result verify_look(struct job *job, const struct mover_target *target,
					const struct element *id, struct verify_document *verify,
					uint8_t **image, struct bytes *main);

/* Finds the documents that there is something to say of: outliers, those with a state, or a flag.
 */
void verify_write_filter(struct buffer *out, const char *name, const struct rule *rule);
