/* A part of sequences: one write for which a ruled array has to be whole (protocol.md section 2).
 *
 *   WRITE    E0: the write itself, its filter with "no state" added: mongod's answer is right.
 *   LOOK     E1: it matched nothing. Is there a document whose array is spilled?
 *   PROBE    only membership counts: is the value in the overflow?
 *   SETTLE   else: mongod puts the document together and judges the filter.
 *   FETCH    INFLATE: the overflow comes,
 *   FOLD     and goes back into the live array, atomically. Then E0 again.
 *
 * A filter that doesn't pin `_id` is first resolved to one: by a search, which asks the overflow,
 * too, where that tells which outliers it may mean. The owner writes the command around the
 * filter that it is given here, and hands every reply back. */
#pragma once

#include "rules/sequence/fetch.h"
#include "rules/stages/membership.h"
#include "rules/match/whole_write.h"
#include "rules/stages/probe.h"

enum edit_outcome {
	EDIT_WRITE, /* send the write with `filter` and `upsert`; hand its reply to edit_next */
	EDIT_SEND,  /* sequence->output goes to the server */
	EDIT_PAUSE, /* sequence->pause, then edit_next without a reply */
	EDIT_DONE, /* `reply` is mongod's answer to the write; of many documents there may be `more`
		    */
	EDIT_FAILED,   /* `reply` is the server's error to a command of ours */
	EDIT_REJECTED, /* the same in `failure`: the filter's own fault, which the write would have
			  had too; `reply` is its answer when it matched nothing */
	EDIT_REFUSED,  /* `code` and `message`: nothing was applied by what was asked last */
};

struct edit {
	struct whole_write write;
	struct whole_write_facts facts;
	const struct ruled_namespace *namespace;
	bool *concerned;              /* by target: its array has to be whole */
	size_t target;                /* of `membership` */
	struct membership membership; /* the write asks only for that of an array */
	struct probe probe;           /* `by_overflow`: which outliers the overflow has named */
	uint64_t asked;               /* when it was */
	int searches;
	struct buffer ids;          /* the documents, {_id} one behind the other */
	size_t next;                /* in `ids` */
	int64_t cursor_id;          /* of the search */
	struct element id;          /* of the document at work; type 0: none */
	struct buffer kept;         /* E1's document */
	struct buffer short_states; /* its states when the overflow was last not all there */
	struct buffer empty;        /* the same, as a merge takes it */
	struct fetch fetch;
	struct buffer bare;    /* behind a fold of the document at work: the client's filter less
				  what it says of fields that went with it, which has been answered.
				  Empty: none did */
	struct buffer filter;  /* EDIT_WRITE */
	struct buffer whole;   /* {u}: the update with what resets states */
	struct element update; /* EDIT_WRITE: instead of the client's; type 0: the client's */
	struct packet reply;   /* EDIT_DONE, EDIT_FAILED, EDIT_REJECTED */
	struct packet failure; /* EDIT_REJECTED */
	const char *message;   /* EDIT_REFUSED */
	char *told;            /* `message`, where it names a document */
	enum error_code code;  /* EDIT_REFUSED */
	int step;
	uint64_t losing_since; /* input->now of the first lost round */

	int rounds;       /* lost against other writers, of the document at work */
	bool all;         /* every target is concerned */
	bool pinned;      /* the client's filter names the document */
	bool by_overflow; /* the search asks the overflow, too, which documents it may be */
	bool listed;      /* there are many documents, and `ids` has them */
	bool asks;        /* the first write, in a transaction, only asks for mongod's answer */
	bool none;        /* nothing matches: the write is sent to be answered */
	bool fetching;
	bool upsert;  /* EDIT_WRITE */
	bool more;    /* EDIT_DONE: of many documents, others follow */
	bool folded;  /* some document's array was folded back */
	bool swapped; /* the last write was a check-and-set */
};

void edit_init(struct edit *edit, const struct whole_write *write,
	       const struct ruled_namespace *namespace);
void edit_fini(struct edit *edit);
/* `reply`: to what was asked last; NULL at the beginning, behind a pause and for `more`. */
enum edit_outcome edit_next(struct edit *edit, struct sequence *sequence,
			    const struct sequence_input *input, struct packet *reply);
/* EDIT_REJECTED: what was wrong, without the words that say which command met it. */
struct bytes edit_cause(const struct edit *edit);
size_t edit_memory(const struct edit *edit);

/* ---- edit_commands.c: what it sends ---- */

/* E0's filter. */
void edit_write_filter(struct edit *edit);
/* Check-and-set: the filter less its conditions on arrays, which were answered, and what was read.
 */
void edit_write_swap(struct edit *edit);
/* The same behind a probe: the filter, on main's part, and the overflow that was looked into. */
void edit_write_probed(struct edit *edit);
/* The update as a whole, on a document whose array `target` stays what it is. */
void edit_write_whole(struct edit *edit);
/* The document, or documents, that the write is about: their `_id`s. */
enum edit_outcome edit_send_search(struct edit *edit, struct sequence *sequence,
				   const struct sequence_input *input);
enum edit_outcome edit_send_get_more(struct edit *edit, struct sequence *sequence);
/* Of a read: collation and let, */
void edit_write_options(const struct edit *edit, struct sequence *sequence);
/* and what ends it. */
enum edit_outcome edit_send(struct edit *edit, struct sequence *sequence,
			    const struct sequence_input *input, size_t body);
enum edit_outcome edit_send_look(struct edit *edit, struct sequence *sequence,
				 const struct sequence_input *input);
enum edit_outcome edit_send_probe(struct edit *edit, struct sequence *sequence,
				  const struct sequence_input *input);
enum edit_outcome edit_send_settle(struct edit *edit, struct sequence *sequence,
				   const struct sequence_input *input);
/* `_id` can be named exactly under the write's collation. */
bool edit_can_pin(const struct edit *edit, const struct element *id);
/* edit->bare, when what was read has been folded back. */
void edit_write_bare(struct edit *edit);
/* What was read of an array's state; false where it has none. */
must_check bool edit_state_of(const struct edit *edit, size_t target, struct element *state);
/* The state can be named; */
must_check bool edit_has_state(const struct edit *edit, size_t target);
/* and the head's length is there, too: of any other state a membership is not asked. */
must_check bool edit_has_head(const struct edit *edit, size_t target);

/* ---- edit_search.c: the search, where the overflow is asked, too ---- */

/* edit->by_overflow: whether that helps. Not in a transaction, which takes no such stage. */
void edit_decide_search(struct edit *edit);
enum edit_outcome edit_search_by_overflow(struct edit *edit, struct sequence *sequence,
					  const struct sequence_input *input);
enum edit_hits {
	EDIT_HITS_FOUND,   /* the first `*documents` of the batch are those that match, and all */
	EDIT_HITS_AGAIN,   /* documents were named that had not been candidates: send it again */
	EDIT_HITS_KILL,    /* edit->cursor_id is not needed: edit_send_kill, then search them all */
	EDIT_HITS_ALL,     /* search all of them */
	EDIT_HITS_DAMAGED, /* a state that can't be read is that of a hit's document */
};
enum edit_hits edit_take_hits(struct edit *edit, const struct sequence_input *input,
			      const struct packet *reply, struct bytes *batch, size_t *documents);
enum edit_outcome edit_send_kill(struct edit *edit, struct sequence *sequence);

/* ---- edit_fold.c: how it folds arrays back ---- */

/* E1's document as a merge takes it that is to return nothing but the overflow -> edit->empty. */
void edit_write_empty(struct edit *edit);
/* I2, with what the fetch has brought. False where the generation has died meanwhile. */
must_check bool edit_write_fold(struct edit *edit, struct sequence *sequence,
				const struct sequence_input *input);

/* ---- edit_words.c: errors that quote the filter, or that our stages raised ---- */

/* `reply` is one. */
bool edit_words_wanted(const struct edit *edit);
/* Asks for mongod's words on the client's own filter, */
enum edit_outcome edit_send_words(const struct edit *edit, struct sequence *sequence);
/* which take their place in `reply`. */
void edit_take_words(struct edit *edit, const struct packet *explained);
/* The client's pipeline has computed a name of Spillway's own: `reply` says so, with code 115. True
 * where it was that. */
bool edit_tell_forged(struct edit *edit, const struct sequence *sequence);
