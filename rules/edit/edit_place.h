/* X1 of an edit in place: a transaction of Spillway's own, on the client's connection; in a
 * client's transaction, a part of that (docs/internals/spill-protocol.md#edits-in-place).
 *
 *   HOLD ─► CLEAN ─► UNMARK     the state names what is to come; what a dead edit left goes
 *     │◄─────────────────┘
 *   TILES ─► LENGTHS            which batches count, and for which positions
 *     ▼
 *   ASK_MAIN, ASK, ASK_PART     whether the filter's condition on the array holds, or where
 *     ▼
 *   LOWEST ─► HITS              numbers for copies; the batches that the update may change
 *     ▼
 *   INSERT ─► APPLY ─► SIZES    their copies, and the head's; the client's operators on all of them
 *     ▼
 *   DISCARD ─► COMMIT, ABORT    the head's copy goes; then X2, or what `end` says
 *   RESTORE                     instead of ABORT in a client's transaction, which stays open
 *
 * An update by `f.$` asks the head first, by INSERT and APPLY, then the overflow, then the tail. */
#pragma once

#include "protocol/packet.h"
#include "rules/edit/place_update.h"
#include "rules/rule/state.h"
#include "rules/stages/probe.h"

enum place_step {
	PLACE_HOLD,
	PLACE_CLEAN,
	PLACE_UNMARK,
	PLACE_TILES,
	PLACE_LENGTHS,
	PLACE_ASK_MAIN,
	PLACE_ASK,
	PLACE_ASK_PART,
	PLACE_LOWEST,
	PLACE_HITS,
	PLACE_INSERT,
	PLACE_APPLY,
	PLACE_SIZES,
	PLACE_DISCARD,
	PLACE_COMMIT,
	PLACE_ABORT,
	PLACE_RESTORE,
	PLACE_RESTORE_MARKS,
	PLACE_RESTORE_COPIES,
};

/* What comes behind the transaction. */
enum place_end {
	PLACE_COUNTS,  /* X2: the client's statement makes the copies count */
	PLACE_STANDS,  /* the array stays as it is: the client's statement says so by itself */
	PLACE_UNMEANT, /* the document does not meet the filter */
	PLACE_FITS,    /* the array fits into a document: it is folded back */
	PLACE_LOSES,   /* against another writer */
	PLACE_LACKS,   /* overflow is missing */
	PLACE_REJECTS, /* the update fails on an element: the client's error */
	PLACE_FAILS,   /* the server's error */
	PLACE_REFUSES, /* edit->end.code */
};

enum place_where {
	PLACE_EVERYWHERE,
	PLACE_IN_BATCH, /* in `piece`: main's part of the array stays */
	PLACE_IN_MAIN,
	PLACE_IN_HEAD,
	PLACE_IN_TAIL, /* what follows the head in main */
	PLACE_NOWHERE,
};

/* The elements that the update means. */
struct place_aim {
	enum place_where where;
	int64_t at;    /* PLACE_AT: in main's array, or in the piece */
	size_t piece;  /* PLACE_IN_BATCH */
	bool measured; /* main's array has to have the length that it has */
	bool longer;   /* it has to have a tail */
};

/* What counts of a batch: `take` elements behind `skip`, for `width` positions. */
struct place_piece {
	int64_t position, skip, take, width;
	size_t batch;
	size_t next; /* of the same batch, counted from 1; 0: there is none */
};

struct place_names {
	uint8_t later[GENERATION_BYTES], pending[GENERATION_BYTES];
};

/* As X2 leaves them. */
struct place_after {
	int64_t head, removed;
	int64_t total; /* the rule's own field; -1: it stays */
};

struct edit_place {
	enum place_step step;
	enum place_end end;
	struct place_update update;
	struct probe condition; /* the filter's, on the array */
	struct place_aim aim;
	bool begun;   /* a command of the transaction was sent */
	bool tried;   /* to fold the array back: it does not fit */
	bool scratch; /* copies of parts of main are stored */
	struct place_names names;
	struct state state;    /* as X1 leaves it */
	struct buffer main;    /* {head, tail, bytes}, of the document's array */
	struct packet listed;  /* the reply to TILES, which is looked into */
	struct buffer batches; /* struct place_batch: those that count */
	struct buffer pieces;  /* struct place_piece: what of them counts, in order */
	size_t next;           /* in `batches`: where the next document is likely to be */
	struct buffer copies;  /* documents, one behind the other */
	size_t inserted;       /* of `copies`, in bytes */
	struct buffer marked;  /* {_id} of the batches that they stand for */
	int64_t marks;         /* how many */
	int64_t lowest;        /* number in the overflow */
	int64_t bytes;         /* of the document and of all batches that count */
	int64_t copied;        /* elements in the copies */
	int64_t cursor_id;     /* of HITS */
	struct place_after after;
};

void edit_place_fini(struct edit_place *place);
size_t edit_place_memory(const struct edit_place *place);
