/* What the files of the sequence of insert, update and delete share. */
#pragma once

#include "rules/edit/edit.h"
#include "rules/sequence/refused_statements.h"
#include "rules/write/rewrite.h"
#include "rules/write/write_result.h"

#define TOGETHER_MAX 100 /* edits in one command: where one misses, all are asked again */

enum write_step {
	WRITE_BEGIN,
	WRITE_ASKED,    /* the client's command, or a run of its statements */
	WRITE_EDITS,    /* what the edit sent */
	WRITE_TOGETHER, /* edits of several documents, as if all were whole */
	WRITE_MOVED,    /* the mover, after mongod's refusal of a document for its size */
	WRITE_PROBED,   /* the whole command with filters that match nothing */
	WRITE_REFUSED,  /* what mongod says of a statement that is to be refused */
	WRITE_CREATED,  /* the collection, for an upsert that failed */
};

struct sequence_write {
	struct sequence sequence;   /* first: the two are one pointer */
	struct packet main;         /* the first reply, as long as it can stand for the whole */
	struct write_result result; /* once there is more than one */
	struct bytes *documents;    /* the client's statements */
	size_t count;
	size_t next;      /* the first statement that has not been sent */
	size_t sent;      /* the first one of those that were sent last */
	size_t looked_at; /* errors of `result`: those before were not, or are no longer, movable */
	size_t refused;   /* the statement that was too large; its document is moved */
	bool *moved;      /* by statement: once is enough */
	bool applied;
	size_t sending; /* statements in the command that was sent last */
	size_t most;    /* edits that go together next */
	size_t asked;   /* the first statement that has not been sent with others */
	bool some;      /* of these some were done; `result` does not know yet which */
	struct edit edit;
	bool editing;
	int64_t n, modified;  /* of the statements before the one being edited */
	struct buffer edited; /* documents {_id, reason, elements}, one behind the other */
	struct refused_statements rejected; /* by mongod */
};

static inline struct sequence_write *write_of(struct sequence *sequence)
{
	return (struct sequence_write *)(void *)sequence;
}

static inline const struct sequence_write *const_write_of(const struct sequence *sequence)
{
	return (const struct sequence_write *)(const void *)sequence;
}

/* ---- sequence_write.c: the story ---- */

/* The statement needs arrays whole. */
bool write_is_edit(const struct sequence *sequence, struct bytes document,
		   struct whole_write *edit);
/* mongod has refused the statement before anything was sent. */
bool write_is_rejected(const struct sequence_write *write, size_t index);
/* An error ends the command. In a transaction nothing comes behind an error. */
bool write_is_ordered(const struct sequence *sequence);
/* The next statements, or the answer. */
enum sequence_outcome write_go_on(struct sequence *sequence, const struct sequence_input *input);
/* The driver retries the whole: history answers what is done, and some is. */
const char *write_wrong_label(struct sequence *sequence);
/* The reply to a run, or to one edit. False: `*outcome` ends the command. */
must_check bool write_take_part(struct sequence *sequence, const struct sequence_input *input,
				struct packet *reply, enum sequence_outcome *outcome);

/* ---- write_notes.c: what the mover is told ---- */

/* The reply that says how far the command has come; NULL: nothing was applied. */
const struct packet *write_last_reply(const struct sequence_write *write);
bool write_note_statement(const struct sequence *sequence, struct bytes document,
			  struct mover_note *note);
void write_notes(const struct sequence *sequence,
		 void (*take)(void *context, const struct mover_note *note), void *context);
enum mover_reason write_reason_of(const struct edit *edit, bool swapped);
void write_note_document(struct sequence_write *write, const struct element *id,
			 enum mover_reason reason);
/* Behind write_take_part: the edit's reply is the last one. */
void write_note_edit(struct sequence_write *write);

/* ---- write_edits.c: statements that need arrays whole, one by one ---- */

enum sequence_outcome write_begin_edit(struct sequence *sequence,
				       const struct sequence_input *input,
				       const struct whole_write *edit);
enum sequence_outcome write_edit_on(struct sequence *sequence, const struct sequence_input *input,
				    struct packet *reply);
enum sequence_outcome write_leave_edit(struct sequence *sequence,
				       const struct sequence_input *input);
/* Nothing of this statement was applied by what was asked last. */
enum sequence_outcome write_refuse_edit(struct sequence *sequence,
					const struct sequence_input *input);
/* An error of the statement that was sent last, or was to be. */
void write_add_failure(struct sequence *sequence, enum error_code code, const char *message);

/* ---- write_together.c: several of them in one command ---- */

/* How many can go out together next. */
size_t write_count_together(const struct sequence *sequence);
enum sequence_outcome write_send_together(struct sequence *sequence, size_t count);
enum sequence_outcome write_take_together(struct sequence *sequence,
					  const struct sequence_input *input);
void write_more_together(struct sequence_write *write);

/* ---- write_judge.c: before anything is sent ---- */

/* A statement that mongod can't read makes it refuse the whole command: before a part goes out, all
 * must be sound. */
must_check bool write_all_sound(const struct sequence *sequence);
/* Else mongod says what is wrong with it. */
enum sequence_outcome write_probe(struct sequence *sequence);
enum sequence_outcome write_take_probe(struct sequence *sequence, struct packet *reply);
/* Statements that can't be served refuse the command, unless each is one that mongod refuses. */
enum sequence_outcome write_judge(struct sequence *sequence, const struct sequence_input *input);
enum sequence_outcome write_take_judgement(struct sequence *sequence,
					   const struct sequence_input *input);
