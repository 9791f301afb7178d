/* A client's read that needs ruled arrays whole, written as an aggregate in which mongod puts the
 * documents together before it looks at them (protocol.md section 4, class 5). */
#pragma once

#include "rules/match.h"

/* Why a find can't be written so; NULL where it can. Nothing has to be sent to know. */
const char *aggregate_unserved_find(const struct command *command,
				    const struct ruled_namespace *namespace);
/* The same of a filter. */
const char *aggregate_unserved_filter(const struct element *filter);
/* The same of a distinct's key. */
const char *aggregate_unserved_key(struct bytes key);

/* Appends the command's fields, from its name on, to the body that is open in `out`: find, count,
 * distinct and aggregate. `match`: of the request, which may explain the command. `begun`: the
 * transaction that the client's command starts has started. */
void aggregate_write(struct buffer *out, const struct command *command, const struct match *match,
		     bool begun);
