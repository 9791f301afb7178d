/* What mongod says of an error differs by the command: an aggregate's is told as the client's own
 * command would have told it. */
#pragma once

#include "rules/sequence/sequence.h"

/* Ends with the error, a message, that an aggregate got in place of the client's command. The error
 * of a client's aggregate or explain passes as it is. */
enum sequence_outcome read_words_pass(struct sequence *sequence, struct packet *reply);

/* An error of mongod's planner, which quotes the query: one that may not be the client's. */
bool read_words_quotes(const struct sequence *sequence, const struct packet *reply);
/* Whether the error is one that mongod tells of the command itself, and not of a document: of the
 * client's own command it may be another one, as the planner's errors quote the query. Then
 * own_error_ask asks. */
bool read_words_wanted(const struct sequence *sequence, const struct packet *reply);
/* Ends with the error `reply`, in the words of the explain where it has any. */
enum sequence_outcome read_words_take(struct sequence *sequence, struct packet *reply,
				      const struct packet *explained);
