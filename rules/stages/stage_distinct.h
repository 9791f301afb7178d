/* A distinct's key, as aggregation stages behind whole documents. */
#pragma once

#include "protocol/command.h"
#include "protocol/reply.h"
#include "rules/rule/rules.h"

/* True for paths of more parts than mongod takes: what is written grows by the square of the parts.
 */
bool distinct_is_long(struct bytes key);
/* False for paths that no expression can name, and for very long ones: mongod may take them. */
bool distinct_served(struct bytes key);
/* What the values are taken from. */
enum distinct_source {
	DISTINCT_OF_DOCUMENTS,
	DISTINCT_OF_KEYS,        /* what an index on the path has of a document */
	DISTINCT_OF_SPARSE_KEYS, /* a sparse one */
	DISTINCT_OF_FETCHED,     /* one document for each key; which one, null depends on */
	DISTINCT_UNKNOWN,        /* the indexes have to be looked up */
	DISTINCT_AMBIGUOUS,      /* can't be told */
};

/* What mongod answers this distinct from: without a query, from an index. */
enum distinct_source distinct_source(const struct command *command,
				     const struct ruled_namespace *namespace);
/* It has a query, and an index that is known has its path: from the keys of an index on which no
 * document has had an array at that path, mongod answers such a distinct, too. Its plan tells. */
bool distinct_may_scan(const struct command *command, const struct ruled_namespace *namespace);
/* Appends the stages that make one document {values: [...]} of all values at the path; a source
 * that is not known means the documents. */
void distinct_write(struct buffer *out, size_t *place, struct bytes key,
		    enum distinct_source source);
/* A reply's error says that this document passes what mongod holds. */
bool distinct_too_large(const struct reply_summary *summary);
