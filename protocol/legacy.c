/* OP_QUERY and OP_REPLY, as far as they still live. */
#include "protocol/legacy.h"

#include "protocol/cursor.h"
#include "protocol/writer.h"

#define COMMAND_SUFFIX ".$cmd"
#define REPLY_START (FRAME_HEADER_LENGTH + 20) /* flags, cursor, starting from, returned */

/* What these opcodes have in front: four bytes (flags, or nothing) and a namespace. */
static bool read_namespace(struct bytes frame, struct frame_header *header, struct bytes *namespace,
			   struct bytes *rest)
{
	const uint8_t *start, *nul;
	size_t length;

	if (frame_next(frame, header) != FRAME_READY || header->length < FRAME_HEADER_LENGTH + 5)
		return false;
	start = frame.data + FRAME_HEADER_LENGTH + 4;
	length = (size_t)header->length - FRAME_HEADER_LENGTH - 4;
	nul = memchr(start, 0, length);
	if (!nul)
		return false;
	*namespace = (struct bytes){start, (size_t)(nul - start)};
	*rest = (struct bytes){nul + 1, length - namespace->length - 1};
	return true;
}

static bool ends_in(struct bytes bytes, const char *suffix)
{
	size_t length = strlen(suffix);

	return bytes.length >= length &&
	       memcmp(bytes.data + bytes.length - length, suffix, length) == 0;
}

/* The first field, where it is a wrapper; mongod takes both spellings. */
static bool find_wrapper(struct bytes query, struct element *wrapper)
{
	struct cursor cursor;

	if (!cursor_open(&cursor, query) || cursor_next(&cursor, wrapper) != CURSOR_ELEMENT)
		return false;
	return element_is(wrapper, "$query") || element_is(wrapper, "query");
}

static struct bytes unwrap(struct bytes query)
{
	struct element wrapper;
	struct bytes command;

	if (find_wrapper(query, &wrapper) && element_document(&wrapper, &command))
		return command;
	return query;
}

must_check bool legacy_query_parse(struct bytes frame, struct legacy_query *query)
{
	struct legacy_query parsed;
	struct bytes rest;
	size_t length;

	if (!read_namespace(frame, &parsed.header, &parsed.namespace, &rest))
		return false;
	if (parsed.header.opcode != OPCODE_QUERY || rest.length < 8)
		return false;
	parsed.flags = load_int32(frame.data + FRAME_HEADER_LENGTH);
	parsed.skip = load_int32(rest.data);
	parsed.limit = load_int32(rest.data + 4);
	rest = (struct bytes){rest.data + 8, rest.length - 8};
	length = document_length(rest);
	if (length == 0)
		return false;
	parsed.query = (struct bytes){rest.data, length};
	parsed.command = unwrap(parsed.query);
	parsed.is_command = ends_in(parsed.namespace, COMMAND_SUFFIX);
	*query = parsed;
	return true;
}

must_check bool legacy_reply_parse(struct bytes frame, struct legacy_reply *reply)
{
	struct legacy_reply parsed = {0};
	struct bytes rest;
	const uint8_t *fields;

	if (frame_next(frame, &parsed.header) != FRAME_READY)
		return false;
	if (parsed.header.opcode != OPCODE_REPLY || parsed.header.length < REPLY_START)
		return false;
	fields = frame.data + FRAME_HEADER_LENGTH;
	parsed.flags = load_int32(fields);
	parsed.cursor_id = load_int64(fields + 4);
	parsed.starting_from = load_int32(fields + 12);
	parsed.returned = load_int32(fields + 16);
	rest = (struct bytes){fields + 20, (size_t)parsed.header.length - REPLY_START};
	if (rest.length > 0) {
		parsed.document = (struct bytes){rest.data, document_length(rest)};
		if (parsed.document.length == 0)
			return false;
	}
	*reply = parsed;
	return true;
}

static void append_query(struct bytes query, struct bytes command, struct buffer *out)
{
	size_t start = out->length;
	struct element wrapper;
	struct bytes head;
	size_t tail;

	(void)writer_open(out);
	require(find_wrapper(query, &wrapper));
	head = element_head(&wrapper);
	tail = 4 + head.length + wrapper.value.length;
	buffer_append(out, head.data, head.length);
	buffer_append(out, command.data, command.length);
	buffer_append(out, query.data + tail, query.length - tail);
	store_int32(out->data + start, (int32_t)(out->length - start));
}

void legacy_query_replace(struct bytes frame, const struct legacy_query *query,
			  struct bytes command, struct buffer *out)
{
	size_t start = out->length;
	size_t head = (size_t)(query->query.data - frame.data);
	size_t tail = head + query->query.length;
	bool wrapped = query->command.data != query->query.data;

	buffer_append(out, frame.data, head);
	if (wrapped)
		append_query(query->query, command, out);
	else
		buffer_append(out, command.data, command.length);
	buffer_append(out, frame.data + tail, (size_t)query->header.length - tail);
	require(out->length - start <= INT32_MAX);
	store_int32(out->data + start, (int32_t)(out->length - start));
}

void legacy_reply_append(struct buffer *out, int32_t response_to, int32_t flags,
			 struct bytes document)
{
	struct frame_header header = {0, 0, response_to, OPCODE_REPLY};
	uint8_t bytes[REPLY_START] = {0};

	require(document.length <= INT32_MAX - REPLY_START);
	header.length = (int32_t)(REPLY_START + document.length);
	frame_store_header(bytes, &header);
	store_int32(bytes + FRAME_HEADER_LENGTH, flags);
	store_int32(bytes + REPLY_START - 4, 1);
	buffer_append(out, bytes, sizeof(bytes));
	buffer_append(out, document.data, document.length);
}

static bool names_namespace(int32_t opcode)
{
	return opcode == OPCODE_INSERT || opcode == OPCODE_UPDATE || opcode == OPCODE_DELETE ||
	       opcode == OPCODE_GET_MORE;
}

must_check bool legacy_write_namespace(struct bytes frame, struct bytes *namespace)
{
	struct frame_header header;
	struct bytes found, rest;

	if (!read_namespace(frame, &header, &found, &rest) || !names_namespace(header.opcode))
		return false;
	*namespace = found;
	return true;
}
