/* Sequences: what a client's request on a ruled namespace takes more than one step to do. Pure
 * state machines, driven by replies.
 *
 * Each is one function that reads top to bottom, a case named by what was last asked. The caller
 * does what comes out:
 *
 *   SEND       -> `output` to the server, its reply to sequence_resume
 *   SEND_LAST  -> `output` to the server, no reply will come: over (w: 0)
 *   MOVE       -> have the document of `move` moved, then sequence_resume with `moved`
 *   TEND       -> have the overflow of `move` tended (match.tending), then sequence_resume
 *   PAUSE      -> wait for `pause` milliseconds, then sequence_resume
 *   DONE       -> `output` to the client: over
 *   AGAIN      -> over: the request is to be matched anew
 *
 * After SEND_LAST and DONE sequence_notes says what the mover should look at; before, after a
 * connection is lost, sequence_cut does. */
#pragma once

#include "rules/match/match.h"
#include "rules/rule/note.h"

enum sequence_outcome {
	SEQUENCE_SEND,
	SEQUENCE_SEND_LAST,
	SEQUENCE_MOVE,
	SEQUENCE_TEND,
	SEQUENCE_PAUSE,
	SEQUENCE_DONE,
	SEQUENCE_AGAIN,
};

/* What a step is given. All zeros but `now` at the first. */
struct sequence_input {
	struct packet *reply; /* to what was sent; the sequence may steal it */
	bool moved;           /* whether MOVE or TEND succeeded */
	bool memory_short; /* all that is held passes the limit: a read gives up with error 365 */
	uint64_t now;      /* microseconds, a monotonic clock */
};

/* What the caller may want to count. */
struct sequence_counts {
	int64_t merged;
	int64_t repeats;
	int64_t fetches;
	int64_t fetch_microseconds;
	int64_t skipped;   /* damaged documents that a read left out */
	char *skipped_one; /* names the last of them; owned by the sequence */
};

#define SEQUENCE_STEPS 8 /* that are kept */

/* When what happened. The caller notes what it sends. */
struct sequence_trace {
	uint64_t started; /* input->now of the first step */
	uint64_t resumed; /* input->now of the last one */
	unsigned count;   /* of all steps */
	struct {
		uint32_t at;   /* microseconds since the start */
		char name[20]; /* of the command that was sent, or what else was done */
	} steps[SEQUENCE_STEPS];
};

/* MOVE and TEND: one array of a document after another. */
struct sequence_move {
	struct mover_note note;
	size_t target; /* of the namespace: whose array `note` is about */
	bool helped;   /* some array was moved */
};

/* To what was sent last: reset with each command of Spillway's. */
struct sequence_reply {
	size_t expected; /* bytes, where it may be large; a guess */
	bool gives_up;   /* resumed without it, where memory is short, the sequence ends with an
			    error */
	bool outside;    /* it was asked outside the client's session: no transaction has begun */
};

/* What the user may do. */
struct sequence_permission {
	bool unproven; /* nobody knows whether the overflow may be read; the caller says so */
	bool proven;   /* it may */
	bool denied;   /* of a change: mongod has said that it may not be */
};

/* The session of Spillway's own transactions. mongod keeps a session for half an hour: a connection
 * has one, which its sequences pass on. */
struct sequence_session {
	uint8_t id[16]; /* random; none before the first transaction */
	int64_t number; /* of the latest transaction */
};

/* An error ends the client's transaction, too:
 *
 *   at work ──────► over: the reply is the answer
 *      │ failed       ▲ there is no transaction
 *      ▼              │
 *   an error is ──────┤
 *   the answer        │
 *      │ aborts       │ abortTransaction was answered
 *      ▼              │
 *   `answer` waits ───┘
 */
struct sequence_end {
	struct sequence_session own;
	bool failed;
	bool aborts;
	bool passes; /* `answer` is the server's own frame, which goes as it is */
	bool holds;  /* a transaction of Spillway's own is open: it is gone on with, so that nobody
			waits for what it holds */
	int64_t cursor;       /* of a stream whose client has gone; 0: none */
	enum error_code code; /* of Spillway's error that the answer has; 0: none */
	struct buffer answer; /* the error, while abortTransaction is asked */
	struct buffer times;  /* of a write: what the server's last reply said of its clock */
};

struct sequence {
	enum sequence_outcome (*resume)(struct sequence *sequence,
					const struct sequence_input *input);
	void (*notes)(const struct sequence *sequence,
		      void (*take)(void *context, const struct mover_note *note), void *context);
	void (*fini)(struct sequence *sequence);
	/* What was to be sent passes a message, and parts of the command may have been applied:
	 * another step in its place. NULL: the whole fails. */
	enum sequence_outcome (*outgrown)(struct sequence *sequence,
					  const struct sequence_input *input);
	size_t (*memory)(
		const struct sequence *sequence); /* beside request and buffer; may be NULL */
	int step; /* what was last asked; an enum of each sequence */
	struct packet request;
	struct match match;
	const struct ruled_namespace *held_namespaces[3]; /* the match's, until the end */
	int32_t next_request_id; /* for our own commands; the caller sets it and reads it back */
	struct sequence_trace trace;
	struct buffer buffer; /* what we have written ourselves */
	struct packet held;   /* a reply that `output` looks into */
	struct bytes output;
	struct sequence_move move;
	struct sequence_reply reply;
	struct sequence_permission permission;
	struct sequence_end end;
	unsigned pause;
	bool touched; /* a find's reply is known not to pass as it is; the caller says so */
	bool begun;   /* something was sent: a transaction that the command starts has started */
	bool asks_indexes; /* sequence_new_ask's: the verdict is not followed yet */
	bool cut;          /* given up before its end: what was sent last is done or not */
	struct sequence_counts counts;
};

/* For the verdicts READ, WRITE, FIND_AND_MODIFY, BULK_WRITE, EXPLAIN, WATCH and REFUSE. Takes the
 * packet over, and holds the match's namespaces. */
struct sequence *sequence_new(struct packet *request, const struct match *match);
/* The same where match.asks_indexes, whatever the verdict: has them looked up, then AGAIN. */
struct sequence *sequence_new_ask(struct packet *request, const struct match *match);
/* The same for a find of which plain_find was true, with the namespace it told. */
struct sequence *sequence_new_plain_find(struct packet *request,
					 const struct ruled_namespace *namespace);
void sequence_free(struct sequence *sequence);
/* What it holds, in bytes, roughly. */
size_t sequence_memory(const struct sequence *sequence);
must_check enum sequence_outcome sequence_resume(struct sequence *sequence,
						 const struct sequence_input *input);
/* In place of the first step: there is no memory for the request, which ends with an error. */
must_check enum sequence_outcome sequence_give_up(struct sequence *sequence);
#define SEQUENCE_NO_MEMORY \
	"Spillway has no memory left for this request (limits.memory, or what the system gives); " \
	"try again later"
/* After DONE: whether the answer is a part of a stream, because the client's getMore allows exhaust
 * and its cursor goes on. The answer says so then, and *next is the request for the next part. */
must_check bool sequence_streams(struct sequence *sequence, struct packet *next);
/* Whether it can come to that. */
bool sequence_may_stream(const struct sequence *sequence);
/* The same after DONE if the client has gone: mongod would close the cursor with the connection. */
void sequence_leave_stream(struct sequence *sequence);
/* Behind that, once the answer has gone out: whether a cursor is left. `output` closes it; its
 * reply to sequence_resume, then DONE comes again, without an answer. */
must_check bool sequence_close_stream(struct sequence *sequence);
void sequence_notes(const struct sequence *sequence,
		    void (*take)(void *context, const struct mover_note *note), void *context);
/* The same for what may have been done: nobody will resume it. */
void sequence_cut(struct sequence *sequence,
		  void (*take)(void *context, const struct mover_note *note), void *context);

/* For the sequences themselves. In a client's transaction an error of ours ends it, as mongod's
 * errors do: what comes next is answered as behind any error. */

/* Ends with a reply of ours. `label` may be NULL. */
enum sequence_outcome sequence_fail(struct sequence *sequence, enum error_code code,
				    const char *message, const char *label);
/* Ends with the server's reply as it came (its ids are right only where the client's own bytes were
 * sent, else they are set). */
enum sequence_outcome sequence_pass(struct sequence *sequence, struct packet *reply);
/* Begins a command of our own in `buffer` and opens its body; sequence_send_command closes both. */
size_t sequence_begin_command(struct sequence *sequence);
enum sequence_outcome sequence_send_command(struct sequence *sequence, size_t body);
/* killCursors, of a cursor that is not needed any more. */
enum sequence_outcome sequence_send_kill(struct sequence *sequence, const char *database,
					 const char *collection, int64_t cursor_id);
