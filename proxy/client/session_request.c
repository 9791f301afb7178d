/* The client's way to the server: cuts through what no rule concerns, takes whole frames where one
 * may. */
#include "proxy/client/session_request.h"

#include "proxy/client/aside.h"
#include "protocol/stranger.h"
#include "rules/read/plain_find.h"

#define FIND_LONGEST 4096 /* what is kept of one is in no sum of memory */

static void request_forward(struct session *session, struct bytes bytes)
{
	stream_write(&session->server, bytes);
}

enum request_step {
	REQUEST_CUT,   /* request.left says how many bytes go through */
	REQUEST_WAIT,  /* request.wanted says how many bytes have to be there */
	REQUEST_TAKE,  /* a whole frame to be looked at */
	REQUEST_ASK,   /* a frame that is not held before mongod has said that it knows the user */
	REQUEST_SHED,  /* a whole frame that there is no memory for: thrown away as it comes */
	REQUEST_CLOSE, /* for request.fault */
	REQUEST_BREAK, /* what no client sends: the connection is closed, as by mongod */
};

/* False where the frame can't be held: it is to be thrown away as it comes. `size`: with what is
 * unpacked. */
static bool request_has_memory(struct session *session, const struct frame_header *header,
			       size_t size)
{
	if (size <= LOOP_READ_BUFFER || !session_memory_short(session, size))
		return true;
	session->request.left = (size_t)header->length;
	session->request.shed = skim_new();
	return false;
}

/* A find that goes out as it came: only its bytes are kept, for the sequence that its reply may
 * have to go through. */
static bool request_send_find(struct session *session, struct bytes frame)
{
	const struct ruled_namespace *namespace;
	struct session_find *find;

	if (session_is_refused(session) || frame.length > FIND_LONGEST ||
	    session->pending.count > 0 || !plain_find(session->loop->namespaces, frame, &namespace))
		return false;
	find = &session_ruled(session)->find;
	find->namespace = namespace;
	session->request.epoch = session->loop->epoch;
	namespace_hold(namespace);
	find->request = buffer_steal(&session->loop->find);
	buffer_append(&find->request, frame.data, frame.length);
	find->asked = uv_now(&session->loop->uv);
	pending_push(&session->pending,
		     (struct pending_entry){.request_id = load_int32(frame.data + 4),
					    .kind = PENDING_FIND});
	session_set_state(session, SESSION_REWRITING);
	session_works(session);
	metric_add(&session->loop->metrics->commands_sequenced, 1);
	return true;
}

/* What stands before the frame still goes on. */
static enum request_step request_close(struct session *session, enum strangers_kind why)
{
	session->request.fault = (uint8_t)why;
	return REQUEST_CLOSE;
}

/* mongod does not know the user: it refuses the command itself. Of what is no ordinary command
 * Spillway would have to change the reply, or to know more. */
static enum request_step request_pass_denied(struct session *session, struct bytes bytes,
					     const struct frame_header *header)
{
	const struct match_facts facts = {.answered = true};
	struct message_prefix prefix;
	enum command_kind kind;

	session->rights.denied = false;
	if (header->opcode != OPCODE_MESSAGE || message_prefix(bytes, &prefix) != PREFIX_KNOWN)
		return request_close(session, STRANGERS_BEFORE_LOGIN);
	kind = command_named(prefix.name)->kind;
	if (kind == COMMAND_HELLO || kind == COMMAND_SIGN_IN)
		return request_close(session, STRANGERS_BEFORE_LOGIN);
	if (!(prefix.flags & MESSAGE_MORE_TO_COME))
		request_owe(session, header->request_id, PENDING_FORWARD, &facts);
	metric_add(&session->loop->metrics->commands_forwarded, 1);
	session->request.left = (size_t)header->length;
	return REQUEST_CUT;
}

/* Before a frame is held: may it? `unpacked`: what a compressed one claims to hold. */
static enum request_step request_may_hold(struct session *session, struct bytes bytes,
					  const struct frame_header *header, size_t unpacked)
{
	int64_t most = session->loop->service->config->limits.before_login;
	size_t missing = bytes.length < (size_t)header->length ? (size_t)header->length : 0;

	if (!request_has_memory(session, header, missing + unpacked))
		return REQUEST_SHED;
	if (session_is_refused(session) || session_is_proven(session) ||
	    (header->length <= most && unpacked <= SESSION_UNPACKED_MOST))
		return REQUEST_TAKE;
	return session->rights.denied ? request_pass_denied(session, bytes, header) : REQUEST_ASK;
}

/* What is large inside stays packed until its turn has come. */
static bool request_must_wait(struct session *session, size_t unpacked)
{
	if (unpacked <= SESSION_UNPACKED_MOST ||
	    (session->pending.count == 0 && session->response.left == 0))
		return false;
	session->request.blocked = true;
	session->request.wanted = 0;
	session_adjust_reading(session);
	session_look_after(session);
	return true;
}

/* Decides about a frame that has to be whole. */
static enum request_step request_look_whole(struct session *session, struct bytes bytes,
					    const struct frame_header *header)
{
	size_t length = (size_t)header->length, unpacked = 0;
	enum request_step step;
	uint8_t compressor;

	if (header->opcode == OPCODE_COMPRESSED && length >= COMPRESSED_HEAD) {
		if (bytes.length < COMPRESSED_HEAD) {
			session->request.wanted = COMPRESSED_HEAD;
			return REQUEST_WAIT;
		}
		unpacked = compressed_look(bytes, &compressor);
		if (compressor > COMPRESSOR_ZSTD ||
		    !(session->request.compressors & COMPRESSOR_BIT(compressor)))
			return request_close(session, STRANGERS_COMPRESSOR);
	}
	if (bytes.length >= length && request_must_wait(session, unpacked))
		return REQUEST_WAIT;
	step = request_may_hold(session, bytes, header, unpacked);
	if (step != REQUEST_TAKE)
		return step;
	if (bytes.length < length) {
		session->request.wanted = length;
		return REQUEST_WAIT;
	}
	if (!aside_works(session->loop->aside))
		namespace_cache_trim(session->loop->namespaces);
	if (!request_send_find(session, (struct bytes){bytes.data, length}))
		return REQUEST_TAKE;
	session->request.left = length;
	return REQUEST_CUT;
}

/* Decides about the frame at the start of `bytes`. */
static enum request_step request_look(struct session *session, struct bytes bytes, size_t *length)
{
	struct frame_header header;
	struct match_facts facts;

	switch (frame_next(bytes, &header)) {
	case FRAME_SHORT:
		session->request.wanted = FRAME_HEADER_LENGTH;
		return REQUEST_WAIT;
	case FRAME_INVALID:
		return REQUEST_BREAK;
	case FRAME_PARTIAL:
	case FRAME_READY:
		break;
	}
	if (!stranger_knows_opcode(header.opcode) ||
	    (session_awaits(session, DEADLINE_HANDSHAKE) && !stranger_may_begin(&header)))
		return REQUEST_BREAK;
	*length = (size_t)header.length;
	switch (session_is_refused(session)
			? MATCH_WHOLE
			: match_prefix(namespace_cache_rules(session->loop->namespaces), bytes,
				       &facts)) {
	case MATCH_FORWARD:
		session_works(session);
		if (session->loop->observer)
			request_observe(session, bytes, *length);
		session->request.left = *length;
		request_owe(session, header.request_id, request_kind(&facts), &facts);
		request_note_facts(session, &facts);
		metric_add(&session->loop->metrics->commands_forwarded, 1);
		return REQUEST_CUT;
	case MATCH_MORE:
		session->request.wanted = bytes.length + 1;
		return REQUEST_WAIT;
	case MATCH_WHOLE:
		return request_look_whole(session, bytes, &header);
	}
	require(!"unreachable");
}

static void request_take(struct session *session, struct bytes bytes, size_t length,
			 struct buffer *owner)
{
	struct buffer frame;

	session_await_no_more(session, DEADLINE_HANDSHAKE);
	if (!session_take_frame(bytes, length, owner, &frame)) {
		session->request.shed = skim_new();
		skim_take(session->request.shed, (struct bytes){bytes.data, length});
		request_on_shed(session);
		return;
	}
	if (session_is_refused(session)) {
		request_refuse_connection(session, &frame);
		return;
	}
	request_on_frame(session, &frame);
}

static size_t request_cut(struct session *session, size_t there)
{
	size_t length = there < session->request.left ? there : session->request.left;

	session->request.left -= length;
	if (session->request.left == 0)
		session->request.old = false;
	if (session->request.left == 0 && session_awaits(session, DEADLINE_HANDSHAKE))
		session_await_no_more(session, DEADLINE_HANDSHAKE);
	return length;
}

/* What stands at the start of `bytes` is no message that a client sends there. Nothing of it goes
 * on: mongod might read it otherwise, a TLS ClientHello for one. */
static void request_break(struct session *session, struct bytes bytes)
{
	struct frame_header header = {.length = load_int32(bytes.data),
				      .opcode = load_int32(bytes.data + 12)};

	metric_add(&session->loop->metrics->frames_invalid, 1);
	session_tell_stranger(session,
			      session_awaits(session, DEADLINE_HANDSHAKE) ? stranger_of(bytes)
									  : STRANGERS_LATER,
			      &header);
	session_close(session, SESSION_END_DONE);
}

/* What doesn't go through: the bytes that are done with. */
static size_t request_keep(struct session *session, enum request_step step, struct bytes bytes,
			   size_t length, struct buffer *owner)
{
	size_t gone;

	if (step == REQUEST_TAKE) {
		request_take(session, bytes, length, owner);
		return length;
	}
	if (step == REQUEST_BREAK) {
		request_break(session, bytes);
		return 0;
	}
	if (step == REQUEST_CLOSE) {
		session_tell(session, (enum strangers_kind)session->request.fault);
		session_close(session, SESSION_END_DONE);
		return 0;
	}
	gone = request_cut(session, bytes.length);
	skim_take(session->request.shed, (struct bytes){bytes.data, gone});
	if (session->request.left == 0)
		request_on_shed(session);
	session_watch_progress(session, true);
	return gone;
}

/* Handles as many bytes as can be handled now and returns their number. Neighbouring frames that go
 * through leave in one write:
 *
 *      |-- cut --|-- cut --|-- taken --|-- cut, only its beginning --|
 *      ^ run               ^ at
 */
static size_t request_consume(struct session *session, struct bytes bytes, struct buffer *owner)
{
	size_t run = 0, at = 0, length = 0;

	while (at < bytes.length && session->state == SESSION_RELAYING) {
		struct bytes rest = {bytes.data + at, bytes.length - at};
		enum request_step step = session->request.shed ? REQUEST_SHED : REQUEST_CUT;

		if (session->request.left == 0)
			step = request_look(session, rest, &length);
		if (step == REQUEST_CUT) {
			at += request_cut(session, rest.length);
			continue;
		}
		request_forward(session, (struct bytes){bytes.data + run, at - run});
		if (step == REQUEST_ASK)
			session_ask_proof(session);
		if (step == REQUEST_WAIT || step == REQUEST_ASK)
			return at;
		at += request_keep(session, step, rest, length, at == 0 ? owner : NULL);
		run = at;
		if (session_client_lags(session))
			break;
	}
	if (session->state != SESSION_CLOSING)
		request_forward(session, (struct bytes){bytes.data + run, at - run});
	return at;
}

void request_continue(struct session *session)
{
	auto_buffer struct buffer held = {0};
	size_t length, used;

	if (session->state != SESSION_RELAYING || session->request.held.length == 0 ||
	    session->request.held.length < session->request.wanted || session_client_lags(session))
		return;
	held = buffer_steal(&session->request.held);
	length = held.length;
	session->request.wanted = 0;
	session->request.blocked = false;
	used = request_consume(session, buffer_view(&held), &held);
	if (session->rights.secret)
		bytes_wipe((struct bytes){held.data, held.data ? used : 0});
	if (used < length) {
		buffer_consume(&held, used);
		session->request.held = buffer_steal(&held);
	}
}

/* There is no memory for the rest of the frame that waits: the frame is thrown away as it comes. */
static void request_starve(struct session *session, struct bytes bytes)
{
	auto_wiped_buffer struct buffer held = buffer_steal(&session->request.held);
	struct frame_header header;

	if (session->state != SESSION_RELAYING ||
	    frame_next(buffer_view(&held), &header) != FRAME_PARTIAL) {
		session_starve(session);
		return;
	}
	session->request.left = (size_t)header.length;
	session->request.shed = skim_new();
	(void)request_consume(session, buffer_view(&held), NULL);
	request_on_bytes(session, bytes);
}

void request_on_bytes(struct session *session, struct bytes bytes)
{
	bool stays = session_stands_there(&session->request.held, bytes);
	size_t used;

	if (session->state == SESSION_REWRITING || session->request.held.length > 0) {
		if (!session_hold(&session->request.held, bytes)) {
			request_starve(session, bytes);
			return;
		}
		if (!stays)
			bytes_wipe(bytes); /* it may be the rest of who signs in */
		request_continue(session);
		session_watch_progress(session, true);
	} else {
		if (session->request.left == 0)
			session->rights.secret = false;
		session->request.wanted = 0;
		used = request_consume(session, bytes, NULL);
		if (used < bytes.length && session->state != SESSION_CLOSING) {
			session_keep(session, &session->request.held,
				     (struct bytes){bytes.data + used, bytes.length - used},
				     session->request.wanted);
			session_watch_progress(session, true);
		}
		if (session->rights.secret)
			used = 0;
		bytes_wipe((struct bytes){bytes.data + used, bytes.length - used});
	}
	session_update_reading(session);
}
