/* Statements of an update or delete that mongod itself refuses: Spillway cannot serve them, and has
 * asked mongod. The others go out, and each of these has mongod's error in the reply. */
#pragma once

#include "rules/sequence/sequence_inner.h"

struct refused_statements {
	struct buffer errors; /* documents {index, code, errmsg}, one behind the other */
	struct packet lender; /* a reply to nothing, if no statement goes out */
	size_t judged;    /* the statement that mongod is asked about; those before are judged */
	size_t questions; /* asked so far */
	const char *why;  /* that statement cannot be served */
};

/* Commands with a single statement each, which are matched, have so many bytes together. */
#define REFUSED_STATEMENTS_BYTES (16 << 20)
/* mongod is asked about so many statements of a command. */
#define REFUSED_STATEMENTS_MOST 100

/* Takes the error for the statement that mongod was asked about: `code` and `errmsg` of a document.
 */
void refused_statements_add(struct refused_statements *refused, struct bytes error);
/* The same of the reply to own_error_ask_of. */
void refused_statements_keep(struct refused_statements *refused, struct sequence *sequence,
			     const struct packet *reply);
/* False if the statement is not refused. */
must_check bool refused_statements_find(const struct refused_statements *refused, size_t index,
					int32_t *code, struct bytes *text);
/* Whether a command with a single statement, in a frame that is taken over, would be served. If it
 * is refused, the client's match has its code and message then. */
must_check bool refused_statements_serves(struct match *match, struct buffer *frame);
void refused_statements_fini(struct refused_statements *refused);
