/*
 * Any bytes of a client and of a server, in turn, as one session takes them: proxy/client without
 * its sockets, its memory limits and its questions about rights. After a byte of options come
 * records: a byte of flags, a length of two bytes, and so many bytes of one side.
 *
 * What goes out is a whole message of its kind. Where the server answers each request once and in
 * turn, so does the session: by the client's own ids.
 */
#include "tests/fuzz/session.h"

#include "protocol/hello.h"
#include "protocol/stranger.h"
#include "rules/read/plain_find.h"
#include "rules/reassembly/raised.h"

#define MOST_SESSION_STEPS 300
/* What rewrite.h has a step's time for. A step may work on all that has come. */
#define MOST_UNPACKED 65536
#define MOST_UNPACKED_IN_ALL (4 * MOST_UNPACKED)
#define LONGEST_ERROR 4096 /* as session_response.c */
#define LONGEST_FIND 4096  /* as session_request.c */

enum record {
	RECORD_SERVER = 1 << 0,
	RECORD_ANSWERS = 1 << 1, /* what is owed first, whatever the bytes say */
};

/* shop.books is what tests/fuzz/record has drivers work on. */
static const char session_rules[] =
	"listen: [{ address: '127.0.0.1:1', server: '127.0.0.1:2' }]\nrules:\n" RULE(
		"books", "shop.books", "buyers", "", "link: book")
		RULE("first", "shop.pairs", "f", "", "collection: one, link: of")
			RULE("second", "shop.pairs", "a.g", "", "collection: two, link: of")
				RULE("shown", "shop.shown", "f",
				     "    flag: { field: long, value: true }\n    expose: [flag]\n",
				     "collection: three, link: of");

static bool unpacks_too_much(struct session *session, size_t claim)
{
	session->unpacked += claim;
	return claim > MOST_UNPACKED || session->unpacked > MOST_UNPACKED_IN_ALL;
}

static void session_end_sequence(struct session *session)
{
	sequence_free(session->sequence);
	session->sequence = NULL;
}

static void session_close(struct session *session)
{
	if (session->sequence) {
		sequence_cut(session->sequence, rewrite_ignore, NULL);
		session_end_sequence(session);
	}
	session->closed = true;
}

/* ---- sequences ---- */

static void take_packet(struct session *session, struct packet *packet, bool again);

/* `streams`: a part of a stream, which is marked as one. What a server marks unasked is its fault,
 * and passes. */
static void deliver(struct session *session, const struct packet *request, bool streams)
{
	const struct sequence *sequence = session->sequence;
	bool own = sequence->output.data == sequence->buffer.data;
	auto_buffer struct buffer packed = {0};
	struct frame_header header;

	require((sequence->output.length > 0) == sequence->match.facts.answered);
	if (sequence->output.length == 0)
		return;
	rewrite_check_output(sequence);
	header = check_whole(sequence->output);
	if (own)
		check_own_answer(sequence->output, request);
	if (own || streams)
		require(announces_more(sequence->output, &header) == streams);
	if (own && packet_compressed(request)) {
		compressed_pack(sequence->output, request->compressor, &packed);
		(void)check_whole(buffer_view(&packed));
		check_packed(sequence->output, buffer_view(&packed));
	}
	check_answer(session, &header, streams);
}

static void finish(struct session *session)
{
	struct sequence *sequence = session->sequence;
	struct packet next = {0};
	bool streams = sequence_streams(sequence, &next);

	deliver(session, streams ? &next : &sequence->request, streams);
	sequence_notes(sequence, rewrite_ignore, NULL);
	session->next_request_id = sequence->next_request_id;
	session_end_sequence(session);
	if (streams)
		take_packet(session, &next, true);
}

static void match_again(struct session *session)
{
	struct packet request = packet_steal(&session->sequence->request);

	session->next_request_id = session->sequence->next_request_id;
	session_end_sequence(session);
	take_packet(session, &request, true);
}

static void send_step(struct session *session, bool answered)
{
	struct sequence *sequence = session->sequence;

	check_sent(sequence, answered);
	if (answered) {
		pending_push(
			&session->pending,
			(struct pending_entry){.request_id = load_int32(sequence->output.data + 4),
					       .kind = PENDING_SEQUENCE});
		return;
	}
	sequence_notes(sequence, rewrite_ignore, NULL);
	session->next_request_id = sequence->next_request_id;
	session_end_sequence(session);
}

static void advance(struct session *session, struct packet *reply)
{
	struct sequence *sequence = session->sequence;
	enum sequence_outcome outcome;
	bool moved = false;

	if (sequence->next_request_id == 0) {
		sequence->next_request_id = session->next_request_id;
		sequence->permission.unproven = session->options & OPTION_UNPROVEN;
	}
	do {
		if (session->steps++ >= MOST_SESSION_STEPS) {
			session_close(session);
			return;
		}
		outcome = rewrite_step(sequence, reply, moved, session->steps);
		reply = NULL;
		moved = session->options & OPTION_MOVED;
	} while (outcome == SEQUENCE_MOVE || outcome == SEQUENCE_TEND || outcome == SEQUENCE_PAUSE);
	if (outcome == SEQUENCE_AGAIN)
		match_again(session);
	else if (outcome == SEQUENCE_DONE)
		finish(session);
	else
		send_step(session, outcome == SEQUENCE_SEND);
}

/* The reply to a find that went out as it came. */
static void advance_find(struct session *session, struct packet *reply)
{
	struct sequence_input input = {.now = 1};
	struct packet request;

	packet_read(&request, &session->find);
	session->sequence = sequence_new_plain_find(&request, session->found);
	session->sequence->next_request_id = session->next_request_id;
	session->sequence->touched = true;
	namespace_release(session->found);
	session->found = NULL;
	require(sequence_resume(session->sequence, &input) == SEQUENCE_SEND);
	require(session->sequence->output.data == session->sequence->request.raw.data);
	advance(session, reply);
}

/* ---- the client's bytes ---- */

static void owe_reply(struct session *session, int32_t request_id, enum pending_kind kind,
		      const struct match_facts *facts)
{
	if (facts->answered)
		pending_push(&session->pending, (struct pending_entry){.request_id = request_id,
								       .kind = (uint8_t)kind,
								       .exhaust = facts->exhaust});
}

static enum pending_kind kind_of(const struct match_facts *facts)
{
	if (facts->reads_on)
		return PENDING_GET_MORE;
	return facts->signs_in ? PENDING_SIGN_IN : PENDING_FORWARD;
}

static void forward_hello(const struct session *session, const struct packet *packet)
{
	bool certified = !(session->options & OPTION_TLS);
	auto_buffer struct buffer body = {0}, frame = {0};
	struct legacy_query query, edited;
	struct command before, after;

	if (packet->kind == PACKET_MESSAGE) {
		if (packet->message.sequence_count == 0 &&
		    hello_edit_request(packet->message.body, certified, &body)) {
			require(command_parse(packet->message.body, &before));
			require(command_parse(buffer_view(&body), &after));
			require(bytes_equal(before.first.name, after.first.name));
			require(body.length < packet->message.body.length);
		}
	} else if (legacy_query_parse(packet_frame(packet), &query) &&
		   hello_edit_request(query.command, certified, &body)) {
		legacy_query_replace(packet_frame(packet), &query, buffer_view(&body), &frame);
		(void)check_whole(buffer_view(&frame));
		require(legacy_query_parse(buffer_view(&frame), &edited));
		require(bytes_equal(edited.command, buffer_view(&body)));
	}
}

static void follow_match(struct session *session, struct packet *packet, const struct match *match)
{
	int32_t id = packet->header.request_id;

	switch (match->verdict) {
	case VERDICT_FORWARD:
		owe_reply(session, id, kind_of(&match->facts), &match->facts);
		break;
	case VERDICT_HELLO:
		owe_reply(session, id, PENDING_HELLO, &match->facts);
		forward_hello(session, packet);
		break;
	case VERDICT_CLOSE:
		session_close(session);
		break;
	default:
		session->sequence = sequence_new(packet, match);
		break;
	}
}

/* `again`: its indexes have been asked for, or it is the next request of a stream. */
static void take_packet(struct session *session, struct packet *packet, bool again)
{
	struct match match;

	match_packet(rewrite_cache_of(session_rules), packet, &match);
	if (!again && match.facts.answered && match.verdict != VERDICT_CLOSE)
		owe(session, packet->header.request_id);
	if (!again && match.asks_indexes && match.verdict != VERDICT_REFUSE &&
	    match.verdict != VERDICT_CLOSE)
		session->sequence = sequence_new_ask(packet, &match);
	else
		follow_match(session, packet, &match);
	packet_fini(packet);
	session->waiting =
		session->sequence && (session->pending.count > 0 || session->server.left > 0);
	if (session->sequence && !session->waiting)
		advance(session, NULL);
}

static bool send_find(struct session *session, struct bytes frame)
{
	int32_t id = load_int32(frame.data + 4);

	if (frame.length > LONGEST_FIND || session->pending.count > 0 ||
	    !plain_find(rewrite_cache_of(session_rules), frame, &session->found))
		return false;
	namespace_hold(session->found);
	buffer_append(&session->find, frame.data, frame.length);
	owe(session, id);
	pending_push(&session->pending,
		     (struct pending_entry){.request_id = id, .kind = PENDING_FIND});
	return true;
}

/* False where more bytes or replies have to come first. */
static bool take_whole(struct session *session, struct bytes bytes,
		       const struct frame_header *header)
{
	size_t length = (size_t)header->length, unpacked = 0;
	auto_buffer struct buffer frame = {0};
	struct packet packet;
	uint8_t compressor;

	if (header->opcode == OPCODE_COMPRESSED && length >= COMPRESSED_HEAD) {
		if (bytes.length < COMPRESSED_HEAD)
			return false;
		unpacked = compressed_look(bytes, &compressor);
		if (compressor > COMPRESSOR_ZSTD ||
		    !(session->compressors & COMPRESSOR_BIT(compressor))) {
			session_close(session);
			return false;
		}
	}
	if (bytes.length < length)
		return false;
	if (unpacks_too_much(session, unpacked)) {
		session_close(session);
		return false;
	}
	namespace_cache_trim(rewrite_cache_of(session_rules));
	if (!send_find(session, (struct bytes){bytes.data, length})) {
		buffer_append(&frame, bytes.data, length);
		buffer_consume(&session->client.held, length);
		packet_read(&packet, &frame);
		take_packet(session, &packet, false);
	} else {
		buffer_consume(&session->client.held, length);
	}
	return true;
}

/* False where nothing can be done with what is there. */
static bool client_step(struct session *session)
{
	struct bytes bytes = buffer_view(&session->client.held);
	struct frame_header header;
	struct match_facts facts;
	enum frame_state state = frame_next(bytes, &header);

	if (state == FRAME_SHORT)
		return false;
	if (state == FRAME_INVALID || !stranger_knows_opcode(header.opcode) ||
	    (!session->begun && !stranger_may_begin(&header))) {
		require(stranger_of(bytes) < STRANGER_COUNT);
		session_close(session);
		return false;
	}
	session->begun = true;
	switch (match_prefix(namespace_cache_rules(rewrite_cache_of(session_rules)), bytes,
			     &facts)) {
	case MATCH_FORWARD:
		session->client.left = (size_t)header.length;
		owe_reply(session, header.request_id, kind_of(&facts), &facts);
		if (facts.answered)
			owe(session, header.request_id);
		return true;
	case MATCH_MORE:
		require(state == FRAME_PARTIAL);
		return false;
	case MATCH_WHOLE:
		return take_whole(session, bytes, &header);
	}
	require(!"unreachable");
}

static void cut(struct side *side)
{
	size_t gone = least(side->left, side->held.length);

	side->left -= gone;
	buffer_consume(&side->held, gone);
}

static void client_bytes(struct session *session)
{
	while (!session->closed && !session->sequence && session->find.length == 0 &&
	       session->client.held.length > 0) {
		if (session->client.left > 0)
			cut(&session->client);
		else if (!client_step(session))
			return;
	}
}

/* ---- the server's bytes ---- */

static bool find_listener(const void *context, struct bytes member, struct bytes *advertised)
{
	(void)context;
	*advertised = bytes_of("127.0.0.1:1");
	return member.length % 2;
}

static void answer_hello(struct session *session, const struct packet *packet)
{
	struct hello_map map = {find_listener, NULL};
	auto_buffer struct buffer body = {0}, frame = {0};
	struct legacy_reply reply, edited;
	struct bytes document = {0};
	struct command command;

	if (packet->kind == PACKET_MESSAGE)
		document = packet->message.body;
	else if (legacy_reply_parse(packet_frame(packet), &reply))
		document = reply.document;
	session->compressors |= hello_compressors(document);
	(void)hello_signed_in(document);
	if (!hello_edit_reply(document, &map, &body))
		return;
	require(command_parse(buffer_view(&body), &command));
	if (packet->kind == PACKET_MESSAGE)
		return;
	legacy_reply_append(&frame, reply.header.response_to, reply.flags, buffer_view(&body));
	(void)check_whole(buffer_view(&frame));
	require(legacy_reply_parse(buffer_view(&frame), &edited));
	require(bytes_equal(edited.document, buffer_view(&body)));
}

static void answer_get_more(const struct packet *packet)
{
	char message[RAISED_MESSAGE];
	auto_buffer struct buffer body = {0};
	enum error_code code;
	const char *failure = raised_failure(&packet->summary, message, &code);
	struct command command;

	if (!failure)
		return;
	reply_error_body(&body, code, failure, NULL);
	require(command_parse(buffer_view(&body), &command));
}

static bool get_more_passes(struct bytes bytes, const struct frame_header *header,
			    enum frame_state state)
{
	return header->length > LONGEST_ERROR ||
	       (state == FRAME_READY && header->opcode == OPCODE_MESSAGE &&
		!memmem(bytes.data, (size_t)header->length, RAISED_MARK, strlen(RAISED_MARK)));
}

/* A find's reply goes on as it is. */
static bool find_passes(struct session *session, struct bytes frame,
			const struct frame_header *header)
{
	if (!plain_find_passes(session->found, frame))
		return false;
	check_answer(session, header, false);
	buffer_fini(&session->find);
	namespace_release(session->found);
	session->found = NULL;
	return true;
}

static void take_reply(struct session *session, struct packet *packet, enum pending_kind kind,
		       bool more)
{
	bool steps = kind == PENDING_FIND || kind == PENDING_SEQUENCE;

	if (steps ? packet->kind != PACKET_MESSAGE : packet->kind == PACKET_BROKEN) {
		session_close(session);
		return;
	}
	if (!steps)
		check_answer(session, &packet->header, more);
	if (kind == PENDING_HELLO)
		answer_hello(session, packet);
	else if (kind == PENDING_GET_MORE)
		answer_get_more(packet);
	else if (kind == PENDING_FIND)
		advance_find(session, packet);
	else if (kind == PENDING_SEQUENCE)
		advance(session, packet);
}

static void take_frame(struct session *session, const struct frame_header *header,
		       enum pending_kind kind, bool more)
{
	struct bytes frame = {session->server.held.data, (size_t)header->length};
	auto_buffer struct buffer copy = {0};
	struct packet packet;
	uint8_t compressor;

	if (header->opcode == OPCODE_COMPRESSED && frame.length >= COMPRESSED_HEAD &&
	    unpacks_too_much(session, compressed_look(frame, &compressor))) {
		session_close(session);
		return;
	}
	buffer_append(&copy, frame.data, frame.length);
	buffer_consume(&session->server.held, frame.length);
	if (kind == PENDING_FIND && find_passes(session, buffer_view(&copy), header))
		return;
	packet_read_reply(&packet, &copy);
	take_reply(session, &packet, kind, more);
	packet_fini(&packet);
}

/* The reply has been recognised. What answers none is a fault of the server's. */
static void settle(struct session *session, struct pending_entry *entry,
		   const struct frame_header *header, bool more)
{
	if (entry && entry->exhaust && more)
		entry->request_id = header->request_id;
	else if (entry)
		pending_pop(&session->pending);
}

static bool server_step(struct session *session)
{
	struct bytes bytes = buffer_view(&session->server.held);
	enum pending_kind kind = PENDING_FORWARD;
	uint32_t owed = session->pending.count;
	struct pending_entry *entry;
	struct frame_header header;
	enum frame_state state = frame_next(bytes, &header);
	size_t needed;
	bool more;

	if (state == FRAME_INVALID)
		session_close(session);
	if (state == FRAME_INVALID || state == FRAME_SHORT)
		return false;
	entry = pending_match(&session->pending, header.response_to);
	session->owed.unknown |= !entry || session->pending.count < owed;
	if (entry)
		kind = (enum pending_kind)entry->kind;
	if (kind == PENDING_GET_MORE && get_more_passes(bytes, &header, state))
		kind = PENDING_FORWARD;
	needed = header.opcode == OPCODE_COMPRESSED
			 ? (size_t)header.length
			 : least((size_t)header.length, FRAME_HEADER_LENGTH + 4);
	if ((kind != PENDING_FORWARD && state != FRAME_READY) ||
	    (entry && entry->exhaust && bytes.length < needed))
		return false;
	more = entry && entry->exhaust && announces_more(bytes, &header);
	settle(session, entry, &header, more);
	if (kind != PENDING_FORWARD) {
		take_frame(session, &header, kind, more);
		return true;
	}
	check_answer(session, &header, more);
	session->server.left = (size_t)header.length;
	return true;
}

static void server_bytes(struct session *session)
{
	while (!session->closed && session->server.held.length > 0) {
		if (session->server.left > 0)
			cut(&session->server);
		else if (!server_step(session))
			break;
	}
	if (!session->closed && session->waiting && session->pending.count == 0 &&
	    session->server.left == 0) {
		session->waiting = false;
		advance(session, NULL);
	}
}

/* ---- the records ---- */

static int32_t first_owed(const struct pending *pending)
{
	return (pending->entries ? pending->entries : pending->inline_entries)[pending->first]
		.request_id;
}

static void take_record(struct session *session, uint8_t flags, struct bytes bytes)
{
	struct side *side = flags & RECORD_SERVER ? &session->server : &session->client;
	size_t start = side->held.length;

	buffer_append(&side->held, bytes.data, bytes.length);
	if (side == &session->server && flags & RECORD_ANSWERS && start == 0 && side->left == 0 &&
	    bytes.length >= FRAME_HEADER_LENGTH && session->pending.count > 0)
		store_int32(side->held.data + 8, first_owed(&session->pending));
	if (side == &session->server)
		server_bytes(session);
	client_bytes(session);
	check_pending(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {{data, size}};
	struct session session = {.options = input_byte(&input), .next_request_id = 1};

	while (!session.closed && input.rest.length > 0) {
		uint8_t flags = input_byte(&input);
		size_t length = input_byte(&input);

		length |= (size_t)input_byte(&input) << 8;
		length = least(length, input.rest.length);
		take_record(&session, flags, (struct bytes){input.rest.data, length});
		input.rest = (struct bytes){input.rest.data + length, input.rest.length - length};
	}
	session_close(&session);
	if (session.found)
		namespace_release(session.found);
	pending_fini(&session.pending);
	buffer_fini(&session.find);
	buffer_fini(&session.client.held);
	buffer_fini(&session.server.held);
	return 0;
}
