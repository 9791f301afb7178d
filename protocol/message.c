/* OP_MSG: its sections read from a whole frame, its prefix, and written. */
#include "protocol/message.h"

#include "protocol/cursor.h"

#define BODY_START (FRAME_HEADER_LENGTH + 4)
#define REQUIRED_FLAGS 0xffffu
#define KNOWN_FLAGS (MESSAGE_CHECKSUM_PRESENT | MESSAGE_MORE_TO_COME)
#define CHECKSUM_LENGTH 4

enum section_kind {
	SECTION_BODY = 0,
	SECTION_SEQUENCE = 1,
};

static bool count_documents(struct bytes documents, size_t *count)
{
	struct bytes document;
	size_t number = 0;

	while (message_next_document(&documents, &document))
		number++;
	if (documents.length > 0)
		return false;
	*count = number;
	return true;
}

static bool sequence_known(const struct message *message, struct bytes identifier)
{
	for (size_t i = 0; i < message->sequence_count; i++)
		if (bytes_equal(message->sequences[i].identifier, identifier))
			return true;
	return false;
}

/* Reads one section of kind 1 and returns its length, 0 where it is broken. */
static size_t read_sequence(struct bytes rest, struct message *message)
{
	struct document_sequence *sequence = &message->sequences[message->sequence_count];
	const uint8_t *nul;
	struct bytes identifier;
	int32_t length;

	if (rest.length < 5 || message->sequence_count == MESSAGE_MAX_SEQUENCES)
		return 0;
	length = load_int32(rest.data);
	if (length < 5 || (size_t)length > rest.length)
		return 0;
	nul = memchr(rest.data + 4, 0, (size_t)length - 4);
	if (!nul)
		return 0;
	identifier = (struct bytes){rest.data + 4, (size_t)(nul - rest.data - 4)};
	if (sequence_known(message, identifier))
		return 0;
	sequence->identifier = identifier;
	sequence->documents = (struct bytes){nul + 1, (size_t)(rest.data + length - nul - 1)};
	if (!count_documents(sequence->documents, &sequence->count))
		return 0;
	message->sequence_count++;
	return (size_t)length;
}

static size_t read_body(struct bytes rest, struct message *message)
{
	size_t length = document_length(rest);

	if (length == 0 || message->body.data || rest.data[length - 1] != 0)
		return 0;
	message->body = (struct bytes){rest.data, length};
	return length;
}

/* mongod takes a sequence for a field of the body, and no field twice. */
static bool field_and_sequence(const struct message *message)
{
	for (size_t i = 0; i < message->sequence_count; i++) {
		const char *name = (const char *)message->sequences[i].identifier.data;
		struct element element;

		if (document_find(message->body, name, &element))
			return true;
	}
	return false;
}

static bool read_sections(struct bytes rest, struct message *message)
{
	while (rest.length > 0) {
		uint8_t kind = rest.data[0];
		size_t length = 0;

		rest = (struct bytes){rest.data + 1, rest.length - 1};
		if (kind == SECTION_BODY)
			length = read_body(rest, message);
		else if (kind == SECTION_SEQUENCE)
			length = read_sequence(rest, message);
		if (length == 0)
			return false;
		rest = (struct bytes){rest.data + length, rest.length - length};
	}
	return message->body.data && !field_and_sequence(message);
}

must_check bool message_flags_unknown(uint32_t flags)
{
	return flags & REQUIRED_FLAGS & ~(uint32_t)KNOWN_FLAGS;
}

must_check bool message_parse(struct bytes frame, struct message *message)
{
	struct message parsed = {0};
	struct bytes rest;

	if (frame_next(frame, &parsed.header) != FRAME_READY)
		return false;
	if (parsed.header.opcode != OPCODE_MESSAGE || parsed.header.length < BODY_START)
		return false;
	parsed.flags = (uint32_t)load_int32(frame.data + FRAME_HEADER_LENGTH);
	if (message_flags_unknown(parsed.flags))
		return false;
	rest = (struct bytes){frame.data + BODY_START, (size_t)parsed.header.length - BODY_START};
	if (parsed.flags & MESSAGE_CHECKSUM_PRESENT) {
		if (rest.length < CHECKSUM_LENGTH)
			return false;
		rest.length -= CHECKSUM_LENGTH;
	}
	if (!read_sections(rest, &parsed))
		return false;
	*message = parsed;
	return true;
}

must_check bool message_lone_body(struct bytes frame, struct bytes *body)
{
	if (frame.length <= BODY_START || load_int32(frame.data + 12) != OPCODE_MESSAGE ||
	    load_int32(frame.data + FRAME_HEADER_LENGTH) != 0 ||
	    frame.data[BODY_START] != SECTION_BODY)
		return false;
	*body = (struct bytes){frame.data + BODY_START + 1, frame.length - BODY_START - 1};
	return true;
}

must_check bool message_next_document(struct bytes *documents, struct bytes *document)
{
	size_t length = document_length(*documents);

	if (length == 0)
		return false;
	*document = (struct bytes){documents->data, length};
	*documents = (struct bytes){documents->data + length, documents->length - length};
	return true;
}

/* The value of the command, as far as it is a name. */
static enum prefix_state collection_prefix(struct bytes value, struct bytes *collection)
{
	size_t length;

	if (value.length < 4)
		return PREFIX_PARTIAL;
	length = (size_t)load_int32(value.data);
	if (length == 0)
		return PREFIX_INVALID;
	if (length > MESSAGE_LONGEST_NAME + 1)
		return PREFIX_KNOWN;
	if (value.length < 4 + length)
		return PREFIX_PARTIAL;
	if (value.data[4 + length - 1] != 0)
		return PREFIX_INVALID;
	*collection = (struct bytes){value.data + 4, length - 1};
	return PREFIX_KNOWN;
}

static enum prefix_state body_prefix(struct bytes body, struct message_prefix *prefix)
{
	const uint8_t *name = body.data + 5;
	const uint8_t *nul;
	size_t there;

	if (body.length < 6)
		return PREFIX_PARTIAL;
	if (load_int32(body.data) < 5 || body.data[4] == 0)
		return PREFIX_INVALID;
	there = body.length - 5;
	there = there < MESSAGE_LONGEST_NAME + 1 ? there : MESSAGE_LONGEST_NAME + 1;
	nul = memchr(name, 0, there);
	if (!nul && there <= MESSAGE_LONGEST_NAME)
		return PREFIX_PARTIAL;
	if (!nul)
		return PREFIX_KNOWN;
	prefix->name = (struct bytes){name, (size_t)(nul - name)};
	prefix->type = body.data[4];
	if (prefix->type != BSON_BYTE_STRING)
		return PREFIX_KNOWN;
	there = body.length - (size_t)(nul + 1 - body.data);
	return collection_prefix((struct bytes){nul + 1, there}, &prefix->collection);
}

static enum prefix_state section_prefix(struct bytes frame, struct message_prefix *prefix)
{
	if (frame.length < BODY_START + 1)
		return PREFIX_PARTIAL;
	prefix->flags = (uint32_t)load_int32(frame.data + FRAME_HEADER_LENGTH);
	if (message_flags_unknown(prefix->flags))
		return PREFIX_LATE;
	switch (frame.data[BODY_START]) {
	case SECTION_BODY:
		frame = (struct bytes){frame.data + BODY_START + 1, frame.length - BODY_START - 1};
		return body_prefix(frame, prefix);
	default: /* a document sequence, or what nobody knows */
		return PREFIX_LATE;
	}
}

must_check enum prefix_state message_prefix(struct bytes bytes, struct message_prefix *prefix)
{
	struct message_prefix found = {0};
	struct frame_header header;
	enum frame_state frame = frame_next(bytes, &header);
	enum prefix_state state;

	if (frame == FRAME_SHORT)
		return PREFIX_PARTIAL;
	if (frame == FRAME_INVALID)
		return PREFIX_INVALID;
	if (frame == FRAME_READY)
		bytes.length = (size_t)header.length;
	state = section_prefix(bytes, &found);
	if (state == PREFIX_KNOWN)
		*prefix = found;
	return state == PREFIX_PARTIAL && frame == FRAME_READY ? PREFIX_INVALID : state;
}

size_t message_begin(struct buffer *buffer, int32_t request_id, int32_t response_to, uint32_t flags)
{
	struct frame_header header = {0, request_id, response_to, OPCODE_MESSAGE};
	size_t start = buffer->length;
	uint8_t bytes[FRAME_HEADER_LENGTH];

	frame_store_header(bytes, &header);
	buffer_append(buffer, bytes, sizeof(bytes));
	buffer_append(buffer, &flags, sizeof(flags));
	return start;
}

void message_begin_body(struct buffer *buffer)
{
	buffer_append(buffer, &(uint8_t){SECTION_BODY}, 1);
}

size_t message_begin_sequence(struct buffer *buffer, struct bytes identifier)
{
	size_t start;

	buffer_append(buffer, &(uint8_t){SECTION_SEQUENCE}, 1);
	start = buffer->length;
	buffer_append(buffer, &(int32_t){0}, 4);
	buffer_append(buffer, identifier.data, identifier.length);
	buffer_append(buffer, "", 1);
	return start;
}

void message_end_sequence(struct buffer *buffer, size_t start)
{
	store_int32(buffer->data + start, (int32_t)(buffer->length - start));
}

void message_end(struct buffer *buffer, size_t start)
{
	require(buffer->length - start <= INT32_MAX);
	store_int32(buffer->data + start, (int32_t)(buffer->length - start));
}
