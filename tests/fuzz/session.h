/*
 * What fuzz_session knows of its session, and what must hold of whatever it sends.
 */
#ifndef TESTS_FUZZ_SESSION_H
#define TESTS_FUZZ_SESSION_H

#include "tests/fuzz/rewrite.h"

#include "protocol/legacy.h"
#include "proxy/client/pending.h"

#define OWED_MOST 64

enum option {
	OPTION_MOVED = 1 << 0,    /* the mover succeeds */
	OPTION_UNPROVEN = 1 << 1, /* nobody knows whether the overflow may be read */
	OPTION_TLS = 1 << 2,      /* on the way to the server */
};

struct side {
	struct buffer held;
	size_t left; /* of the current frame, to be cut through */
};

/* The ids of the client's requests that it waits for a reply to. */
struct owed {
	int32_t ids[OWED_MOST];
	size_t count;
	bool unknown; /* the server did what no server does, or too much is owed */
};

struct session {
	struct side client, server;
	struct pending pending;
	struct sequence *sequence; /* NULL: none runs */
	struct buffer find;        /* a find that went out as it came; empty: none */
	const struct ruled_namespace *found;
	struct owed owed;
	uint8_t options, compressors;
	size_t unpacked; /* claimed bytes of all that came packed */
	int steps;
	int32_t next_request_id;
	bool begun, waiting, closed;
};

static inline void owe(struct session *session, int32_t request_id)
{
	struct owed *owed = &session->owed;

	if (owed->count == OWED_MOST)
		owed->unknown = true;
	else
		owed->ids[owed->count++] = request_id;
}

static inline void check_answer(struct session *session, const struct frame_header *header,
				bool more)
{
	struct owed *owed = &session->owed;

	if (owed->unknown)
		return;
	require(owed->count > 0);
	require(owed->ids[0] == header->response_to);
	if (more)
		owed->ids[0] = header->request_id;
	else
		memmove(owed->ids, owed->ids + 1, --owed->count * sizeof(owed->ids[0]));
}

/* The message says that another one follows unasked. */
static inline bool announces_more(struct bytes frame, const struct frame_header *header)
{
	uint32_t flags;

	if (header->opcode == OPCODE_COMPRESSED)
		return compressed_flags(frame, &flags) && (flags & MESSAGE_MORE_TO_COME);
	return header->opcode == OPCODE_MESSAGE && frame.length >= FRAME_HEADER_LENGTH + 4 &&
	       (load_int32(frame.data + FRAME_HEADER_LENGTH) & MESSAGE_MORE_TO_COME);
}

static inline struct frame_header check_whole(struct bytes frame)
{
	struct frame_header header = {0};

	require(frame.length <= FRAME_MAX_LENGTH);
	require(frame_next(frame, &header) == FRAME_READY);
	require((size_t)header.length == frame.length);
	return header;
}

/* A message of Spillway's own. */
static inline struct message check_message(struct bytes frame)
{
	struct message message;
	struct cursor cursor;
	struct element element;
	enum cursor_step step;

	(void)check_whole(frame);
	require(message_parse(frame, &message));
	require(cursor_open(&cursor, message.body));
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT)
		;
	require(step == CURSOR_END);
	return message;
}

/* What Spillway answers by itself: in the form of the request. */
static inline void check_own_answer(struct bytes frame, const struct packet *request)
{
	struct legacy_reply reply;

	if (request->header.opcode == OPCODE_QUERY || request->header.opcode == OPCODE_GET_MORE)
		require(legacy_reply_parse(frame, &reply));
	else
		(void)check_message(frame);
}

static inline void check_packed(struct bytes frame, struct bytes packed)
{
	auto_buffer struct buffer out = {0};
	enum compressor compressor;

	if (load_int32(packed.data + 12) != OPCODE_COMPRESSED)
		return;
	require(compressed_unpack(packed, &out, &compressor));
	require(bytes_equal(buffer_view(&out), frame));
}

/* What a sequence sends, and whether a reply to it comes. */
static inline void check_sent(const struct sequence *sequence, bool answered)
{
	bool own = sequence->output.data != sequence->request.raw.data;
	uint32_t flags = sequence->request.message.flags;
	struct command command;
	struct message message;

	rewrite_check_output(sequence);
	require(sequence->output.length > FRAME_HEADER_LENGTH);
	require(sequence_memory(sequence) <= (size_t)4 * FRAME_MAX_LENGTH);
	if (own) {
		message = check_message(sequence->output);
		require(command_parse(message.body, &command));
		/* mongod says what it thinks of a client's command without one. */
		require(command.database.length > 0 ||
			sequence->match.command.database.length == 0);
		flags = message.flags;
	}
	require(answered == !(flags & MESSAGE_MORE_TO_COME));
}

/* A reply belongs to a sequence only while one runs. */
static inline void check_pending(const struct session *session)
{
	const struct pending *pending = &session->pending;
	uint32_t capacity = pending->capacity ? pending->capacity : PENDING_INLINE, awaited = 0;

	for (uint32_t i = 0; i < pending->count; i++) {
		const struct pending_entry *entries =
			pending->entries ? pending->entries : pending->inline_entries;

		awaited += entries[(pending->first + i) % capacity].kind == PENDING_SEQUENCE;
	}
	require(session->closed || awaited <= (session->sequence ? 1 : 0));
	if (!session->closed && !session->owed.unknown && pending->count == 0 && !session->sequence)
		require(session->owed.count == 0);
}

#endif
