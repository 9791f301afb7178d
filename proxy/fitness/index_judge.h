/* Judges what servers told of a namespace: rights, collections, indexes. Asks nothing. */
#pragma once

#include "proxy/upstream/facts.h"
#include "proxy/upstream/overflow_index.h"
#include "rules/match/fitness_judge.h"

/* Calls `found` for all that keeps the rule from holding on its collection, or on its overflow. */
typedef void (*judge_found)(void *context, const struct unfit *why);
void judge_main_facts(const struct rule *rule, const struct collection_facts *facts,
		      judge_found found, void *context);
void judge_overflow_facts(const struct rule *rule, const struct collection_facts *facts,
			  judge_found found, void *context);

/* What the overflow's indexes are good for. All zeros: there are none. */
struct overflow_indexes {
	struct bytes unique;         /* the name of the unique one of link and batch; or empty */
	bool placed;                 /* the unique one of places stands for it */
	struct overflow_index order; /* what the overflow is walked by; overflow_index_fini */
	uint64_t of_rule;            /* the rule's own `indexes` that are there: one bit each */
};
/* The name is a view of `indexes`. */
void judge_overflow_indexes(const struct rule *rule, const struct copies *indexes,
			    struct overflow_indexes *found);

/* The action (mongod's name for a right) is among the privileges (connectionStatus's
 * authenticatedUserPrivileges) on this namespace; an empty collection: on the database; no database
 * either: on the cluster. */
bool judge_may(struct bytes privileges, const char *database, const char *collection,
	       const char *action);

/* An index's keys name the array or something in it: writes the path that an index on overflow
 * documents has in its place. False: they don't, or there can't be one. */
must_check bool judge_wanted_index(const struct rule *rule, struct bytes keys, char *path,
				   size_t size);
/* An index with these keys finds overflow documents by this path: it stands first, or behind the
 * link. */
bool judge_index_serves(const struct rule *rule, struct bytes keys, const char *path);
/* The rule's own `indexes` have such a one: serve makes it. */
bool judge_rule_has_index(const struct rule *rule, const char *path);

/* An index of the overflow stands where the unique one of link and batch has to be, and is another
 * one: says what is wrong with it. NULL: it is not in the way. */
const char *judge_index_blocks(const struct rule *rule, struct bytes index);

/* An index's name as mongosh would make it: a_1_b_-1. */
void judge_index_name(struct bytes keys, char *name, size_t size);
/* The rule's own `indexes` that this index of the overflow is, whatever it is called: one bit each,
 * by place. */
uint64_t judge_rule_indexes(const struct rule *rule, struct bytes index);
/* Those that can't be made, or are of no use, where it stands: by its name, or as it is hidden. */
uint64_t judge_rule_indexes_kept(const struct rule *rule, struct bytes index);

/* A connection of a server's own: a member's, or Spillway's mover. */
bool judge_is_internal(const char *application, const char *driver);
