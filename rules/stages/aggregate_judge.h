/* Whether a client's read can be written as an aggregate over whole documents (aggregate.h), and
 * what the aggregate is about. */
#pragma once

#include "protocol/command.h"
#include "rules/rule/rules.h"

struct probe;

/* Why a find can't be written so; NULL where it can. Nothing has to be sent to know. */
const char *aggregate_unserved_find(const struct command *command,
				    const struct ruled_namespace *namespace);
/* The same of a filter. */
const char *aggregate_unserved_filter(const struct element *filter,
				      const struct ruled_namespace *namespace);
/* The same of a distinct's key. */
const char *aggregate_unserved_key(struct bytes key);

/* The filter of a find, count or distinct, or of the query at an aggregate's front (first_match.h)
 * where documents are put together before its stage `at`, which is of it; type 0 where there is
 * none. It may be made in `joined`. */
struct element aggregate_filter(const struct command *command, size_t at, struct buffer *joined);
/* A sort by nothing but $natural, whatever its value: an aggregate has it as a hint. */
bool aggregate_sorts_naturally(const struct command *command);
/* How many documents a reply brings at most that answers the command all by itself, without a
 * cursor; 0: none does. */
int64_t aggregate_room(const struct command *command);

/* For what arrays are needed once it is known which documents match. */
enum aggregate_need {
	AGGREGATE_NEEDS_NOTHING,
	AGGREGATE_NEEDS_DOCUMENTS, /* they are returned, or computed on */
	AGGREGATE_NEEDS_ORDER,     /* or sorted by, or their values are asked for */
};
enum aggregate_need aggregate_need(const struct command *command,
				   const struct ruled_namespace *namespace);

/* The array of the namespace's target has to be whole for it. */
bool *aggregate_list_concerned(const struct command *command,
			       const struct ruled_namespace *namespace);

/* The command is an aggregate itself. */
bool aggregate_is_one(const struct command *command);
/* An option is there, and no empty document. */
bool aggregate_has(const struct element *option);
/* A sort makes a stage. */
bool aggregate_sorts(const struct command *command);
bool aggregate_sorts_by_arrays(const struct command *command,
			       const struct ruled_namespace *namespace);
#define AGGREGATE_FIRST_BATCH 101 /* documents of a find that names no size */
/* How many documents a find returns at most; 0: all. */
int64_t aggregate_limit(const struct command *command);
/* The command has fields that mongod may refuse of it, and that the aggregate would bear. */
bool aggregate_is_unsure(const struct command *command);
/* The command's hint is of an index over the array: no way leads by it to the documents that the
 * probe names by their _id. mongod has judged the hint before any was named. */
bool aggregate_drops_hint(const struct command *command, const struct ruled_namespace *namespace,
			  const struct probe *probe);
/* A field of the client's find, count or distinct that the pipeline or the cursor stands for. */
bool aggregate_replaces(const struct element *field);
