/* The server's way to the client: replies go through as they come, but for hello and for what a
 * sequence asked. */
#include "proxy/client/session_aside.h"

#include "protocol/hello.h"
#include "protocol/legacy.h"
#include "rules/read/plain_find.h"
#include "rules/reassembly/raised.h"

#define ERROR_LENGTH_MAX 4096
#define PART CLAIMS_LEAST /* of a reply: what is counted at once */

static bool response_find_advertised(const void *context, struct bytes member,
				     struct bytes *advertised)
{
	const struct session *session = context;

	return mover_advertised(session->loop->service->mover, member, advertised);
}

static void response_write_message(struct session *session, const struct packet *packet,
				   struct buffer *body)
{
	auto_buffer struct buffer frame = {0}, packed = {0};
	const struct message *message = &packet->message;
	size_t start =
		message_begin(&frame, message->header.request_id, message->header.response_to,
			      message->flags & ~(uint32_t)MESSAGE_CHECKSUM_PRESENT);

	message_begin_body(&frame);
	buffer_append(&frame, body->data, body->length);
	message_end(&frame, start);
	if (packet_compressed(packet))
		compressed_pack(buffer_view(&frame), packet->compressor, &packed);
	stream_write(&session->client, buffer_view(packed.length ? &packed : &frame));
}

/* Servers' addresses in a reply to hello become ours. */
static void response_on_hello(struct session *session, struct packet *packet)
{
	struct hello_map map = {response_find_advertised, session};
	auto_buffer struct buffer body = {0}, frame = {0};
	struct legacy_reply reply;
	struct bytes own, document = {0};

	if (packet->kind == PACKET_MESSAGE)
		document = packet->message.body;
	else if (legacy_reply_parse(packet_frame(packet), &reply))
		document = reply.document;
	session_note_sign_in(session, document);
	session->request.compressors |= hello_compressors(document);
	if (hello_own_name(document, &own))
		mover_learn_name(session->loop->service->mover, session->listen_index, own);
	if (!hello_edit_reply(document, &map, &body)) {
		stream_write(&session->client, buffer_view(&packet->raw));
	} else if (packet->kind == PACKET_MESSAGE) {
		response_write_message(session, packet, &body);
	} else {
		legacy_reply_append(&frame, reply.header.response_to, reply.flags,
				    buffer_view(&body));
		stream_write(&session->client, buffer_view(&frame));
	}
}

static void response_on_sign_in(struct session *session, const struct packet *packet)
{
	if (packet->kind == PACKET_MESSAGE)
		session_note_sign_in(session, packet->message.body);
	if (packet->summary.ok && !hello_signs_in(packet->message.body)) /* logout */
		session_await_no_more(session, DEADLINE_LOGIN);
	stream_write(&session->client, buffer_view(&packet->raw));
}

/* A pipeline on a collection of no rule has met an array of one, and a stage of ours has failed. */
static void response_on_get_more(struct session *session, struct packet *packet)
{
	auto_buffer struct buffer body = {0};
	char message[RAISED_MESSAGE];
	enum error_code code;
	const char *failure = raised_failure(&packet->summary, message, &code);

	if (failure) {
		reply_error_body(&body, code, failure, NULL);
		response_write_message(session, packet, &body);
	} else {
		stream_write(&session->client, buffer_view(&packet->raw));
	}
}

/* Errors are short; of those that are not packed it is quickly seen that they are not ours. */
static bool response_passes(struct bytes bytes, const struct frame_header *header,
			    enum frame_state state)
{
	return header->length > ERROR_LENGTH_MAX ||
	       (state == FRAME_READY && header->opcode == OPCODE_MESSAGE &&
		!memmem(bytes.data, (size_t)header->length, RAISED_MARK, strlen(RAISED_MARK)));
}

/* What has to be there for the flags: of a compressed reply all of it. */
static size_t response_flags_in(const struct frame_header *header)
{
	return header->opcode == OPCODE_COMPRESSED
		       ? (size_t)header->length
		       : least((size_t)header->length, FRAME_HEADER_LENGTH + 4);
}

/* Whether more replies follow this one unasked. `bytes` hold at least the flags. */
static bool response_more_to_come(struct bytes bytes, const struct frame_header *header)
{
	uint32_t flags;

	if (header->opcode == OPCODE_COMPRESSED)
		return compressed_flags(bytes, &flags) && (flags & MESSAGE_MORE_TO_COME);
	return header->opcode == OPCODE_MESSAGE && header->length >= FRAME_HEADER_LENGTH + 4 &&
	       (load_int32(bytes.data + FRAME_HEADER_LENGTH) & MESSAGE_MORE_TO_COME);
}

/* The first reply that was owed has come. By the loop's own time: no clock is looked at. */
static void response_measure(struct session *session, enum pending_kind kind)
{
	uint32_t waited = (uint32_t)uv_now(&session->loop->uv) - session->pending.asked;

	session->pending.timed = false;
	if (kind == PENDING_FORWARD || kind == PENDING_GET_MORE)
		latency_note(&session->loop->latencies->forwarded, (uint64_t)waited * 1000,
			     LATENCY_SAMPLE);
}

/* The reply has been recognised: the next one of a stream answers this one, by its id. */
static void response_settle(struct session *session, struct pending_entry *entry,
			    struct bytes bytes, const struct frame_header *header)
{
	if (session->pending.timed)
		response_measure(session, (enum pending_kind)entry->kind);
	if (entry->exhaust && response_more_to_come(bytes, header))
		entry->request_id = header->request_id;
	else
		pending_pop(&session->pending);
}

/* What a sequence sends is OP_MSG, and so is what answers it. */
static bool response_can_be(enum pending_kind kind, const struct packet *packet)
{
	if (kind == PENDING_FIND || kind == PENDING_SEQUENCE || kind == PENDING_PROOF)
		return packet->kind == PACKET_MESSAGE;
	return packet->kind != PACKET_BROKEN;
}

static void response_on_packet(struct session *session, struct packet *packet,
			       enum pending_kind kind)
{
	if (packet->starved)
		session_starve(session);
	else if (!response_can_be(kind, packet))
		session_close(session, SESSION_END_DONE);
	else if (kind == PENDING_HELLO)
		response_on_hello(session, packet);
	else if (kind == PENDING_SIGN_IN)
		response_on_sign_in(session, packet);
	else if (kind == PENDING_PROOF)
		session_take_proof(session, packet);
	else if (kind == PENDING_GET_MORE)
		response_on_get_more(session, packet);
	else if (kind == PENDING_FIND)
		session_advance_find(session, packet);
	else
		session_advance(session, packet, false);
	packet_fini(packet);
}

static void response_work(struct session_work *work)
{
	work->flag = work->kind == PENDING_FIND &&
		     plain_find_passes(work->found, buffer_view(&work->bytes));
	if (!work->flag)
		packet_read_reply(&work->packet, &work->bytes);
}

static void response_then(struct session *session, struct session_work *work)
{
	if (!work->flag) {
		response_on_packet(session, &work->packet, (enum pending_kind)work->kind);
		return;
	}
	session_end_find(session);
	stream_write_owned(&session->client, &work->bytes);
	session_next_request(session);
}

/* What is long unpacked is unpacked elsewhere, and what has many documents is looked through there.
 * A sequence or a find waits for it. */
static bool response_is_long(const struct session *session, struct bytes frame,
			     enum pending_kind kind)
{
	uint8_t compressor;

	if (kind == PENDING_FIND && frame.length >= ASIDE_REPLY)
		return true;
	return (kind == PENDING_FIND || (kind == PENDING_SEQUENCE && session->sequence)) &&
	       load_int32(frame.data + 12) == OPCODE_COMPRESSED &&
	       frame.length >= COMPRESSED_HEAD &&
	       compressed_look(frame, &compressor) >= ASIDE_REQUEST;
}

static void response_take_long(struct session *session, struct buffer *frame,
			       enum pending_kind kind)
{
	static const struct session_task task = {response_work, response_then};
	struct session_work work = {.bytes = buffer_steal(frame),
				    .found = session_ruled(session)->find.namespace,
				    .kind = (int)kind};

	session_give_work(session, &task, &work);
}

static void response_take(struct session *session, struct bytes bytes,
			  const struct frame_header *header, enum pending_kind kind,
			  struct buffer *owner)
{
	struct bytes reply = {bytes.data, (size_t)header->length};
	bool is_long = response_is_long(session, reply, kind);
	struct buffer frame;
	struct packet packet;

	if (kind == PENDING_FIND && !is_long &&
	    plain_find_passes(session_ruled(session)->find.namespace, reply)) {
		session_end_find(session);
		stream_write(&session->client, reply);
		session_next_request(session);
		return;
	}
	if (!session_take_frame(bytes, reply.length, owner, &frame)) {
		session_starve(session);
		return;
	}
	if (is_long) {
		response_take_long(session, &frame, kind);
		return;
	}
	packet_read_reply(&packet, &frame);
	response_on_packet(session, &packet, kind);
}

enum response_step {
	RESPONSE_CUT,
	RESPONSE_WAIT,
	RESPONSE_TAKE,
	RESPONSE_BREAK,
};

static enum response_step response_wait(struct session *session, size_t wanted)
{
	session->response.wanted = wanted;
	return RESPONSE_WAIT;
}

static enum response_step response_look(struct session *session, struct bytes bytes,
					struct frame_header *header, enum pending_kind *kind)
{
	enum frame_state state = frame_next(bytes, header);
	struct pending_entry *entry;

	if (state == FRAME_SHORT)
		return response_wait(session, FRAME_HEADER_LENGTH);
	if (state == FRAME_INVALID)
		return RESPONSE_BREAK;
	entry = pending_match(&session->pending, header->response_to);
	*kind = entry ? (enum pending_kind)entry->kind : PENDING_FORWARD;
	if (*kind == PENDING_GET_MORE && response_passes(bytes, header, state))
		*kind = PENDING_FORWARD;
	if (*kind != PENDING_FORWARD && state != FRAME_READY)
		return response_wait(session, (size_t)header->length);
	if (entry && entry->exhaust && bytes.length < response_flags_in(header))
		return response_wait(session, response_flags_in(header));
	if (entry)
		response_settle(session, entry, bytes, header);
	if (*kind != PENDING_FORWARD)
		return RESPONSE_TAKE;
	session->response.left = (size_t)header->length;
	return RESPONSE_CUT;
}

static size_t response_cut(struct session *session, size_t there)
{
	size_t length = there < session->response.left ? there : session->response.left;

	session->response.left -= length;
	return length;
}

/* As request_consume, the other way. */
static size_t response_consume(struct session *session, struct bytes bytes, struct buffer *owner)
{
	size_t run = 0, at = 0;

	while (at < bytes.length && session->state != SESSION_CLOSING) {
		struct bytes rest = {bytes.data + at, bytes.length - at};
		enum response_step step = RESPONSE_CUT;
		struct frame_header header;
		enum pending_kind kind;

		if (session->response.left == 0)
			step = response_look(session, rest, &header, &kind);
		if (step == RESPONSE_CUT) {
			at += response_cut(session, rest.length);
			continue;
		}
		stream_write(&session->client, (struct bytes){bytes.data + run, at - run});
		if (step == RESPONSE_WAIT)
			return at;
		if (step == RESPONSE_BREAK) {
			metric_add(&session->loop->metrics->frames_invalid, 1);
			session_close(session, SESSION_END_DONE);
			return at;
		}
		response_take(session, rest, &header, kind, at == 0 ? owner : NULL);
		at += (size_t)header.length;
		run = at;
	}
	if (session->state != SESSION_CLOSING)
		stream_write(&session->client, (struct bytes){bytes.data + run, at - run});
	return at;
}

/* The rest of the reply is thrown away as it comes. */
static void response_give_up(struct session *session)
{
	struct buffer *held = &session->response.held;
	struct pending_entry *entry;
	struct frame_header header;

	if (frame_next(buffer_view(held), &header) != FRAME_PARTIAL)
		return;
	entry = pending_match(&session->pending, header.response_to);
	if (!entry || entry->kind != PENDING_SEQUENCE)
		return;
	pending_pop(&session->pending);
	session->response.left = (size_t)header.length - held->length;
	session->response.shed = true;
	session->response.wanted = 0;
	buffer_fini(held);
	session_give_up(session);
}

/* A reply counts from when it comes: where many do at once, all but the oldest read may have to
 * give up before they have it. `more` bytes have come just now. */
static void response_on_part(struct session *session, size_t more)
{
	size_t length = session->response.held.length;

	if (length / PART == (length - more) / PART)
		return;
	session_account(session);
	if (session->sequence && session->sequence->reply.gives_up &&
	    session_memory_short(session, 0) && claims_give_up_early(session->memory.claim))
		response_give_up(session);
}

/* There is no memory for the rest of the reply. */
static void response_starve(struct session *session, struct bytes bytes)
{
	if (session->sequence && session->sequence->reply.gives_up)
		response_give_up(session);
	if (session->state == SESSION_CLOSING)
		return;
	if (session->response.shed)
		response_on_bytes(session, bytes);
	else
		session_starve(session);
}

static struct bytes response_throw_away(struct session *session, struct bytes bytes)
{
	size_t gone = response_cut(session, bytes.length);

	session->response.shed = session->response.left > 0;
	return (struct bytes){bytes.data + gone, bytes.length - gone};
}

void response_on_bytes(struct session *session, struct bytes bytes)
{
	auto_buffer struct buffer held = {0};
	bool kept;
	size_t used;

	if (session->response.shed)
		bytes = response_throw_away(session, bytes);
	if (session->response.held.length > 0 || bytes.data == session->response.held.data) {
		if (!session_hold(&session->response.held, bytes)) {
			response_starve(session, bytes);
			return;
		}
		if (session->response.held.length < session->response.wanted) {
			response_on_part(session, bytes.length);
			return;
		}
		held = buffer_steal(&session->response.held);
		bytes = buffer_view(&held);
	}
	kept = held.length > 0;
	used = response_consume(session, bytes, &held);
	if (session->rights.secret && (!kept || held.data))
		bytes_wipe((struct bytes){bytes.data, used});
	if (session->state == SESSION_CLOSING)
		return;
	if (used == 0 && held.length > 0)
		session->response.held = buffer_steal(&held);
	else if (used < bytes.length)
		session_keep(session, &session->response.held,
			     (struct bytes){bytes.data + used, bytes.length - used},
			     session->response.wanted);
	if (session->state != SESSION_CLOSING && session->waiting && session->pending.count == 0 &&
	    session->response.left == 0) {
		session->waiting = false;
		session_advance(session, NULL, false);
	}
	if (session->state == SESSION_CLOSING)
		return;
	if (session->request.held.length > 0) {
		request_continue(session);
		session_pass_ends(session); /* what waited was the client's last */
	}
	session_update_reading(session);
}
