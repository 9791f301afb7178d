/* What session_request.c (bytes of the client's) and session_match.c (whole requests) have of each
 * other. */
#pragma once

#include "proxy/client/session.h"

/* A reply is owed from now on, unless the request wants none. */
static inline void request_owe(struct session *session, int32_t request_id, enum pending_kind kind,
			       const struct match_facts *facts)
{
	if (!facts->answered)
		return;
	if (session->pending.count == 0 && latency_draw(session->loop->latencies))
		pending_begin(&session->pending, uv_now(&session->loop->uv));
	pending_push(&session->pending, (struct pending_entry){.request_id = request_id,
							       .kind = (uint8_t)kind,
							       .exhaust = facts->exhaust});
}

static inline enum pending_kind request_kind(const struct match_facts *facts)
{
	if (facts->reads_on)
		return PENDING_GET_MORE;
	return facts->signs_in ? PENDING_SIGN_IN : PENDING_FORWARD;
}

static inline void request_note_facts(struct session *session, const struct match_facts *facts)
{
	if (facts->transaction == MATCH_IN_TRANSACTION)
		session->in_transaction = true;
	else if (facts->transaction == MATCH_ENDS_TRANSACTION)
		session->in_transaction = false;
	if (facts->signs_in)
		session_signs_in(session);
}

/* No rule concerns the frame at the start of `bytes`. */
void request_observe(struct session *session, struct bytes bytes, size_t length);
/* A whole frame that has to be read; taken over. */
void request_on_frame(struct session *session, struct buffer *frame);
