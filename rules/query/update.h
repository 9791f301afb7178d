/* What a write does to the ruled arrays: updates, replacements, documents.
 *
 * Paths as in reads.h. Only what can be forwarded for certain is called plain; iterative on
 * untrusted bytes. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

/* Of several, the last in this list. */
enum update_kind {
	UPDATE_PLAIN, /* the client's bytes are right: doesn't touch f, or only appends to it, or is
			 such that mongod refuses it */
	UPDATE_REPLACE, /* a replacement document: the client's bytes */
	UPDATE_WHOLE, /* $set or $unset of f or of a prefix: S has to go too (update_write_whole) */
	UPDATE_EDIT,  /* touches f in another way */
	UPDATE_RESERVED, /* names `_spill`, or a flag, counter or reference that is hidden from
			    clients */
	UPDATE_BROKEN,   /* not BSON, or deeper than any that mongod takes */
};

struct update {
	enum update_kind kind;
	const struct rule *rule; /* the first rule concerned, else NULL */
	char what[64];           /* the operator, or the reserved name; for messages */
	bool appends;            /* some $push onto a ruled array; see `elements` */
	int64_t elements;        /* pushed onto ruled arrays in all */
	int64_t bytes;           /* of what is pushed */
	bool long_array; /* UPDATE_WHOLE, UPDATE_REPLACE, $setOnInsert: sets a ruled array beyond
			    its threshold or max_bytes */
};

/* An update: operator document, replacement or pipeline (`u` as it stands in the command).
 *
 * As mongod 6.0.5 does: an operator may stand twice, both count. Two operators on one path, or on a
 * path and its prefix, are error 40 whatever the document; such an update is PLAIN, so that the
 * answer is mongod's, as are malformed ones and unknown operators that name no ruled path. A
 * document is a replacement unless its first key begins with `$`. A $push whose document has $each
 * nowhere appends the document as it is, $position and all. */
struct update update_classify(const struct element *u, const struct ruled_namespace *namespace);

/* An operator update of kind UPDATE_WHOLE -> appended to `out` as field `name`: the client's
 * operators plus what resets the state of each ruled array that it sets or unsets as a whole
 * ($unset of `_spill.<key>`), and of the rule's fields, merged into the client's own $set / $unset
 * documents, and left out where the client itself names that path (an exposed flag). All else byte
 * for byte. `states`: the document's `_spill`, by which the rule's fields are put back where
 * Spillway changed them, and taken away where it added them; NULL: not known, which is for updates
 * without update_needs_state. */
void update_write_whole(struct buffer *out, const char *name, const struct element *u,
			const struct ruled_namespace *namespace, const struct element *states);

/* The same with fields of the caller's in its $set and $unset, which are used up. */
void update_write_merged(struct buffer *out, const char *name, const struct element *u,
			 struct buffer *set, struct buffer *unset);

/* How many elements the rule's array has that a $set or a replacement writes; -1 where it writes
 * none, or something else than an array. Of operators the last one counts. */
int64_t update_whole_length(const struct element *u, const struct rule *rule);
/* True for a pipeline that may write names which it does not spell out: $replaceWith, $replaceRoot,
 * and stages that this version does not know. Such an update is always an edit of all arrays, so
 * that the document which it meets has no `_spill`. */
bool update_computes_names(const struct element *u);
/* How many stages a pipeline has; 0 for another update. */
size_t update_stage_count(const struct element *u);
/* The most stages that mongod takes. */
#define UPDATE_STAGES_MAX 1000

/* True when it writes some ruled array as one that is not empty. */
bool update_sets_array(const struct element *u, const struct ruled_namespace *namespace);

/* True when it sets or unsets a ruled array as a whole beside which Spillway writes fields (a flag,
 * counters, a reference): where nothing was spilled they are the application's and stay. */
bool update_needs_state(const struct element *u, const struct ruled_namespace *namespace);

/* True when the document holds a ruled array beyond its threshold or max_bytes. */
bool document_is_outlier(struct bytes document, const struct ruled_namespace *namespace);
/* True when the document's top level has `_spill`. */
bool document_names_state(struct bytes document);

/* For the classifiers themselves. */

/* Notes what was found; the first of the gravest stays. `what` as in reads_say. */
void update_note(struct update *update, enum update_kind kind, const struct rule *rule,
		 struct bytes what, const char *otherwise);
/* Notes a path that some operator or stage writes, where it is `_spill` or hidden. */
void update_note_reserved(struct update *update, const struct ruled_namespace *namespace,
			  struct bytes path);
/* The pipeline form. */
void update_classify_pipeline(struct bytes stages, const struct ruled_namespace *namespace,
			      struct update *update);
/* True for an array beyond the rule's threshold or max_bytes. */
bool array_is_long(const struct element *array, const struct rule *rule);
