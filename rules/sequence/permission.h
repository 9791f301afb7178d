/* Whether mongod lets a client run its own command, asked without running it.
 *
 * The question is the client's command with a maxTimeMS that is out of range. mongod 6.0 looks at a
 * command's form first, then at the user's rights, and only then at maxTimeMS:
 *
 *   {ok: 0, code: 2, errmsg: "<number> value for maxTimeMS is out of range"}   the user may run it
 *   {ok: 0, code: 13, ...}                                                    the user may not
 *   {ok: 0, ...}                                              mongod refuses it whoever sends it
 *
 * Nothing is locked, read, written or checked out for it: a transaction and a session stay as they
 * are. */
#pragma once

#include "rules/sequence/sequence.h"

enum permission {
	PERMISSION_GIVEN,
	PERMISSION_DENIED, /* the reply is mongod's error 13 for the client's command */
	PERMISSION_OPEN,   /* the reply is another error, which the client's command meets, too */
	PERMISSION_BROKEN, /* the server is none that checks maxTimeMS, or the reply can't be read
			    */
};

struct permission_question {
	int32_t request_id;
	int64_t number; /* the maxTimeMS: PERMISSION_LEAST at least, and hard to guess */
	bool own;       /* set: it is the client's command, else another one with the same rights */
};

#define PERMISSION_LEAST (INT64_C(1) << 40) /* no server takes so many milliseconds */

/* Appends the question as an OP_MSG frame. False where nothing names a command or a collection that
 * could be asked about. */
must_check bool permission_ask(struct permission_question *question, const struct packet *request,
			       const struct match *match, struct buffer *out);
enum permission permission_told(const struct packet *reply);
/* Ends the sequence with mongod's error for the client's command: the reply's, without what the
 * question has added to the command that it quotes. */
enum sequence_outcome permission_pass(const struct permission_question *question,
				      struct sequence *sequence, struct packet *reply);
