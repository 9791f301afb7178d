/* What becomes of a command: asked of the matcher and of the sequences that serve clients, too. Has
 * no server: a sequence is given imagined replies. */
#pragma once

#include "rules/match/match.h"
#include "rules/rule/rules.h"

#include <bson/bson.h>

struct explain {
	struct namespace_cache *namespaces;
	bool imagines;                   /* also what follows on an outlier */
	const struct match_judge *judge; /* what only a running Spillway knows; NULL: nobody */
};

/* The command with its `$db`, as a client would send it; `json` is MongoDB's extended JSON. NULL,
 * and *mistake (freed by the caller) says what is wrong. `database` may be NULL. */
must_check bson_t *explain_read(const char *json, const char *database, char **mistake);

/* Appends to *out:
 *
 *   verdict    forwarded, rewritten, answered, refused or closed
 *   why        of it, in words
 *   rule, namespace, code, codeName    where there are some
 *   sends      what mongod gets first: commands
 *   outlier    what follows if the command meets an outlier: {sends} or {does} each; imagined
 */
void explain_command(const struct explain *explain, const bson_t *command, bson_t *out);
/* The same in lines for people. */
void explain_print(struct buffer *text, const bson_t *explained);
