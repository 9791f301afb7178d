/* A distinct's key, as aggregation stages behind whole documents. */
#pragma once

#include "protocol/reply.h"

/* False for paths that no expression can name: mongod may take them. */
bool distinct_served(struct bytes key);
/* Appends the stages that make one document {values: [...]} of all values at the path. */
void distinct_write(struct buffer *out, size_t *place, struct bytes key);
/* A reply's error says that this document passes what mongod holds. */
bool distinct_too_large(struct bytes body, const struct reply_summary *summary);
