/* The mover: takes tails behind the traffic to overflow documents and clears garbage
 * (docs/internals/spill-protocol.md, "Moving" and "Garbage").
 *
 * Blocking code in threads of its own, with the `upstream` account. The client's way only leaves
 * notes. */
#pragma once

#include "proxy/tls/reach.h"
#include "rules/rule/note.h"

#include <stdatomic.h>

struct mover;
struct metrics;
struct target_view;

/* Makes the threads; they connect and check by themselves and keep trying. What `reach` names must
 * outlive the mover. */
struct mover *mover_start(const struct reach *reach, struct metrics *metrics);
/* Ends rounds between two commands and joins the threads. Who waits is told that nothing was done;
 * what is asked for later is not done. */
void mover_end(struct mover *mover);
/* The same, if it has not ended, and frees it. */
void mover_stop(struct mover *mover);

/* For a reload, by one thread. Nobody is at work on any target, from now until mover_release.
 * False: somebody was after so long, or when `stopping` became true, and goes on. */
must_check bool mover_hold(struct mover *mover, int64_t milliseconds, const atomic_bool *stopping);
void mover_release(struct mover *mover);
/* While the mover is held: these rules are in force from now on, for the mover. Under those that
 * are new nothing is moved before mover_settled, and before what the servers still do without them
 * has ended. */
must_check unsigned mover_take_rules(struct mover *mover, struct rule_set *rules);
/* What the file says of `mover` holds from now on. Any thread. */
void mover_take_settings(struct mover *mover, const struct config *config);
/* Another process, that this one has taken over from, serves under the rules of the start: what a
 * reload adds moves nothing meanwhile, and a reload takes no rule out. */
void mover_share(struct mover *mover, bool shares);
/* That has not ended yet for all of them. Not while somebody takes rules. */
bool mover_rules_wait(struct mover *mover);
/* No request goes on here that began before mover_take_rules, which gave this number. */
void mover_settled(struct mover *mover, unsigned turn);

/* Any thread. Never waits for a server; merges repeats; drops (and counts) when the queue is full:
 * the sweep finds those. True where so much waits to be moved from the note's document that whoever
 * pushes should pause before the next push. */
bool mover_note(struct mover *mover, const struct mover_note *note);

/* Moves this one document's tail now and calls `done` (in a mover's thread) when it has been moved,
 * or could not be: for a push that mongod refused for the document's size. `note->id` must be
 * known. */
void mover_move_now(struct mover *mover, const struct mover_note *note,
		    void (*done)(void *context, bool moved), void *context);

/* Sees to the rule's overflow for a client that changed the collection, and calls `done` (in a
 * mover's thread, or at once where no server has been reached yet) when that is done, could not be,
 * or takes long and goes on without the client. */
void mover_tend(struct mover *mover, const struct mover_note *note, enum mover_tending what,
		void (*done)(void *context, bool tended), void *context);

enum mover_check {
	MOVER_CHECK_GOOD,
	MOVER_CHECK_NO_SERVER, /* none answers yet: start all the same, the mover keeps trying */
	MOVER_CHECK_BAD, /* a rule that can't hold, missing rights, a member without a listener */
};
/* Waits, so long at most, for the first look at the servers: names, rights, fitness of exact
 * namespaces, the overflow's indexes. For serve's start. What is wrong, and what to do, has been
 * logged then. False: it goes on. */
must_check bool mover_first_check(struct mover *mover, int64_t milliseconds,
				  enum mover_check *check);

/* True once it is known that nothing is spilled under rules that are gone from the file: before,
 * clients could read short arrays. */
bool mover_admits(const struct mover *mover);
/* True once every exact namespace's rule has been checked and its overflow's index made. */
bool mover_ready(const struct mover *mover);
/* The same, and some server has answered in the last seconds, and clients' connections reach one:
 * for those who choose where to connect. A request is tried all the same. */
bool mover_serves(const struct mover *mover);
/* A client's connection to the server behind this listener could not be opened. Any thread. */
void mover_doubt(struct mover *mover, size_t listen_index);
/* Why not, if the last look said it. */
void mover_not_ready(struct mover *mover, char *reason, size_t size);

/* True where servers, a primary or a majority are missing: copies which, and what to do. */
bool mover_lacks(struct mover *mover, char *what, size_t size);

/* The rule on a namespace number `index` of all that have been met (proxy/upstream/target.h), freed
 * with target_view_fini; false behind the last. */
must_check bool mover_view(struct mover *mover, size_t index, struct target_view *view);
size_t mover_view_count(struct mover *mover);
/* An operator has paused it, or that is not known yet. Any thread. */
bool mover_pauses(const struct mover *mover, const struct rule *rule);

/* Where a rule can't hold on a namespace (docs/internals/spill-protocol.md, "Fitness"): copies the
 * reason into `reason` and returns true. Cheap where no namespace is unfit. */
bool mover_unfit(struct mover *mover, struct bytes database, struct bytes collection, char *reason,
		 size_t size);
/* The namespace's fitness may have changed (createIndexes, collMod, create): checked again, and
 * before anything is stored. */
void mover_recheck(struct mover *mover, struct bytes database, struct bytes collection);
/* The collection, or without one the database, was dropped, and its overflow's indexes may be gone:
 * all is checked before anything is stored. */
void mover_recheck_gone(struct mover *mover, struct bytes database, struct bytes collection);

/* What each configured server calls itself (`me` of its hello) -> the advertised address. Any
 * thread. False where unknown (yet). The advertised text belongs to the config. */
bool mover_advertised(struct mover *mover, struct bytes member, struct bytes *advertised);
/* Learned from a client's own hello: the server behind config->listen[listen_index] calls itself
 * `me`. */
void mover_learn_name(struct mover *mover, size_t listen_index, struct bytes me);
