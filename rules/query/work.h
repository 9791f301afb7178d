/* How much of a request Spillway has to read and to rewrite. The event loop does nothing else
 * meanwhile, so both have a limit. Fields are counted, not time: the same request always has the
 * same answer.
 *
 * A field counts as one, and so does a document in a list. A plain value in a list counts as an
 * eighth: lists of values are copied as a whole. What is inserted is not counted, and neither are
 * the values inside an update's operators and replacements: they are copied, too. */
#pragma once

#include "protocol/command.h"
#include "protocol/message.h"

/* For a command or for one statement of it: some 0.1 s of rewriting on a slow core. */
#define WORK_REWRITTEN_MOST 200000
/* For a command or for one statement of it, before anything is known of it. */
#define WORK_READ_MOST 500000
/* For all statements of a command: some 40 for each of 100,000. */
#define WORK_STATEMENTS_MOST 4000000
/* Statements: mongod's limit, also of a document sequence. */
#define WORK_STATEMENT_COUNT_MOST 100000

struct work {
	size_t largest;    /* of the command's own fields and of each statement */
	size_t all;        /* together */
	size_t statements; /* their number */
};

/* `message`: what the command came in, for its document sequences; NULL: it has none. What is too
 * short to pass a limit counts as nothing, and what passes one is not read to its end. */
struct work work_of(const struct command *command, const struct message *message);
