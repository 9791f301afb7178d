/* The statements of a write command, from the body's array or from a document sequence, and what
 * each one is. */
#pragma once

#include "protocol/command.h"
#include "protocol/packet.h"
#include "rules/query/reads.h"
#include "rules/query/update.h"

/* Where the statements of insert, update or delete stand, or a bulkWrite's parts. */
struct statements {
	bool in_sequence;       /* a section of kind 1, else an array in the body */
	size_t sequence;        /* its number */
	struct bytes documents; /* in_sequence: one behind the other */
	struct cursor cursor;   /* else */
	size_t next;            /* else: the number that the next one has to have for a name */
	bool mistyped;          /* what ended them is no document: mongod refuses the command */
};

/* `field`: FIELD_DOCUMENTS, FIELD_UPDATES or FIELD_DELETES; a bulkWrite's FIELD_OPS or
 * FIELD_NS_INFO. False where they stand nowhere, twice
 * or broken. */
must_check bool statements_open(struct statements *statements, const struct message *message,
				const struct command *command, enum command_field field);
/* The next one; false at the end. A broken one ends them with *broken set. */
must_check bool statements_next(struct statements *statements, struct bytes *statement,
				bool *broken);

/* One statement of update or delete. A field that is not there has type 0. */
struct statement {
	struct element q;
	struct element u;
	struct element multi;
	struct element upsert;
	struct element collation;
	struct element hint;
	struct element sort; /* mongod 8.0 */
	struct element array_filters;
	struct element limit;
};

/* False where it is broken or a field that counts stands twice. Where mongod takes null for
 * nothing, so does it. */
must_check bool statement_parse(struct bytes document, struct statement *statement);

/* Whether a delete with this limit is one of many. False where it is another number than 0 or 1,
 * which mongod refuses, or a decimal. */
must_check bool statement_limit(const struct element *limit, bool *many);

/* The `_id` that the filter pins by equality: {_id: value} or {_id: {$eq: value}} at its top level
 * or inside a top-level $and. Not pinned: documents with operators, regular expressions, and under
 * a collation strings, documents and arrays. */
must_check bool statement_pinned_id(struct bytes filter, bool collated, struct element *id);

/* True where mongod would take each field of the statement for what it is; where it would not, it
 * refuses the whole command and applies nothing. */
bool statement_is_sound(struct bytes document, bool deletes);
/* The same of its update, and of its arrayFilters: down to the elements of a list. */
bool statement_update_sound(const struct element *u);
bool statement_filters_sound(const struct element *filters);

/* Of a write concern's `w`. */
bool concern_is_zero(const struct element *w);
/* {w: 0}, and neither j nor fsync: mongod's reply tells nothing, if there is one. */
bool concern_is_unacknowledged(const struct element *concern);
