/* A client's read that needs ruled arrays whole, written as an aggregate in which mongod puts the
 * documents together before it looks at them (docs/internals/spill-protocol.md,
 * "Reads", class 5). */
#pragma once

#include "protocol/command.h"
#include "rules/reassembly/foremost.h"
#include "rules/rule/rules.h"
#include "rules/stages/aggregate_judge.h"
#include "rules/stages/probe.h"

/* What the match has found out about the request. */
struct aggregate_task {
	const struct ruled_namespace *namespace;
	struct namespace_cache *cache;    /* namespaces that stages reach */
	struct bytes database;            /* the request's, which may explain the command */
	bool strict;                      /* apiStrict */
	size_t stage;                     /* arrays are put together before it */
	bool computes, bare;              /* see struct match */
	bool scans_keys, scans_documents; /* the same */
	enum reassemble_damage damage;    /* see struct reassembly */
	const struct foremost *foremost;  /* how its first documents are found; NULL: not so */
	int64_t time_left;                /* the maxTimeMS of this one; 0: the client's own */
	bool marks; /* a find of nothing but windows, which Spillway cuts: window_write_marks */
};

/* Appends the command's fields, from its name on, to the body that is open in `out`: find, count,
 * distinct and aggregate. `begun`: the transaction that the client's command starts has started.
 * `probe`: the overflow is asked, too, all in one reply; NULL: it isn't. */
void aggregate_write(struct buffer *out, const struct command *command,
		     const struct aggregate_task *task, bool begun, const struct probe *probe);
