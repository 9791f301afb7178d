/* A whole request: read, matched, and what the match says done. What is long of that is done
 * elsewhere. */
#include "proxy/client/session_request.h"

#include "proxy/client/session_aside.h"
#include "proxy/client/unfit.h"
#include "protocol/hello.h"
#include "protocol/legacy.h"

/* A server that nobody signs in at asks nobody who he is. */
static bool request_may_be_refused(const struct session *session)
{
	return !session_is_proven(session) &&
	       (session->rights.signed_in || atomic_load(&session->loop->service->users));
}

/* No rule concerns the frame at the start of `bytes`. What is not all there is left out, and so is
 * whatever mongod may refuse because it does not know the user. */
void request_observe(struct session *session, struct bytes bytes, size_t length)
{
	if (observer_is_due(session->loop->observer) && bytes.length >= length &&
	    !request_may_be_refused(session))
		observer_look(session->loop->observer, (struct bytes){bytes.data, length});
}

/* The hello of a client that offers a compressor we can't read goes on without it; so it does
 * without an attempt to sign in that would take Spillway's certificate for the client's. */
static void request_forward_hello(struct session *session, struct packet *packet)
{
	auto_wiped_buffer struct buffer body = {0}, frame = {0};
	struct bytes whole = packet_frame(packet);
	bool certified = !session->server.tls; /* a certificate on the way to the server is ours */
	struct legacy_query query;

	if (packet->kind == PACKET_MESSAGE) {
		const struct message *message = &packet->message;
		size_t start;

		session_note_application(session, message->body);
		if (message->sequence_count == 0 &&
		    hello_edit_request(message->body, certified, &body)) {
			start = message_begin(&frame, message->header.request_id, 0,
					      message->flags & ~(uint32_t)MESSAGE_CHECKSUM_PRESENT);
			message_begin_body(&frame);
			buffer_append(&frame, body.data, body.length);
			message_end(&frame, start);
		}
	} else if (legacy_query_parse(whole, &query)) {
		session_note_application(session, query.command);
		if (hello_edit_request(query.command, certified, &body))
			legacy_query_replace(whole, &query, buffer_view(&body), &frame);
	}
	stream_write(&session->server, buffer_view(frame.length ? &frame : &packet->raw));
}

void request_start_sequence(struct session *session, struct sequence *sequence)
{
	session->sequence = sequence;
	session->request.epoch = session->loop->epoch;
	session_set_state(session, SESSION_REWRITING);
	session->waiting = session->pending.count > 0 || session->response.left > 0;
	if (session->waiting)
		session_look_after(session);
	else
		session_advance(session, NULL, false);
}

static void request_count(struct session *session, const struct match *match)
{
	struct metrics *metrics = session->loop->metrics;

	switch (match->verdict) {
	case VERDICT_FORWARD:
	case VERDICT_HELLO:
	case VERDICT_CLOSE:
		metric_add(&metrics->commands_forwarded, 1);
		return;
	case VERDICT_REFUSE:
		return; /* mongod may answer it: what is refused is counted at its end */
	default:
		metric_add(&metrics->commands_sequenced, 1);
	}
}

/* A way to sign in that does not pass is refused. */
static void request_judge(void *context, struct match *match)
{
	const struct session_facts *facts = context;

	sign_in_judge(match, facts->way);
	unfit_judge(facts->mover, match);
}

/* It may come in any form of message: plain, compressed, or as an OP_QUERY. */
static bool request_greets(const struct match *match)
{
	return match->verdict == VERDICT_HELLO || match->facts.signs_in;
}

/* Does what the match says. */
static void request_by_match(struct session *session, struct packet *packet,
			     const struct match *match)
{
	bool greets = request_greets(match) && !session_is_proven(session);

	request_note_facts(session, &match->facts);
	request_count(session, match);
	if (match->verdict != VERDICT_HELLO)
		session_works(session);
	switch (match->verdict) {
	case VERDICT_FORWARD:
		if (session->loop->observer && !match->namespace)
			request_observe(session, packet_frame(packet), packet_frame(packet).length);
		request_owe(session, packet->header.request_id, request_kind(&match->facts),
			    &match->facts);
		if (session->rights.secret)
			stream_write(&session->server, buffer_view(&packet->raw));
		else
			stream_write_owned(&session->server, &packet->raw);
		break;
	case VERDICT_HELLO:
		if (session->request.hellos < 2)
			session->request.hellos++;
		request_owe(session, packet->header.request_id, PENDING_HELLO, &match->facts);
		request_forward_hello(session, packet);
		break;
	case VERDICT_CLOSE:
		session_tell_stranger(session, STRANGERS_LATER, &packet->header);
		session_close(session, SESSION_END_DONE);
		break;
	default:
		request_start_sequence(session, sequence_new(packet, match));
		break;
	}
	(session->rights.secret ? packet_wipe : packet_fini)(packet);
	if (greets && session->state == SESSION_RELAYING)
		session_rest_after_greeting(session);
}

static void request_match(struct namespace_cache *namespaces, struct session_facts facts,
			  const struct packet *packet, struct match *match)
{
	const struct match_judge judge = {request_judge, &facts};

	match_packet_judged(namespaces, packet, &judge, match);
}

static void request_match_at_once(const struct session *session, const struct packet *packet,
				  struct match *match)
{
	request_match(session->loop->namespaces, session_facts(session), packet, match);
}

static void request_on_match(struct session *session, struct packet *packet,
			     const struct match *match)
{
	if (match->asks_indexes && match->verdict != VERDICT_REFUSE) {
		session_works(session);
		request_start_sequence(session, sequence_new_ask(packet, match));
	} else {
		request_by_match(session, packet, match);
	}
}

static void request_on_starved(struct session *session, struct packet *packet)
{
	session_starve(session);
	packet_wipe(packet);
}

/* A whole frame that has to be read. */
static void request_on_short_frame(struct session *session, struct buffer *frame)
{
	struct packet packet;
	struct match match;

	packet_read(&packet, frame);
	if (packet.starved) {
		request_on_starved(session, &packet);
		return;
	}
	request_match_at_once(session, &packet, &match);
	request_on_match(session, &packet, &match);
}

/* ---- long ones: no other client waits for them ---- */

static void request_give(struct session *session, struct session_work *before);

static void request_read_and_match(struct session_work *work)
{
	if (work->bytes.length > 0)
		packet_read(&work->packet, &work->bytes);
	if (!work->packet.starved)
		request_match(work->namespaces, work->facts, &work->packet, &work->match);
}

/* Nothing of it has gone out, so other rules that came meanwhile are those that count. */
static void request_on_long_match(struct session *session, struct session_work *work)
{
	if (session->request.epoch != session->loop->epoch) {
		request_give(session, work);
		return;
	}
	session_set_state(session, SESSION_RELAYING);
	if (work->packet.starved)
		request_on_starved(session, &work->packet);
	else if (work->again)
		request_by_match(session, &work->packet, &work->match);
	else
		request_on_match(session, &work->packet, &work->match);
	request_continue(session);
}

/* Of `before` the frame or the packet is taken, and whether it is matched again. */
static void request_give(struct session *session, struct session_work *before)
{
	static const struct session_task task = {request_read_and_match, request_on_long_match};
	struct session_work work = {
		.facts = session_facts(session),
		.namespaces = session->loop->namespaces,
		.bytes = buffer_steal(&before->bytes),
		.packet = packet_steal(&before->packet),
		.again = before->again,
	};

	session->request.epoch = session->loop->epoch;
	session_give_work(session, &task, &work);
}

static void request_on_long_frame(struct session *session, struct buffer *frame)
{
	struct session_work work = {.bytes = buffer_steal(frame)};

	session_set_state(session, SESSION_REWRITING);
	request_give(session, &work);
}

static void request_long_again(struct session *session, struct packet *packet)
{
	struct session_work work = {.packet = packet_steal(packet), .again = true};

	session_set_state(session, SESSION_REWRITING);
	request_give(session, &work);
}

/* An index that is still not known is not there: mongod says so. */
void request_again(struct session *session, struct packet *packet, enum command_kind kind)
{
	struct match match;

	if (session_is_long_packet(packet, kind)) {
		request_long_again(session, packet);
		return;
	}
	request_match_at_once(session, packet, &match);
	request_by_match(session, packet, &match);
}

void request_on_frame(struct session *session, struct buffer *frame)
{
	(session_is_long_request(buffer_view(frame)) ? request_on_long_frame
						     : request_on_short_frame)(session, frame);
}
