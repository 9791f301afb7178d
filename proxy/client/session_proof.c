/* What may be held for a client before mongod has accepted anything of it: its own bytes up to
 * limits.before_login, and a share of limits.memory for all such clients together. */
#include "proxy/client/session.h"

#include "protocol/writer.h"

#define SHARE 4 /* one part in so many of limits.memory */

bool session_is_proven(const struct session *session)
{
	const struct session_rights *rights = &session->rights;

	return rights->proven || rights->accepted.everywhere || rights->accepted.count > 0;
}

/* ---- the question ---- */

/* Every user may run it, and nobody who has not signed in; it does nothing. With apiVersion also
 * servers that require one take it. */
static void write_question(struct buffer *frame, int32_t request_id)
{
	size_t start = message_begin(frame, request_id, 0, 0), body, list;

	message_begin_body(frame);
	body = writer_open(frame);
	list = writer_open_array(frame, "refreshSessions");
	writer_close(frame, list);
	writer_string(frame, "$db", "admin");
	writer_string(frame, "apiVersion", "1");
	writer_close(frame, body);
	message_end(frame, start);
}

void session_ask_proof(struct session *session)
{
	auto_buffer struct buffer frame = {0};
	int32_t request_id = session->next_request_id++;

	write_question(&frame, request_id);
	session_works(session);
	session_set_state(session, SESSION_REWRITING);
	session->request.wanted = 0;
	pending_push(&session->pending,
		     (struct pending_entry){.request_id = request_id, .kind = PENDING_PROOF});
	stream_write(&session->server, buffer_view(&frame));
	session_look_after(session);
}

/* Another error than 13 says nothing of the user: a server that lacks the command, for one. */
void session_take_proof(struct session *session, const struct packet *reply)
{
	bool denied = !reply->summary.ok && reply->summary.code == ERROR_UNAUTHORIZED;

	session->rights.denied = denied;
	session->rights.proven = !denied;
	session_set_state(session, SESSION_RELAYING);
	request_continue(session);
	session_pass_ends(session);
}

/* ---- many at once ---- */

static bool is_crowded(const struct loop *loop, int64_t parts)
{
	const struct config *config = loop->service->config;

	return loop->unproven > config->limits.memory / SHARE / config->workers * parts / 8;
}

static size_t largest(const struct loop *loop)
{
	size_t most = 0;

	for (const struct session *at = loop->sessions; at; at = at->next)
		if (at->state != SESSION_CLOSING && at->memory.unproven > most)
			most = at->memory.unproven;
	return most;
}

/* What it held goes at once, not when its sockets are closed. */
static void drop(struct session *session)
{
	session_tell(session, STRANGERS_CROWD);
	session_close(session, SESSION_END_DONE);
	buffer_fini(&session->request.held);
	session_account(session);
}

void session_thin_out(struct session *session)
{
	struct loop *loop = session->loop;
	size_t most;

	if (session->memory.unproven == 0 || !is_crowded(loop, 8))
		return;
	/* More than just enough, since each look goes through all sessions. */
	while (is_crowded(loop, 7) && (most = largest(loop)) > 0)
		for (struct session *at = loop->sessions; at && is_crowded(loop, 7); at = at->next)
			if (at->state != SESSION_CLOSING && at->memory.unproven > most / 2)
				drop(at);
}

/* ---- clients that go ---- */

static bool waits(const struct session *session)
{
	return session->waiting || session->request.blocked ||
	       (session->state == SESSION_REWRITING && !session->sequence &&
		!session->memory.away && !session_finds(session));
}

void session_look_after(struct session *session)
{
	if (!session_awaits(session, DEADLINE_LOOK))
		session_await(session, DEADLINE_LOOK);
}

/* A hello may be answered minutes later. */
void session_look_again(struct session *session)
{
	if (!waits(session))
		return;
	if (pending_begins_with_hello(&session->pending) && stream_has_ended(&session->client))
		session_close(session, SESSION_END_DONE);
	else
		session_look_after(session);
}
