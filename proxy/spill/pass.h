/* Inside a round: what its commands on the main document and on the overflow share. */
#pragma once

#include "proxy/upstream/clauses.h"
#include "proxy/spill/plan.h"
#include "proxy/spill/round.h"

/* What one pass did, when it does not end the round. */
enum pass {
	PASS_AGAIN, /* look at the document again, at once */
	PASS_MOVED, /* the whole tail that was seen is in the overflow */
	PASS_ENDED, /* the round ends as `end` says */
};

/* What a round needs to know of a batch: its number, its place, what it holds; never the elements.
 */
struct batch {
	int64_t number, position, held;
	int64_t size; /* bytes of its array */
};

/* One pass: an image of the document, and what was stored after it. */
struct pass_state {
	struct round *round;
	struct link *link;
	const struct rule *rule;
	struct mover_target *target;
	struct plan plan;
	struct batch open; /* the last batch that is there; its number is how many there are */
	int64_t stored;    /* k: elements stored in a row from position n */
	enum round_end end;
	bool adopted;    /* it was split by hand */
	bool still;      /* M1 only while the array has the length that was read */
	bool overlapped; /* the last batch ends before n, and `open` is another one */
};

/* How a pass ends that does not end well. */
enum pass pass_ended(struct pass_state *pass, enum round_end end);
/* The server refused this step, or is gone. */
enum pass pass_failed(struct pass_state *pass, const char *step, enum link_result result);
/* Batches may overlap from this position on. */
void pass_overlaps(struct pass_state *pass, int64_t from);
enum pass pass_leaves(struct pass_state *pass, const char *why);
/* After a command whose guard either held (`held`) or not. */
enum pass pass_guarded(struct pass_state *pass, const char *step, enum link_result result,
		       enum pass held);
/* Closes the command and runs it; what it is after is read no earlier than this. */
must_check enum link_result pass_run(struct pass_state *pass, const char *database,
				     struct buffer *command, size_t start);

/* Commands on the main document: round_main.c. */
must_check enum link_result main_hurry(struct pass_state *pass); /* before M0 */
must_check enum link_result main_read(struct pass_state *pass, uint64_t after,
				      struct bytes *document, bool *found); /* M0 */
enum pass main_give_birth(struct pass_state *pass);                         /* M1 */
enum pass main_cut(struct pass_state *pass);                                /* M4 */
enum pass main_undo(struct pass_state *pass);
enum pass main_tidy(struct pass_state *pass);

/* Several documents' M1 or M4, each a statement with a guard of its own, in one command. */
struct open_update {
	size_t command, updates, statement, q, u;
	size_t count; /* of the statements */
};
/* {update: ..., updates: [ */
void main_open_update(const struct mover_target *target, struct buffer *out,
		      struct open_update *open);
void main_write_birth(struct pass_state *pass, struct buffer *out, struct open_update *open);
void main_write_cut(struct pass_state *pass, struct buffer *out, struct open_update *open);
/* ], and what each such command has. The command stays open. */
void main_close_updates(const struct link *link, struct buffer *out,
			const struct open_update *open);

/* A generation that is born whole: the plan's head is all that the array holds, and `moved`
 * elements are in batches of the plan's generation, of which `open` is the last. Inside a
 * transaction; `n` of the link's reply is 1 where the array has still so many elements and no
 * state, and the flag's field is what it was (NULL: not there, or the rule has none). */
must_check enum link_result main_adopt(struct pass_state *pass, const struct element *flag);

/* Commands on the overflow: round_overflow.c. */
must_check enum link_result overflow_find_foreign(struct pass_state *pass, bool *found);
must_check enum link_result overflow_find_open(struct pass_state *pass, bool *found); /* M2 */
/* Where that one ends before n: of all that begin at or before n, the one that reaches furthest,
 * with the greatest number among them. */
must_check enum link_result overflow_find_furthest(struct pass_state *pass);
enum pass overflow_link_stored(struct pass_state *pass);       /* M2 a */
enum pass overflow_store(struct pass_state *pass, bool found); /* M2 b, c */
/* After an insert: what got in is there, and M4 may be sent. */
bool overflow_stands(const struct link *link, enum link_result result);
/* M2 c of one document or several: inserts their next batches, one's behind another's, as many as
 * one command may carry. What got in counts as stored, also where one was refused. `sent` is how
 * many batches there were to insert: none at the tails' ends. */
must_check enum link_result overflow_insert(struct pass_state *const *passes, size_t count,
					    size_t *sent);
