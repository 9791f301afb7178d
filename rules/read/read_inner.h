/* What the files of the sequence of reads share (sequence_read.c). */
#pragma once

#include "protocol/template.h"
#include "rules/reassembly/reassemble.h"
#include "rules/rule/names.h"
#include "rules/sequence/fetch.h"

enum read_step {
	READ_BEGIN,
	READ_ASKED,          /* the client's command */
	READ_OVERFLOW_ASKED, /* what fetch sent */
	READ_AGAIN_ASKED,    /* one document whose generation died */
	READ_FEWER_ASKED,    /* the overflow's cursor, closed to begin with fewer documents */
	READ_REST_ASKED,     /* a cursor for what has no room in the reply */
	READ_SPENT_ASKED,    /* such a cursor, closed behind its last document */
	READ_KILL_ASKED,     /* a cursor of a read that failed */
	READ_BEYOND_ASKED,   /* the same, of a find that becomes an aggregate */
	READ_WORDS_ASKED,    /* the client's own find, explained: it had failed otherwise written */
	READ_LOOK_ASKED,     /* the state of a document whose overflow is short */
	READ_DROPPED_ASKED,  /* whether the collection is there: a getMore has lost its overflow */
};

/* Documents whose generation died, and that were read again. */
struct read_retry {
	bool *gone; /* by document: it vanished while it was read again, or it is skipped */
	struct packet *replies; /* with documents read again */
	size_t reply_count;
	size_t dead;  /* the document that has to be read again */
	size_t tried; /* the document that `attempts` counts for */
	int attempts;
	int stood;                     /* looks behind which the document's states still stood */
	enum reassemble_damage damage; /* of finds that have become aggregates */
};

struct sequence_read {
	struct sequence sequence; /* first: the two are one pointer */
	struct packet main;       /* the reply to the client's command */
	struct bytes cursor;      /* its cursor document */
	struct bytes batch;       /* and the documents in that */
	int64_t cursor_id;        /* where the client goes on; 0: nowhere */
	int64_t spent;            /* a remainder's that has said all; 0: none is open */
	bool unwrapped;           /* documents came from a remainder */
	bool unresolved;          /* `main` is an error: the overflow's collection is gone */
	char *lost;               /* what is to be said of the array that was not whole, or NULL */
	size_t batch_count;       /* documents of the batch; the first of them are in the merge */
	bool aggregates;          /* the find has been written as an aggregate */
	bool marked;              /* each document of a collection carries the mark for `_id` */
	struct window *windows;   /* of a find that wants nothing else of its arrays, or NULL */
	struct fetch fetch;
	bool fetching;
	struct read_retry retry;
	size_t id_at;          /* in the answer: its cursor's id */
	size_t cut;            /* the first document that the answer has no room for */
	size_t fewer;          /* documents to begin with once more */
	struct buffer rest;    /* of struct bytes: documents that are still to be kept */
	struct buffer answer;  /* to the client, until its remainder is kept */
	struct buffer failure; /* our error reply, until the cursor is closed */
	struct stream *stream; /* of an exact change stream, or NULL */
};

static inline struct sequence_read *read_of(struct sequence *sequence)
{
	return (struct sequence_read *)(void *)sequence;
}

static inline bool read_is_command(const struct sequence *sequence, enum command_kind kind)
{
	return sequence->match.command.kind == kind;
}

/* read_command.c */

/* The client's projection takes away what a merge needs: another one is sent. */
bool read_needs_state(const struct sequence *sequence);
/* Sends the client's command, or what stands for it. */
enum sequence_outcome read_send_client_command(struct sequence *sequence);
/* Sends an aggregate in place of the find: mongod puts the documents together. */
enum sequence_outcome read_ask_aggregate(struct sequence *sequence);
/* Writes a find of one document once more, with the client's own conditions and its `_id`. */
void read_write_find_again(struct sequence *sequence, const struct element *id);

/* read_failure.c. Those with an outcome end the read, once its cursors are closed. */

/* Closes what is still open, then answers with what read_fail_with_output has kept. */
enum sequence_outcome read_close_cursors(struct sequence *sequence);
/* Ends with what `output` is. */
enum sequence_outcome read_fail_with_output(struct sequence *sequence);
/* Ends with an error of Spillway's, which names the rule. */
enum sequence_outcome read_fail(struct sequence *sequence, enum error_code code, const char *why);
enum sequence_outcome read_fail_fetch(struct sequence *sequence, enum fetch_outcome outcome);
/* Ends with what is to be said of a document that no merge takes. Without `document`, it is the
 * reply that can't be read. */
enum sequence_outcome read_refuse_document(struct sequence *sequence, enum merge_intake intake,
					   struct bytes document);
/* Keep what is to be said of an array that was not whole. */
void read_say_lost(struct sequence_read *read, const char *message);
void read_name_lost(struct sequence_read *read, struct bytes document);
/* What an array needs of the overflow is not there any more. A getMore can't begin again, and its
 * collection may be gone, too: mongod is asked. */
enum sequence_outcome read_lose_overflow(struct sequence *sequence,
					 const struct sequence_input *input);
enum sequence_outcome read_take_dropped(struct sequence *sequence, const struct packet *reply);

/* read_look.c */

/* Counts whether the document that stopped the reply has the states that it had. */
void read_compare_states(struct sequence *sequence, struct bytes now);
bool read_proves_damage(const struct sequence_read *read);
enum sequence_outcome read_ask_look(struct sequence *sequence, const struct sequence_input *input,
				    const struct element *id);
enum sequence_outcome read_take_look(struct sequence *sequence, const struct sequence_input *input);
/* False: the rules do not leave such documents out. Else this one, number `index` of the merge, is.
 */
bool read_skips(struct sequence *sequence, struct bytes document, size_t index);
/* The document that stopped the reply is damaged: without it, or not at all. */
enum sequence_outcome read_take_damage(struct sequence *sequence,
				       const struct sequence_input *input);

/* sequence_read.c */

/* The find can't be answered by what has come: begins again, as an aggregate. */
enum sequence_outcome read_ask_beyond(struct sequence *sequence,
				      const struct sequence_input *input);
/* Takes a reply of the overflow (NULL: none), and goes on. */
enum sequence_outcome read_fetch_on(struct sequence *sequence, const struct sequence_input *input,
				    struct packet *reply);

/* read_reply.c */

void read_open_merge(struct sequence_read *read);
/* Puts the first `most` documents of the batch into the merge. *refused: the one that it does not
 * take, or none. */
enum merge_intake read_take_batch(struct sequence_read *read, size_t most, struct bytes *refused);
/* Behind a remainder's last document the client goes on with the cursor that it names. */
void read_follow(struct sequence_read *read);
/* Room for the reply. False where there is no memory for it. */
must_check bool read_make_room(struct sequence_read *read);
/* Writes the whole reply into `buffer`; read->dead says which document stopped it. */
void read_write_reply(struct sequence_read *read);
