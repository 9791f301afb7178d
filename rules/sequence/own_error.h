/* mongod's own verdict on a client's command. Before Spillway refuses a command, or answers with an
 * error that mongod gave to a rewritten one, mongod is asked what it says about the command itself:
 * where it refuses the command anyway, the client gets mongod's error.
 *
 * The question is an explain with verbosity queryPlanner. mongod then parses and plans the command,
 * checks the user's rights, and reads and changes nothing. */
#pragma once

#include "rules/sequence/sequence.h"

/* Whether the client waits for an answer and its command is one that mongod explains. An update or
 * a delete must have one statement. */
must_check bool own_error_can_ask(const struct sequence *sequence);
/* Sends the question, outside the client's session: an error ends a transaction. */
enum sequence_outcome own_error_ask(struct sequence *sequence);
/* The two for one of several statements of the client's update or delete, as if the command had no
 * other. */
must_check bool own_error_can_ask_of(const struct sequence *sequence, struct bytes statement);
enum sequence_outcome own_error_ask_of(struct sequence *sequence, struct bytes statement);
/* Whether the reply to the question is an error that the client's own command would have got. */
must_check bool own_error_said(const struct packet *reply);
/* Whether mongod tells that error as its statement's in a write's reply, and not as the command's.
 */
must_check bool own_error_is_statements(const struct sequence *sequence,
					const struct packet *reply);
/* Makes of the reply to the question the reply to a write that did nothing, without an error. */
void own_error_lend(struct sequence *sequence, const struct packet *reply, struct packet *made);
/* Ends with that error, in the form in which the client's own command would have got it. */
enum sequence_outcome own_error_pass(struct sequence *sequence, struct packet *reply);
/* The same, or where the reply is no error of that kind (or NULL: mongod was not asked) ends the
 * write, of which nothing has been sent, with code 115. */
enum sequence_outcome own_error_pass_or_refuse(struct sequence *sequence, struct packet *reply,
					       const char *why);
/* The field of an error as the client's own command would have got it. */
void own_error_write_field(const struct sequence *sequence, struct buffer *out,
			   const struct element *field);
