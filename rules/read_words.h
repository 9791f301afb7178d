/* What mongod says of an error differs by the command: an aggregate's is told as the client's own
 * command would have told it. */
#pragma once

#include "rules/sequence.h"

/* Ends with the error that the aggregate got, a message. */
enum sequence_outcome read_words_pass(struct sequence *sequence, struct packet *reply);
