/* Who has not signed in says hello and tries to sign in as often as any driver does, and no more
 * often: each such request costs Spillway and the server more than its sender. */
#include "proxy/client/session.h"

#include "protocol/stranger.h"

/* A driver signs in by some five requests. Its monitor asks every 500 ms at most. */
#define FIRST 6 /* so many greetings of a connection are its first ones */

static bool is_greeting(struct bytes bytes, const struct frame_header *header)
{
	struct message_prefix prefix;
	enum command_kind kind;

	if (header->opcode == OPCODE_QUERY)
		return true;
	if (header->opcode != OPCODE_MESSAGE || message_prefix(bytes, &prefix) != PREFIX_KNOWN)
		return false;
	kind = command_named(prefix.name)->kind;
	return kind == COMMAND_HELLO || kind == COMMAND_SIGN_IN;
}

static uint64_t take_turn(struct session *session, enum turns_kind kind)
{
	struct loop *loop = session->loop;

	return turns_take(&loop->turns, kind, uv_now(&loop->uv));
}

must_check bool session_waits_turn(struct session *session, struct bytes bytes,
				   const struct frame_header *header)
{
	uint64_t wait;
	bool first;

	if (session_is_refused(session) || session_is_proven(session) ||
	    !is_greeting(bytes, header))
		return false;
	if (session->request.turn) {
		session->request.turn = false;
		return false;
	}
	first = session->request.greetings < FIRST;
	wait = take_turn(session, first ? TURNS_FIRST_GREETINGS : TURNS_FURTHER_GREETINGS);
	if (first)
		session->request.greetings++;
	if (wait == 0)
		return false;
	metric_add(&session->loop->metrics->greetings_delayed, 1);
	if (!first)
		session_tell(session, STRANGERS_GREETINGS);
	session->request.turn = true;
	session->request.wanted = 0;
	session_set_state(session, SESSION_REWRITING);
	session_pause(session, wait);
	return true;
}

void session_rest_after_refusal(struct session *session)
{
	uint64_t wait = take_turn(session, TURNS_REFUSALS);

	if (wait == 0) {
		session_next_request(session);
		return;
	}
	metric_add(&session->loop->metrics->refusals_delayed, 1);
	session_pause(session, wait);
}
