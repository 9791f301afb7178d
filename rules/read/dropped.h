/* Whether a read has failed because its collection was dropped. */
#pragma once

#include "rules/sequence/sequence_inner.h"

/* The overflow that a cursor's command read went with its whole collection: mongod names no more
 * than its UUID. */
bool dropped_overflow(const struct reply_summary *summary);
/* Asks whether the sequence's collection is there; whoever may read it may ask this. */
enum sequence_outcome dropped_ask(struct sequence *sequence, const struct sequence_input *input);
/* True where the answer says that it is not. */
bool dropped_said(const struct packet *reply);
