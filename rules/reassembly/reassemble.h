/* Aggregation stages by which mongod puts whole documents together (protocol.md section 4):
 *
 *   {$graphLookup: ...}   a target's overflow; ordinary documents ask for none
 *                         (a $lookup, where it is asked of one document with many)
 *   {$replaceWith: ...}   the array whole; documents without a state as they are, byte for byte
 *   {$unset: ...}         what clients don't see */
#pragma once

#include "protocol/reply.h"
#include "rules/reassembly/call_writer.h"
#include "rules/rule/rules.h"

/* What the errors of these stages begin with, somewhere in mongod's text. */
#define REASSEMBLE_MARK "spillway: "
/* What a client is told. A rewrite passes; overflow that somebody removed by hand stays away. */
#define REASSEMBLE_DIED \
	"an array was rewritten while it was being read; try again (where this stays so, " \
	"overflow documents are missing, or are another document's: 'spillway verify --repair' " \
	"names the array's document)"
#define REASSEMBLE_STATE_DAMAGED \
	"its state (_spill) is damaged, or its array is none; run 'spillway verify --repair'"
#define REASSEMBLE_MESSAGE 1000

/* False where the overflow lies in another database. */
bool reassemble_possible(const struct ruled_namespace *namespace);
/* Appends them to the pipeline that is open in `out`, as elements from *place on. A document whose
 * generation has ended meanwhile, or whose overflow doesn't run on, raises an error that
 * reassemble_died knows. */
enum reassemble_use {
	REASSEMBLE_WHOLE,  /* each field counts: one that mongod would lose raises an error */
	REASSEMBLE_VALUES, /* of fields that stand twice the first one counts */
	REASSEMBLE_STATE,  /* the same; `_spill` stays */
};
struct reassembly {
	enum reassemble_use use;
	bool single; /* what comes is one document */
	bool strict; /* in expressions of the Stable API's version 1 alone, which take longer */
	/* A stage behind may set a field with a hidden name: mongod keeps the place of one that was
	 * unset for the next of its name, until a document is made of what is left. */
	bool sets_hidden;
};
void reassemble_write_stages(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace, struct reassembly how);
/* The stage before them: all documents that `filter` may match once they are whole, as few others
 * as can be told. */
void reassemble_write_candidates(struct buffer *out, size_t *place, struct bytes filter,
				 const struct ruled_namespace *namespace);
/* Appends the stage that takes away what clients don't see; `keep_state`: but for `_spill`. */
void reassemble_write_unset(struct buffer *out, size_t *place,
			    const struct ruled_namespace *namespace, bool keep_state);
/* Appends instead of them: a document that would have to be put together raises the same error. */
void reassemble_write_guards(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace);
/* Parts of the above. */
struct runs {
	const char *input;            /* documents, in order */
	const char *position, *array; /* in each of them: where it begins, and its elements */
	const char *first;            /* where the first one begins; NULL for 0 */
};

/* They as one array; null where one doesn't begin where those before it end. */
void reassemble_write_runs(struct buffer *out, const char *name, const struct runs *runs);
/* The same of overflow documents of one element each. `strict`: see struct reassembly. */
void reassemble_write_elements(struct buffer *out, const char *name, const struct rule *rule,
			       const char *input, const char *first, bool strict);
/* The stage that joins a target's overflow, in no order, as `joined`. `start`: its element
 * startWith, a list of the document's _id, or an empty one where nothing is asked for. */
void reassemble_write_join(struct buffer *out, const char *name, const struct target *target,
			   const char *joined, struct bytes start);
/* A test: where `id` is a text, the link has the same bytes. A join finds what is equal under the
 * command's collation, too, and a damaged document may name that one's generation. */
void reassemble_add_same_text(struct call *call, const char *link, const char *id);
/* Of what was joined, what is of the document's generation, in order. */
void reassemble_write_batches(struct buffer *out, const char *name, const struct rule *rule,
			      const char *joined);
/* The condition {$expr: ...}: the document's state names one of these generations, an array. A
 * state that is damaged raises its error, as it may have named any of them. A document without a
 * state for the rule's array names none. */
void reassemble_write_names(struct buffer *out, const struct ruled_namespace *namespace,
			    const struct rule *rule, struct bytes generations);
/* Which document it was, but for its _id. */
struct naming {
	char text[480];
};
void reassemble_name(struct naming *naming, const char *database, const char *collection,
		     const struct rule *rule);
/* An expression that raises the error of an ended generation. */
void reassemble_add_death(struct call *call, const struct naming *naming);
/* The stage that raises the error of a damaged state. */
void reassemble_write_sound(struct buffer *out, const char *name, const struct rule *rule,
			    const struct naming *naming);
/* One that says that the document doesn't tell which element a positional projection means. */
void reassemble_add_unclear(struct call *call);
/* One that raises an error: no element matches, and mongod fails with 51246. */
void reassemble_add_missed(struct call *call);
/* The reply is that error. */
bool reassemble_missed(struct bytes body, const struct reply_summary *summary);
/* One that says that a document can't be merged into a ruled namespace. */
void reassemble_add_unsafe(struct call *call);
/* An expression: some field of the document has a name of Spillway's own, whatever the collation.
 */
void reassemble_add_reserved(struct call *call);
/* One that raises an error: a pipeline has computed such a name. */
void reassemble_add_forged(struct call *call);
/* The error, of a command or of one of its statements, is that one. */
bool reassemble_forged(int64_t code, struct bytes message);
/* One that says that an index has several keys of the document. */
void reassemble_add_several(struct call *call);
/* One that says that a field's own name is that of a path. */
void reassemble_add_dotted(struct call *call);
/* One that says that a position in the array is taken for a name. */
void reassemble_add_numbered(struct call *call);
/* One that says that documents share the key of null or undefined in an index. */
void reassemble_add_shared(struct call *call);
/* One that says that what is included of an array hangs on mongod's plan. */
void reassemble_add_mixed(struct call *call);
/* Ones that say that a group depends on mongod's engine (pushed_group.h): by equal values of
 * several types, by a value that one engine changes, and by a $mergeObjects of what is no document.
 */
void reassemble_add_tied(struct call *call);
void reassemble_add_changed(struct call *call);
void reassemble_add_unmerged(struct call *call);
/* A reply's error is the last of these. */
bool reassemble_unmerged(struct bytes body, const struct reply_summary *summary);
/* Writes one that says that a document is joined by a field that is undefined. */
void reassemble_write_undefined(struct buffer *out, const char *name);
/* A reply's error is that of an ended generation, or of a state that nobody could have written:
 * what is to be said of it, which names the document, and the code. False: it is another. */
bool reassemble_tell(struct bytes body, const struct reply_summary *summary,
		     char message[REASSEMBLE_MESSAGE], enum error_code *code);
/* A reply's error is that of an ended generation. */
bool reassemble_died(struct bytes body, const struct reply_summary *summary);
/* What is to be said to a getMore that goes through on a collection of no rule, and the code, where
 * the error is one of these; else NULL. */
const char *reassemble_failure(struct bytes body, char message[REASSEMBLE_MESSAGE],
			       enum error_code *code);
/* What is to be said of a reply's error, and its code, where it is another of these, or of a
 * document that can't be held whole; else NULL. */
const char *reassemble_refusal(struct bytes body, const struct reply_summary *summary,
			       enum error_code *code);
/* A reply's error is that of our expressions, or of the client's, over what should be an array. */
bool reassemble_met_no_array(struct bytes body, const struct reply_summary *summary);
/* What is to be said where mongod refuses our command for its own size, by the command's first
 * field; else NULL. (reassemble_refusal says it, too.) */
const char *reassemble_outgrown(struct bytes body, const struct reply_summary *summary);
