/* What a session has another thread do, since it would hold up the loop's other clients. Meanwhile
 * nothing of the session is read but what has come, and its sequence is with the work. */
#pragma once

#include "proxy/client/session.h"
#include "rules/match/sign_in.h"

/* Bytes that are looked at on the loop itself: they take some milliseconds at most. */
#define ASIDE_REQUEST 65536 /* of a request that carries data or a filter */
#define ASIDE_PIPELINE 4096 /* of one that may be a pipeline, whose stages are written anew */
#define ASIDE_MEMORY 262144 /* of a sequence and the reply to it */
#define ASIDE_REPLY 1048576 /* of a reply in whose documents only states are looked for */
#define ASIDE_PACKED 8192   /* of a compressed request: what it is, nobody knows yet */

/* What a match, and what is noted, has to know beside the request. */
struct session_facts {
	struct mover *mover;
	struct sign_in_way way;
};

/* Given away and taken back as one. The other thread sees nothing else of the session. */
struct session_work {
	struct sequence *sequence;
	struct session_facts facts;
	struct namespace_cache *namespaces; /* that the work looks into; NULL: none */
	struct packet packet;
	struct match match;
	struct sequence_input input;
	enum sequence_outcome outcome;
	struct permission_question question;
	struct buffer bytes;
	int kind;
	const struct ruled_namespace *found; /* held by the session */
	bool flag;
	bool again; /* the request was matched before */
};

/* `work` runs in the other thread; `then` on the loop, unless the session has closed meanwhile. */
struct session_task {
	void (*work)(struct session_work *work);
	void (*then)(struct session *session, struct session_work *work);
};

struct session_facts session_facts(const struct session *session);
/* Takes *work over, and the session's sequence. Reads session->request.epoch: a sequence goes on
 * under the rules under which it began, also when others hold by the end of the work. */
void session_give_work(struct session *session, const struct session_task *task,
		       struct session_work *work);

/* Whether a whole frame of a client is to be read and matched elsewhere. */
bool session_is_long_request(struct bytes frame);
/* The same of one that has been read. */
bool session_is_long_packet(const struct packet *packet, enum command_kind kind);
/* Whether the next step of the sequence is to be taken elsewhere; `reply` may be NULL. */
bool session_is_long_step(const struct sequence *sequence, const struct packet *reply);
