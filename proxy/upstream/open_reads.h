/* What began before a new rule was in force, and goes on at the servers: cursors that are open, and
 * operations. A read that knows nothing of the rule would return short arrays once tails move.
 *
 * Also what began before arrays were folded back: it may hold documents as they were split, which
 * only the rule puts together. */
#pragma once

#include "proxy/base/places.h"
#include "proxy/upstream/link.h"
#include "proxy/upstream/target.h"
#include "rules/config/config.h"

struct open_reads;

/* Where it is looked. */
struct open_reads_place {
	const struct config *config; /* of the account, and the number of the listeners */
	struct places *places;
	struct rule_set *rules;
	struct target_set *targets;
	const atomic_bool *stopping;
	const struct rule *rule; /* the one that waits; NULL: those of targets that do */
	bool folded; /* its arrays were folded back. A transaction has a snapshot of before; a
			change stream looks documents up as they are */
};

struct open_reads *open_reads_new(void);
void open_reads_free(struct open_reads *reads);
/* Other rules wait now: what goes on is looked at anew. */
void open_reads_forget(struct open_reads *reads);
/* True once all has ended that was seen at the first call and may concern a rule that waits
 * (target_set_rule_waits). Asks all servers behind the listeners, at most once in a while. Who
 * looks in vain a second time says so in the log. */
must_check bool open_reads_have_ended(struct open_reads *reads,
				      const struct open_reads_place *place);
/* The latest look met some; the log was told that rules wait. */
bool open_reads_were_met(const struct open_reads *reads);
bool open_reads_were_told(const struct open_reads *reads);
/* So many go on of those that were seen at the first call. */
size_t open_reads_count(const struct open_reads *reads);
/* The server that did not answer the latest look, so that nobody knows; NULL: all did. */
const char *open_reads_silent(const struct open_reads *reads);
/* The account may not see them at some server; the log was told. */
bool open_reads_are_unseen(const struct open_reads *reads);
/* Whether the account may see what goes on at the server of the link. LINK_REFUSED: it may not. */
must_check enum link_result open_reads_try(struct link *link);
