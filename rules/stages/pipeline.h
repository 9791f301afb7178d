/* A client's read that needs ruled arrays whole, written as an aggregate in which mongod puts the
 * documents together before it looks at them (protocol.md section 4, class 5). */
#pragma once

#include "protocol/command.h"
#include "rules/rule/rules.h"
#include "rules/stages/probe.h"

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

/* What the match has found out about the request. */
struct aggregate_task {
	const struct ruled_namespace *namespace;
	struct namespace_cache *cache;    /* namespaces that stages reach */
	struct bytes database;            /* the request's, which may explain the command */
	bool strict;                      /* apiStrict */
	size_t stage;                     /* arrays are put together before it */
	bool computes, bare;              /* see struct match */
	bool scans_keys, scans_documents; /* the same */
};

/* Appends the command's fields, from its name on, to the body that is open in `out`: find, count,
 * distinct and aggregate. `begun`: the transaction that the client's command starts has started.
 * `probe`: the overflow is asked, too, all in one reply; NULL: it isn't. */
void aggregate_write(struct buffer *out, const struct command *command,
		     const struct aggregate_task *task, bool begun, const struct probe *probe);
