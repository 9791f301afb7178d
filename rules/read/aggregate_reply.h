/* The reply to an aggregate becomes the reply to the client's own command. */
#pragma once

#include "rules/sequence/sequence_inner.h"

/* A count's or a distinct's: the only document of the cursor has its value. */
enum sequence_outcome aggregate_reply_value(struct sequence *sequence, struct packet *reply,
					    struct bytes cursor_document);
/* What an explain says of the query in front of the stages that stand for a find, count or
 * distinct. False if it has no such part. */
bool aggregate_reply_query(struct bytes body, struct bytes *query);
/* An explain's, with that part. Programs look for `queryPlanner` at the top, where mongod has it
 * for such a command. */
enum sequence_outcome aggregate_reply_explain(struct sequence *sequence, struct packet *reply,
					      struct bytes query);
/* Documents lose their marks (computed.h). */
enum sequence_outcome aggregate_reply_computed(struct sequence *sequence, struct packet *reply,
					       struct bytes cursor_document);
/* The first documents of the batch; hits of the overflow stand behind them (probe.h). */
enum sequence_outcome aggregate_reply_cut(struct sequence *sequence, struct packet *reply,
					  struct bytes cursor_document, size_t documents);
