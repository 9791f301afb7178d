/* The client's insert, update or delete, written again with some of its statements: the same form
 * (body array or document sequence), states reset where arrays are set as a whole. */
#pragma once

#include "rules/sequence/sequence_inner.h"
#include "rules/query/statements.h"

/* Which of the client's statements a command carries: a run of them. */
struct selection {
	size_t first;
	size_t count;
};

struct write_command {
	const struct bytes *documents; /* all of the client's statements */
	size_t count;
	struct selection selection; /* may reach beyond the last */
	bool part;                  /* of the client's command: statement ids and time of its own */
	bool answered;              /* though the client wants no answer */
	/* Of edits: what stands for their own, one behind the other, the last for all that follow.
	 * Empty: their own. */
	struct bytes filters;
	bool upsert;
	struct element update; /* type 0: its own */
	bool repeats;          /* all are one statement of the client's, and go in order */
};

enum command_field write_statements_field(const struct sequence *sequence);
bool write_open_statements(const struct sequence *sequence, struct statements *statements);
/* True where the statement sets an array as a whole: it is not sent byte for byte. */
bool write_statement_resets(const struct sequence *sequence, struct bytes document,
			    struct statement *statement);
/* Writes the whole frame into sequence->buffer and makes it the output. */
void write_command_make(struct sequence *sequence, const struct write_command *command);
