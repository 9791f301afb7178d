/* Errors that Spillway's own stages raise in mongod, and what they are told apart by. Texts of
 * templates: see expressions.h. */
#pragma once

#include "protocol/reply.h"
#include "rules/reassembly/sound.h"

/* What the errors begin with, somewhere in mongod's text. */
#define RAISED_MARK "spillway: "

/* An array was rewritten while it was read. A getMore on a collection without a rule passes this
 * text to the client as it is. */
#define RAISED_DEAD RAISED_MARK "the generation ended"
#define RAISED_TRY_AGAIN ", as an array was rewritten while it was read; try again: "
/* The document's state can't be read, or its array is none. */
#define RAISED_DAMAGED RAISED_MARK "a damaged state"
/* The array was edited in place: it does not fit into a document. */
#define RAISED_EDITED RAISED_MARK "an edit in place"
/* The document's state stands, and its overflow is not all there. */
#define RAISED_LOST RAISED_MARK "missing overflow"
/* The document doesn't tell which element a positional projection means. */
#define RAISED_UNCLEAR RAISED_MARK "a positional projection"
/* No element matches a positional projection; mongod fails with 51246. */
#define RAISED_MISSED RAISED_MARK "no matching element"
/* The document can't be merged into a ruled namespace. */
#define RAISED_UNSAFE RAISED_MARK "a merged document"
/* An index has several keys of the document. */
#define RAISED_SEVERAL RAISED_MARK "several keys"
/* What is included of an array depends on mongod's plan. */
#define RAISED_MIXED RAISED_MARK "an included path"
/* mongod takes a position in the array for a field's name. */
#define RAISED_NUMBERED RAISED_MARK "an array position"
/* A field's own name is that of a path. */
#define RAISED_DOTTED RAISED_MARK "a dotted name"
/* Documents share the key of null or undefined in an index. */
#define RAISED_SHARED RAISED_MARK "a shared key"
/* A group depends on mongod's engine (pushed_group.h): by equal values of several types, by a value
 * that one engine changes, by a $mergeObjects of what is no document. */
#define RAISED_TIED RAISED_MARK "a tie of several types"
#define RAISED_CHANGED RAISED_MARK "a changed value"
#define RAISED_UNMERGED RAISED_MARK "no document to merge"
/* A field name stands twice: mongod would lose one of the fields. */
#define RAISED_REPEATED RAISED_MARK "a repeated name"
/* A document is joined by a field that is undefined. */
#define RAISED_UNDEFINED RAISED_MARK "a joined undefined"
/* A pipeline has computed a name of Spillway's own. */
#define RAISED_FORGED RAISED_MARK "a computed name"
/* A document that is to be written is not what was read of it. */
#define RAISED_RACED RAISED_MARK "another writer"
/* An outlier comes first in the order of an array by what the overflow has of it. */
#define RAISED_SHORT RAISED_MARK "an outlier is not named"

/* Behind the mark stands which document it was; mongod's text goes on with the second. */
#define RAISED_DOCUMENT "; the document "
#define RAISED_DOCUMENT_ENDS "' in $convert with"

/* The texts are laid out by hand. */
/* clang-format off */

/* An expression that raises the error. mongod would evaluate a constant before it has seen any
 * document: this is none. */
#define RAISE(mark) "{$toObjectId: {$concat: ['" mark " ', {$type: '$_id'}]}}"

/* The same with the name of the document, of whose _id 100 characters are told. */
#define RAISE_NAMED(mark) RAISE_NAMED_BY("'" mark "'")
#define RAISE_NAMED_BY(mark) \
	"{$toObjectId: {$concat: [" \
		mark ", " \
		"\"" RAISED_DOCUMENT "of '@database.@collection' (rule '@rule') with _id '\", " \
		"{$substrCP: [{$convert: {" \
			"input: '$_id', to: 'string', onError: '?', onNull: 'null'}}, 0, 100]}, " \
		"\"' (\", " \
		"{$type: '$_id'}, " \
		"')']}}"
#define RAISE_DEAD RAISE_NAMED(RAISED_DEAD RAISED_TRY_AGAIN)
#define RAISE_DAMAGED \
	RAISE_NAMED_BY("{$cond: [" SOUND_EDITED ", '" RAISED_EDITED "', '" RAISED_DAMAGED "']}")
#define RAISE_LOST RAISE_NAMED(RAISED_LOST)

/* clang-format on */

/* ---- replies ---- */

/* What a client is told. A rewrite passes; damage stays, and no retry helps. */
#define RAISED_DIED_WORDS \
	"an array was rewritten while it was being read; try again (if this stays so: 'spillway " \
	"verify')"
#define RAISED_DAMAGED_WORDS \
	"its state (_spill) is damaged, or its array is none; trying again does not help: run " \
	"'spillway verify --repair'"
#define RAISED_EDITED_WORDS \
	"its array passes 16 MB and was edited in place, and mongod can't hold it whole for a " \
	"read that looks into it; keep it out by conditions on other fields, and read it by its " \
	"_id, which gives it whole, or in parts ($slice)"
#define RAISED_LOST_WORDS \
	"overflow documents are missing, damaged or another document's, so that its array can't " \
	"be " \
	"put together; trying again does not help: run 'spillway verify --repair'"

/* A reply's error is RAISED_DEAD. */
bool raised_died(const struct reply_summary *summary);
/* A reply's error is RAISED_SHORT. */
bool raised_short(const struct reply_summary *summary);
/* A reply's error is RAISED_DAMAGED or RAISED_LOST. */
bool raised_damage(const struct reply_summary *summary);
/* The error, of a command or of one of its statements, is RAISED_FORGED. */
bool raised_forged(int64_t code, struct bytes message);
/* The same of RAISED_RACED. */
bool raised_raced(int64_t code, struct bytes message);

#define RAISED_MESSAGE 1000 /* bytes */

/* Of RAISED_DEAD, RAISED_DAMAGED, RAISED_EDITED and RAISED_LOST: the code, and what to say, which
 * names the document. False: the reply's error is another. */
bool raised_tell(const struct reply_summary *summary, char message[RAISED_MESSAGE],
		 enum error_code *code);
/* Of RAISED_MISSED of a find, and RAISED_UNMERGED, which stand for errors of mongod's own: the
 * code, and what mongod says, in a getMore (`more`) or else. NULL: the reply's error is another. */
const char *raised_native(const struct reply_summary *summary, bool more, enum error_code *code);
/* Of the other errors, and of a document that mongod can't hold whole: the code, and what to say.
 * NULL: the reply's error is another. */
const char *raised_refusal(const struct reply_summary *summary, enum error_code *code);
/* Of any of these errors: the code, and what to say to a getMore that went through on a collection
 * without a rule. NULL: the reply's error is none. */
const char *raised_failure(const struct reply_summary *summary, char message[RAISED_MESSAGE],
			   enum error_code *code);
/* What to say if mongod refuses our command for its own size; NULL if it does not. mongod tells by
 * the command's first field. raised_refusal says the same. */
const char *raised_outgrown(const struct reply_summary *summary);
