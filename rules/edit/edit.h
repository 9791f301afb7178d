/* A part of sequences: one write for which a ruled array has to be whole
 * (docs/internals/spill-protocol.md, "Edits").
 *
 *   BEGIN ──────────────┐ the filter does not name the `_id`
 *     │                 ▼
 *     │          SEARCH, SEARCH_BY_OVERFLOW (KILL)
 *     │                 │ `_id`s
 *     ▼                 ▼
 *     │                 ├───────────────► TOGETHER: of many documents, those that need no look
 *     │                 ▼
 *   WRITE (E0) ◄────────┴──────────────── NEXT: the owner wants the next of many documents
 *   │  ▲  │ something matched: done (WORDS: mongod's own words for an error)
 *   │  │  │
 *   │  │  ▼ nothing matched
 *   │  │ LOOK (E1) ◄── PAUSED ◄── what was sent lost against another writer
 *   │  │  │ no document: E0's answer stands, or SEARCH again
 *   │  ├──┤ the array is whole by now
 *   │  │  ▼ the array is spilled
 *   │  ├─ PROBE       is a value in the overflow? then a check-and-set
 *   │  ├─ SETTLE      mongod judges the filter on the whole document; then a check-and-set, or:
 *   │  ├─ FETCH ─► FOLD (I1, I2)     the array goes back into its document, atomically
 *   │  └─ PLACE (X1)  it does not fit: copies of the batches that change; then X2 makes them count
 *   ▼
 *  done
 *
 * The owner writes the command around the filter that EDIT_WRITE gives. The owner hands every reply
 * back. */
#pragma once

#include "rules/edit/edit_place.h"
#include "rules/sequence/fetch.h"
#include "rules/stages/membership.h"
#include "rules/match/whole_write.h"
#include "rules/stages/probe.h"

enum edit_outcome {
	EDIT_WRITE,    /* send the write as `sent` says; hand its reply to edit_next */
	EDIT_SEND,     /* sequence->output goes to the server */
	EDIT_PAUSE,    /* sequence->pause, then edit_next without a reply */
	EDIT_PART,     /* `end.reply` is mongod's answer for some of many documents, others follow
			*/
	EDIT_DONE,     /* `end.reply` is mongod's answer to the write */
	EDIT_FAILED,   /* `end.reply` is the server's error to a command of Spillway's */
	EDIT_REJECTED, /* `end.failure` is an error that the filter itself causes: the write would
			  have had it, too. `end.reply` is the write's answer if it matched nothing
			*/
	EDIT_REFUSED,  /* `end.code` and `end.message`: what was asked last applied nothing */
};

enum edit_step {
	STEP_BEGIN,
	STEP_SEARCH,             /* for the documents that the filter means */
	STEP_SEARCH_BY_OVERFLOW, /* the same; the overflow names outliers that it may mean */
	STEP_KILL,               /* a cursor of that search, which is not needed */
	STEP_WRITE,
	STEP_TOGETHER, /* the same for several documents */
	STEP_WORDS,    /* for an error that quotes the filter */
	STEP_NEXT,     /* of many documents, the next one is wanted */
	STEP_LOOK,
	STEP_PROBE,
	STEP_SETTLE,
	STEP_FETCH,
	STEP_FOLD,
	STEP_PLACE,  /* X1, step by step: edit_place.h */
	STEP_PAUSED, /* before LOOK */
};

/* How the document at work was found. */
enum edit_named {
	EDIT_FOUND,  /* by a search */
	EDIT_PINNED, /* the client's filter names it */
	EDIT_LISTED, /* by a search for many: `list` has them all */
};

/* What the write that was sent last is for. */
enum edit_purpose {
	EDIT_GUARDED,   /* E0: the document, if no concerned array is spilled */
	EDIT_SWAPS,     /* a check-and-set on a spilled array */
	EDIT_TOGETHER,  /* both, for several documents that a search has read */
	EDIT_UNMATCHED, /* nothing matches: mongod answers, or inserts */
	EDIT_ASKS,      /* the same before the search. A transaction ends with a search's error, so
			   that nobody could ask for the write's own answer afterwards */
	EDIT_REFUSES,   /* the same behind a search that can't go on: a driver that sends the write
			   again has its answer from mongod's history */
};

struct edit_search {
	bool by_overflow;   /* the overflow is asked, too, which documents it may be */
	struct probe probe; /* by_overflow: which outliers it has named */
	int count;
	uint64_t asked; /* when the last one was sent */
	int64_t cursor_id;
	enum reassemble_damage damage;
};

/* Of a spilled document there is what a check-and-set goes by, too: its state, and how many
 * elements of each array are in main (edit_together.c). */
struct edit_list {
	struct buffer ids; /* documents {_id}, one behind the other */
	size_t next;       /* in `ids` */
	bool together;     /* several may be written at once */
	bool alone;        /* not the next one */
	size_t most;       /* that are written at once next */
	size_t first;      /* in `ids`: of those that were written at once last; they end at */
	size_t last;
};

/* Rounds that were lost against other writers of the document at work. */
struct edit_race {
	int rounds;
	uint64_t since; /* input->now of the first one */
};

/* EDIT_WRITE */
struct edit_sent {
	enum edit_purpose purpose;
	bool any; /* mongod has looked into its history */
	bool upsert;
	struct buffer filter;  /* TOGETHER: one behind the other, as many as */
	size_t count;          /* of them; 0: one, not TOGETHER */
	struct element update; /* instead of the client's; type 0: the client's */
	struct buffer whole;   /* {u}: the update with what resets states */
};

struct edit_end {
	struct packet reply;
	struct packet failure;
	enum error_code code;
	const char *message;
	char *told; /* `message`, if it names a document */
};

struct edit {
	struct sequence *sequence;
	const struct sequence_input *input; /* of the step at work */
	enum edit_step step;

	struct whole_write write;
	struct whole_write_facts facts;
	const struct ruled_namespace *namespace;
	bool *concerned;              /* by target: its array has to be whole */
	bool all;                     /* every target is concerned */
	struct membership membership; /* the write asks only for that of one array: `target` */
	size_t target;

	struct edit_search search;
	struct edit_list list;
	enum edit_named named;

	struct element id;          /* of the document at work; type 0: none */
	struct buffer kept;         /* E1's document */
	struct buffer short_before; /* the same when its overflow was last not all there */
	struct buffer empty;        /* E1's document as a merge takes it */
	struct fetch fetch;
	struct buffer bare; /* after a fold: the client's filter without conditions on fields that
			       went with it, which were answered. Empty: there were none */
	struct edit_race race;
	bool folded; /* some document's array was folded back */
	struct edit_place place;

	struct edit_sent sent;
	struct edit_end end;
};

void edit_init(struct edit *edit, struct sequence *sequence, const struct whole_write *write);
void edit_fini(struct edit *edit);
/* `reply`: to what was asked last; NULL at the beginning, after a pause and after EDIT_PART. */
enum edit_outcome edit_next(struct edit *edit, const struct sequence_input *input,
			    struct packet *reply);
/* EDIT_REJECTED: what was wrong, without the words that say which command met it. */
struct bytes edit_cause(const struct edit *edit);
int32_t edit_cause_code(const struct edit *edit);
size_t edit_memory(const struct edit *edit);
/* The documents of the list that were written at once last, or are about to be. */
struct bytes edit_together(const struct edit *edit);
/* Takes the first of these away; `swaps`: a check-and-set writes it. False: there is none. */
must_check bool edit_together_next(struct bytes *documents, struct element *id, bool *swaps);
/* sent.filter of E0. */
void edit_write_filter(struct edit *edit);
