/* What a filter, sort or expression needs of the ruled arrays and of the names that are Spillway's
 * own.
 *
 * "f" means the array's path, every prefix of it and everything below it, also by way of array
 * positions (names.h; docs/internals/spill-protocol.md, "Reads"). A flag, counter or reference that
 * clients don't see counts as f: only where documents are put together is it missing. In doubt the
 * answer is that f is read. What mongod refuses anyway may be called harmless. Iterative on
 * untrusted bytes: no deeper than CURSOR_MAX_DEPTH, time and stack are bounded. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

/* The gravest that was found. */
enum reads_kind {
	READS_NOTHING,  /* of f and of our names */
	READS_ARRAY,    /* names f, or a hidden field, or may look at the whole document ($where,
			   $$ROOT, anything not understood; $text where its index is over f) */
	READS_RESERVED, /* names `_spill`: refused wherever it stands */
	READS_BROKEN,   /* not BSON, or deeper than any that mongod takes: refused */
};

struct reads {
	enum reads_kind kind;
	const struct rule *rule; /* READS_ARRAY: the first rule concerned; else NULL */
	char what[64]; /* what decided it, our own words or a $-operator's name; for messages */
	bool searches; /* $text: reads f where its index is over it */
	bool asks;     /* and no text index is known */
	bool document; /* a condition or an operator looks at more than the fields that it names */
};

/* Any of those below that take a document. */
typedef struct reads reads_reader(struct bytes part, const struct ruled_namespace *namespace);

/* A filter document (query, q, $match). */
struct reads reads_of_filter(struct bytes filter, const struct ruled_namespace *namespace);
/* One condition of a filter reads neither f nor our names. */
bool reads_nothing_of(const struct element *condition, const struct ruled_namespace *namespace);
/* An aggregation expression: any value. What a variable stands for is read where it is defined:
 * hand over `let` documents, too. */
struct reads reads_of_expression(const struct element *expression,
				 const struct ruled_namespace *namespace);
/* A let that sets CURRENT. */
bool reads_current(const struct element *let);
#define READS_CURRENT \
	"a let that sets CURRENT changes what Spillway's own stages read; call the variable " \
	"otherwise"
/* It has an operator that may look at more than its arguments say. */
bool reads_whole_document(const struct element *expression,
			  const struct ruled_namespace *namespace);
/* The same of a filter that is judged by documents as they are stored: an index's. */
struct reads reads_of_stored(struct bytes filter, const struct ruled_namespace *namespace);
/* The keys of a sort. */
struct reads reads_of_sort(struct bytes keys, const struct ruled_namespace *namespace);
/* A hint or index key pattern; min and max bounds: of what is stored. {$natural: 1} reads nothing.
 * (A hint that names its index can't be judged here.) */
struct reads reads_of_keys(struct bytes keys, const struct ruled_namespace *namespace);

/* For the readers themselves. */

/* `text` as a word for messages: an operator's name where it looks like one, else `otherwise`.
 * Nothing else of what clients send gets into a message. */
void reads_say(char what[64], struct bytes text, const char *otherwise);
/* For messages: the name of the first field of a document, empty for anything else. */
struct bytes element_operator(const struct element *element);
/* Notes what was found; the first of the gravest stays. */
void reads_note(struct reads *reads, enum reads_kind kind, const struct rule *rule,
		struct bytes what, const char *otherwise);
void reads_note_path(struct reads *reads, const struct ruled_namespace *namespace,
		     struct bytes path, struct bytes what, const char *otherwise);
/* The same of a name that clients may not see. */
void reads_note_name(struct reads *reads, const struct ruled_namespace *namespace,
		     struct bytes path, struct bytes what, const char *otherwise);
void reads_note_document(struct reads *reads, const struct ruled_namespace *namespace,
			 struct bytes what);
void reads_note_broken(struct reads *reads);
/* Adds what was found elsewhere. */
void reads_join(struct reads *reads, const struct reads *other);

/* The same questions of updates and projections. */
#include "rules/query/projection.h"
#include "rules/query/update.h"
/* A $meta stands in it, at any depth, that is lost where arrays are put together: "recordId",
 * "indexKey" and "sortKey"; of a `find` all but the score of its $text. */
bool reads_meta(const struct element *field, bool find);
/* Any $meta: whether there is such metadata, mongod alone says. */
bool reads_any_meta(const struct element *field);
/* A sort by `_id` alone, which mongod does by its index: not under a collation that the command
 * brings. */
bool reads_by_id(const struct element *sort, const struct element *collation);
