/* Who has not signed in and says hello or tries to sign in, and who is refused, is answered and
 * then waits where there are too many: each such request costs more than its sender. */
#include "proxy/client/session.h"

/* A driver signs in by some five requests. Its monitor asks every 500 ms at most. */
#define FIRST 6 /* so many greetings of a connection are its first ones */

static uint64_t take_turn(struct session *session, enum turns_kind kind)
{
	struct loop *loop = session->loop;

	return turns_take(&loop->turns, kind, uv_now(&loop->uv));
}

void session_rest_after_greeting(struct session *session)
{
	bool first = session->request.greetings < FIRST;
	uint64_t wait = take_turn(session, first ? TURNS_FIRST_GREETINGS : TURNS_FURTHER_GREETINGS);

	if (first)
		session->request.greetings++;
	if (wait == 0)
		return;
	metric_add(&session->loop->metrics->greetings_delayed, 1);
	if (!first && turns_crowded(&session->loop->turns, uv_now(&session->loop->uv)))
		session_tell(session, STRANGERS_GREETINGS);
	session_set_state(session, SESSION_REWRITING);
	session_pause(session, wait);
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
