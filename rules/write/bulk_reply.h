/* The replies to the runs of a bulkWrite, put together into the one that mongod 8.0 would have
 * given (bulk_write.cpp): one item for each op that was tried, or only for those that failed. */
#pragma once

#include "rules/query/bulk_ops.h"

/* mongod stops where the items come to this, with an error in the place of the next op (its
 * parameter bulkWriteMaxRepliesSize). Together with those of one more run, whose reply was one
 * document, they fit in a message. */
#define BULK_REPLY_ITEMS_MAX (16 * 1024 * 1024)

struct bulk_reply {
	int64_t errors, inserted, matched, modified, upserted, deleted;
	struct buffer items;   /* documents, one behind the other */
	struct buffer retried; /* int32 each: the statements that history answered */
	struct buffer concern; /* {writeConcernError, errorLabels} of a reply before the last that
				  had the first */
	struct packet last;    /* lends its other fields */
	bool some;             /* `last` is there */
};

/* Takes the reply (ok: 1) to the run over. False where it can't be read; it then stays with the
 * caller, and nothing was added. */
must_check bool bulk_reply_add(struct bulk_reply *reply, const struct bulk_write *bulk,
			       struct bulk_run run, struct packet *answer);
/* The run was not done at all: each of its ops that mongod would have come to has this error. */
void bulk_reply_add_failure(struct bulk_reply *reply, const struct bulk_write *bulk,
			    struct bulk_run run, int32_t code, struct bytes message);
/* Something was changed. */
bool bulk_reply_applied(const struct bulk_reply *reply);
/* The items behind the first batch, as the client's batchSize says; empty: all are in the first. */
struct bytes bulk_reply_rest(const struct bulk_reply *reply, const struct bulk_write *bulk);
/* Appends the fields of a command whose cursor returns these items. */
void bulk_reply_write_rest(struct buffer *out, struct bytes rest);
/* The server's cursor that has the items behind the first batch. */
struct bulk_cursor {
	struct bytes rest; /* these items */
	struct element id;
	struct element ns;
};
/* Appends the whole reply frame; at least one run was added. Without a cursor (NULL) all items
 * stand in the first batch. */
void bulk_reply_append(const struct bulk_reply *reply, const struct bulk_write *bulk,
		       const struct bulk_cursor *cursor, struct buffer *out, int32_t response_to);
void bulk_reply_fini(struct bulk_reply *reply);
