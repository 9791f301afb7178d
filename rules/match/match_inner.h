/* What the files of the matcher share. */
#pragma once

#include "rules/match/match.h"
#include "rules/query/reads.h"

/* What is being matched: the command may be the one inside an explain. */
struct matching {
	struct namespace_cache *cache;
	const struct rule_set *rules;
	const struct packet *packet;
	const struct command *command;
	struct bytes database;
	struct match *match;
	const struct match_judge *judge; /* of a bulkWrite's runs; may be NULL */
};

/* Refuses an applyOps with an operation that is not apart from the rules. */
void match_apply_ops(const struct matching *matching);

/* What mongod refuses for a limit of its own, in its words and before anything is rewritten: what
 * is sent need not be small to be cheap, but what is written for it would be. `what` is counted. */
void match_refuse_limit(struct match *match, enum error_code code, const char *what,
			const char *message);

/* Of a command on a ruled namespace: refuses one that takes too long to look at (work.h); true when
 * it did. */
bool match_refuse_large(const struct matching *matching);
/* The same of one that is to be rewritten, which takes longer. */
bool match_refuse_rewriting(const struct matching *matching);
/* The same behind the match, where it says that the command is rewritten. */
void match_judge_work(const struct matching *matching);

/* Refuses where `reads` touches what it must not; true when it did. `role`: "filter", "sort", ...
 * for the message. */
bool match_refuse_reads(struct match *match, const struct reads *reads, const char *role);
/* Notes a $text, and that its index has to be known first. */
void match_note_search(struct match *match, const struct reads *reads);
/* As match_refuse_reads, but arrays may be read: then `array` is set. */
bool match_judge_reads(struct match *match, const struct reads *reads, const char *role,
		       bool *array);
/* Why a $meta of the projection or the pipeline can't be had where arrays are put together; NULL
 * where none stands there that is lost. */
const char *match_lost_meta(const struct command *command);
/* Refuses, or has the arrays that a read needs put together. `why`: what it can't have then; NULL
 * where nothing is in the way. */
void match_reassemble(struct match *match, const char *what, const char *why);
void match_refuse_broken(struct match *match, const char *what);

/* A sort, hint, min or max; a hint may be a name. */
bool match_refuse_keys(const struct matching *matching, const struct element *keys,
		       const char *role);
/* What is known of the index that a hint or a collMod means; notes it where nothing is. `judge` is
 * given the namespace, and indexes that may look into an array. */
enum index_meant match_judge_index(struct match *match, const struct element *meant,
				   bool (*judge)(const void *context, struct bytes index));
/* Refuses an index that has no entries of what is in the overflow, and so lacks documents. True
 * when it did. */
bool match_refuse_hint(struct match *match, const struct element *hint);
/* The command's hint. `array`: set where its keys look into one. */
bool match_judge_hint(const struct matching *matching);
/* Of a filter that reads an array: refuses one whose answer depends on an index
 * (index_bounds.h). */
bool match_refuse_by_index(struct match *match, const struct element *filter,
			   const struct element *collation);
/* Of a ruled collection's index: its keys look into an array. `context`: the namespace. */
bool match_index_reads_array(const void *context, struct bytes index);
/* The same: its filter chooses documents by elements of an array (partial_filter.h). */
bool match_index_chooses(const void *context, struct bytes index);
bool match_refuse_projection(const struct matching *matching, enum command_field field);
/* The command's `let`. */
bool match_refuse_let(const struct matching *matching);

/* The namespace under a rule, or NULL; where that can't be told any more the match is refused. */
const struct ruled_namespace *match_find_namespace(const struct matching *matching,
						   struct bytes database, struct bytes collection);
/* Refuses a write or a change of the collection where it is an overflow collection; true when it
 * did. */
bool match_refuse_overflow(const struct matching *matching, struct bytes database,
			   struct bytes collection);
/* Refuses to read a view that gives arrays short; true when it did. */
bool match_refuse_short_view(const struct matching *matching, struct bytes database,
			     struct bytes collection);
/* "db.coll" names a ruled or an overflow collection: refused; true when it did. */
bool match_refuse_full_name(const struct matching *matching, struct bytes full_name,
			    const char *what);
bool match_refuse_name(const struct matching *matching, struct bytes database,
		       struct bytes collection, const char *what);
/* By the first of its rules; always true. */
bool match_refuse_namespace(const struct matching *matching,
			    const struct ruled_namespace *namespace, const char *what,
			    const char *why);
/* The whole command. */
void match_refuse_command(const struct matching *matching);

/* match_read.c: find, count and distinct on match->namespace. */
void match_find(const struct matching *matching);
void match_count(const struct matching *matching);
void match_distinct(const struct matching *matching);

/* match_write.c: insert, update, delete, findAndModify on match->namespace. */
void match_insert(const struct matching *matching);
void match_update(const struct matching *matching);
void match_delete(const struct matching *matching);
void match_find_and_modify(const struct matching *matching);

/* match_change.c: what changes collections, indexes and views. */
void match_create_indexes(const struct matching *matching);
void match_drop_indexes(const struct matching *matching);
void match_coll_mod(const struct matching *matching);
struct unfit;
/* A validator under which the rule could not hold; names another way. */
void match_refuse_validator(struct match *match, const struct rule *rule, const char *what,
			    const struct unfit *why);
void match_create(const struct matching *matching);
void match_drop(const struct matching *matching);
void match_rename(const struct matching *matching);
#define MATCH_RENAME_INSIDE "internalRenameIfOptionsAndIndexesMatch"
/* A rename of another form: the fields `from` and `to` of a document are full names. Refused where
 * one of them is concerned; true when it was. */
bool match_refuse_ends(const struct matching *matching, struct bytes document, const char *from,
		       const char *to, const char *what);
/* createIndexes and create of an overflow collection with an option by which documents would go, or
 * not be let in: refused; true when it did. */
bool match_refuse_loss(const struct matching *matching);
/* create and collMod of a view that would give arrays short; true when it was refused. */
bool match_refuse_view(const struct matching *matching);
/* Forwarded, and looked at again after it. */
void match_watch(const struct matching *matching);
/* A namespace under a read-only rule is not written: true where the match is refused. */
bool match_refuse_read_only(const struct matching *matching,
			    const struct ruled_namespace *namespace, const char *what);

/* match_hide.c: on any database. */
void match_list_collections(const struct matching *matching);
void match_db_stats(const struct matching *matching);
/* The drop of an overflow collection: answered, and nothing is dropped. True when it is that. */
bool match_drop_overflow(const struct matching *matching);

/* match_bulk_write.c */
void match_bulk_write(const struct matching *matching);

/* match_stream.c: `stage` is the first of an aggregate; `namespace` NULL where no rule is on its
 * collection. Refuses a change stream that would show what Spillway writes, or has its events
 * rewritten; true when it did. */
bool match_take_stream(const struct matching *matching, const struct ruled_namespace *namespace,
		       const struct element *stage);
/* A getMore's collection may be that of a database's or a cluster's exact change stream. */
bool match_is_wide_stream(const struct rule_set *rules, struct bytes collection);
/* A change stream that looks up no documents: those would come with short arrays. */
bool match_stream_plain(const struct element *stage);

/* match_pipeline.c: aggregate; `namespace` NULL where no rule is on its collection. */
void match_aggregate(const struct matching *matching, const struct ruled_namespace *namespace);
/* Behind it: has the documents marked whose fields may have hidden names. */
void match_computed(const struct matching *matching, const struct ruled_namespace *namespace);
/* Stages anywhere in the array that reach ruled or overflow namespaces in ways that can't be
 * served: refused; true when it did. */
bool match_refuse_stages(const struct matching *matching, struct bytes pipeline);
