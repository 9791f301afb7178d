/* Statements of an update or delete that mongod itself refuses: Spillway cannot serve them, and has
 * asked mongod. The others go out, and each of these has mongod's error in the reply. */
#pragma once

#include "rules/sequence_inner.h"

struct refused_statements {
	struct buffer errors; /* documents {index, code, errmsg}, one behind the other */
	struct packet lender; /* a reply to nothing, if no statement goes out */
	size_t judged;    /* the statement that mongod is asked about; those before are judged */
	size_t questions; /* asked so far */
	const char *why;  /* that statement cannot be served */
};

/* mongod is asked about so many statements of a command. */
#define REFUSED_STATEMENTS_MOST 100

/* Takes mongod's error for the statement that it was asked about. */
void refused_statements_keep(struct refused_statements *refused, struct sequence *sequence,
			     const struct packet *reply);
/* False if the statement is not refused. */
must_check bool refused_statements_find(const struct refused_statements *refused, size_t index,
					int32_t *code, struct bytes *text);
/* Whether a command with a single statement, in a frame that is taken over, would be served. If it
 * is refused, the client's match has its code and message then. */
must_check bool refused_statements_serves(struct match *match, struct buffer *frame);
void refused_statements_fini(struct refused_statements *refused);
