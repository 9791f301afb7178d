/* What the files of the sequences share. */
#pragma once

#include "protocol/legacy.h"
#include "rules/sequence/sequence.h"

#define SEQUENCE_OUTGROWN \
	"Spillway: what has to be sent for this command, or answered, passes the 48,000,000 " \
	"bytes of a message; send less at once"

/* Empty sequences of each kind; sequence_new fills in the rest. */
struct sequence *sequence_read_new(void);
struct sequence *sequence_aggregate_new(void);
/* NULL where the find is none that asks for membership. */
struct sequence *sequence_member_new(const struct match *match);
struct sequence *sequence_write_new(void);
struct sequence *sequence_find_and_modify_new(void);
struct sequence *sequence_explain_new(void);
struct sequence *sequence_bulk_write_new(void);
struct sequence *sequence_watch_new(void);
/* VERDICT_HIDE: of listCollections and drop; of dbStats. */
struct sequence *sequence_hide_new(const struct match *match);
struct sequence *sequence_stats_new(void);
struct sequence *sequence_stream_new(void);

/* Sends the client's own bytes; where commands of ours have started its transaction, without the
 * fields that start one. */
enum sequence_outcome sequence_send_request(struct sequence *sequence);

/* Opens a reply to the client made of one of the server's; returns its body, for the other. */
size_t sequence_begin_reply(struct sequence *sequence, const struct message *reply);
enum sequence_outcome sequence_end_reply(struct sequence *sequence, size_t body);

/* Ends with the server's error (a message that has been summarised), the label `add` among its
 * labels and `drop` not; either may be NULL. */
enum sequence_outcome sequence_pass_relabelled(struct sequence *sequence, struct packet *reply,
					       const char *add, const char *drop);

/* The network broke, or the server changes its state: a driver may try again. */
bool sequence_is_passing(int64_t code);
/* At such an error mongod gives up a whole write, whatever it has done of it: it was interrupted,
 * or is no primary any more. The error says nothing of what was asked. */
bool sequence_ends_all(int64_t code);
/* The user may not do what was asked. */
bool reply_is_unauthorized(const struct packet *reply);
/* The same with the error of a command of ours: a retryable write's label is added where mongod did
 * not see that it was one. */
enum sequence_outcome sequence_pass_helper_error(struct sequence *sequence, struct packet *reply,
						 const char *drop);

#define SEQUENCE_MESSAGE 1280
/* A read leaves a damaged document out; `message` names it. */
void sequence_count_skipped(struct sequence *sequence, const char *message);
/* `why` behind the name of the rule and its collection: `message`. */
const char *sequence_name_rule(const struct sequence *sequence, const char *why,
			       char message[SEQUENCE_MESSAGE]);
/* Ends with an error of Spillway's that names the rule. */
enum sequence_outcome sequence_fail_by_rule(struct sequence *sequence, enum error_code code,
					    const char *why);
/* In place of mongod's error 13, which would quote a command that the client has not sent. */
enum sequence_outcome sequence_refuse_unauthorized(struct sequence *sequence,
						   const struct target *target);
/* Ends a write with an error of ours; one that may be tried again has the label that says so. */
enum sequence_outcome sequence_refuse_write(struct sequence *sequence, enum error_code code,
					    const char *why);

/* Begins to move the arrays of the document that `move` tells of, one after the other. */
enum sequence_outcome sequence_begin_move(struct sequence *sequence);
/* Takes what became of a MOVE: true when there is another array, to be returned as the next MOVE;
 * else `move_helped` says whether any moved. */
must_check bool sequence_next_move(struct sequence *sequence, const struct sequence_input *input);

/* Has the overflow of one of a namespace's targets tended (match.tending). */
enum sequence_outcome sequence_tend(struct sequence *sequence,
				    const struct ruled_namespace *namespace, size_t target);

/* What is left of the client's maxTimeMS, in milliseconds; -1: it set none, 0: it is used up. */
int64_t sequence_time_left(const struct sequence *sequence, const struct sequence_input *input);
/* The same at this step. */
int64_t sequence_time_now(const struct sequence *sequence);
/* The same for a command that is sent, as its maxTimeMS: a millisecond at least, at which mongod
 * says that time is up. Nothing where there is no limit. */
void sequence_write_time(struct buffer *out, int64_t left);
/* The same of the client's own command, which stands as it is where it is the first to go out or
 * has no limit: 0. */
int64_t sequence_time_anew(const struct sequence *sequence);

/* What only the first command of a transaction says, and has said. Without a transaction a write
 * keeps these fields: mongod judges them. */
bool sequence_has_said(const struct sequence *sequence, const struct element *field);

/* Appends to the open body the Stable API fields: a server may require them, and refuses a cursor
 * or a transaction that is gone on with under others. */
void sequence_write_api_fields(struct sequence *sequence);
/* Appends to the open body what every helper carries, getMore and killCursors too: lsid,
 * transaction fields, Stable API fields, comment. */
void sequence_write_cursor_fields(struct sequence *sequence);
/* Appends to the open body of a helper read: $db, those fields, readConcern, $readPreference,
 * $clusterTime, maxTimeMS. `read_concern` replaces the client's
 * where it is not empty. */
void sequence_write_read_fields(struct sequence *sequence, const struct sequence_input *input,
				const char *database, struct bytes read_concern);

/* Appends the request's frame with fields of its body replaced or left out; document sequences
 * follow as they came. For each top-level field `edit` appends what stands in its place and returns
 * true, or returns false for "as it is"; NULL: all are. `clear`: flags to take out. */
void sequence_write_edited(struct sequence *sequence, uint32_t clear,
			   bool (*edit)(void *context, struct buffer *out,
					const struct element *field),
			   void *context);
