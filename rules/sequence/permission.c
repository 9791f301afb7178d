/* Asks mongod whether a client may run its own command. */
#include "rules/sequence/permission.h"

#include "protocol/writer.h"
#include "rules/query/bulk_ops.h"
#include "rules/rule/names.h"
#include "rules/sequence/sequence_inner.h"

#include <inttypes.h>
#include <stdio.h>

#define FIELD "maxTimeMS"
/* Of statements that go beside the body: the rights that a command needs show in few of them. */
#define STATEMENTS_MOST (1 << 20)
#define WORDS_MOST (16 << 20) /* bytes; mongod's errors are no longer than its documents */

/* ---- the question ---- */

/* The client's command, with our number in place of its own maxTimeMS, or behind all fields. */
static bool write_body(const struct permission_question *question, struct bytes body,
		       struct bytes database, struct buffer *out)
{
	size_t start = writer_open(out);
	bool placed = false;
	struct cursor cursor;
	struct element field;

	if (!cursor_open(&cursor, body))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, FIELD))
			writer_element(out, &field);
		else if (!placed)
			writer_int64(out, FIELD, question->number);
		placed = placed || element_is(&field, FIELD);
	}
	if (database.length > 0)
		writer_text(out, "$db", database);
	if (!placed)
		writer_int64(out, FIELD, question->number);
	writer_close(out, start);
	return true;
}

static void write_statements(const struct document_sequence *sequence, struct buffer *out)
{
	size_t start = message_begin_sequence(out, sequence->identifier), sent = 0;
	struct bytes left = sequence->documents, document;

	while (sent < STATEMENTS_MOST && message_next_document(&left, &document)) {
		buffer_append(out, document.data, document.length);
		sent += document.length;
	}
	message_end_sequence(out, start);
}

static bool ask_message(const struct permission_question *question, const struct message *message,
			struct buffer *out)
{
	const uint32_t clear =
		MESSAGE_CHECKSUM_PRESENT | MESSAGE_MORE_TO_COME | MESSAGE_EXHAUST_ALLOWED;
	size_t frame = message_begin(out, question->request_id, 0, message->flags & ~clear);

	message_begin_body(out);
	if (!write_body(question, message->body, (struct bytes){0}, out))
		return false;
	for (size_t i = 0; i < message->sequence_count; i++)
		write_statements(&message->sequences[i], out);
	message_end(out, frame);
	return out->length - frame <= FRAME_MAX_LENGTH;
}

/* The first run on the match's namespace. */
static bool find_run(const struct bulk_write *bulk, const struct ruled_namespace *namespace,
		     struct bulk_run *run)
{
	for (*run = (struct bulk_run){0}; run->first + run->count < bulk->count;) {
		const struct bulk_namespace *at;

		*run = bulk_write_run(bulk, run->first + run->count);
		at = &bulk->namespaces[bulk->ops[run->first].namespace];
		if (namespace && bytes_are(at->database, namespace->database) &&
		    bytes_are(at->collection, namespace->collection))
			return true;
	}
	return false;
}

/* Servers before 8.0 don't know a bulkWrite: the older command of a run is asked about. */
static bool ask_bulk(const struct permission_question *question, const struct packet *request,
		     const struct match *match, struct buffer *out)
{
	auto_buffer struct buffer frame = {0};
	struct bulk_problem problem;
	struct bulk_write bulk;
	struct message message;
	struct bulk_command command = {.time_left = -1};
	bool asked;

	if (request->kind != PACKET_MESSAGE ||
	    !bulk_write_parse(&bulk, request, &match->command, &problem))
		return false;
	asked = find_run(&bulk, match->namespace, &command.run);
	if (asked) {
		bulk_write_command(&bulk, &match->command, &command, &frame);
		asked = message_parse(buffer_view(&frame), &message) &&
			ask_message(question, &message, out);
	}
	bulk_write_fini(&bulk);
	return asked;
}

/* A command in OP_QUERY; servers that take those take them in OP_MSG, too. */
static bool ask_query(const struct permission_question *question, const struct packet *request,
		      struct buffer *out)
{
	struct legacy_query query;
	struct bytes database;
	size_t frame;

	if (request->header.opcode != OPCODE_QUERY ||
	    !legacy_query_parse(packet_frame(request), &query) || !query.is_command)
		return false;
	database = (struct bytes){query.namespace.data, query.namespace.length - strlen(".$cmd")};
	frame = message_begin(out, question->request_id, 0, 0);
	message_begin_body(out);
	if (!write_body(question, query.command, database, out))
		return false;
	message_end(out, frame);
	return true;
}

/* Where the request's own form can't be asked about: may the client read the collection? */
static bool ask_find(const struct permission_question *question, struct bytes database,
		     struct bytes collection, struct buffer *out)
{
	size_t frame = message_begin(out, question->request_id, 0, 0), body;

	if (database.length == 0 || collection.length == 0)
		return false;
	message_begin_body(out);
	body = writer_open(out);
	writer_text(out, "find", collection);
	writer_text(out, "$db", database);
	writer_int64(out, FIELD, question->number);
	writer_close(out, body);
	message_end(out, frame);
	return true;
}

static bool ask_collection(const struct permission_question *question, const struct packet *request,
			   const struct match *match, struct buffer *out)
{
	struct bytes frame = packet_frame(request), full = {0}, database, collection;
	struct legacy_query query;

	if (match->namespace)
		return ask_find(question, bytes_of(match->namespace->database),
				bytes_of(match->namespace->collection), out);
	if (request->header.opcode == OPCODE_QUERY && legacy_query_parse(frame, &query))
		full = query.namespace;
	else if (!legacy_write_namespace(frame, &full))
		return ask_find(question, match->command.database, match->command.collection, out);
	return name_split(full, &database, &collection) &&
	       ask_find(question, database, collection, out);
}

must_check bool permission_ask(struct permission_question *question, const struct packet *request,
			       const struct match *match, struct buffer *out)
{
	size_t start = out->length;
	const struct command_name *command = command_named(match->command.first.name);
	bool asks = command->traits & COMMAND_ASKS_RIGHTS;

	question->own = request->kind == PACKET_MESSAGE && asks;
	if (question->own && ask_message(question, &request->message, out))
		return true;
	out->length = start;
	question->own = false;
	if (command->kind == COMMAND_BULK_WRITE && ask_bulk(question, request, match, out))
		return true;
	out->length = start;
	if (asks && ask_query(question, request, out))
		return true;
	out->length = start;
	return ask_collection(question, request, match, out);
}

/* ---- the answer ---- */

enum permission permission_told(const struct packet *reply)
{
	if (!reply->summary.readable || reply->summary.ok)
		return PERMISSION_BROKEN;
	if (reply->summary.code == ERROR_UNAUTHORIZED)
		return PERMISSION_DENIED;
	/* Whatever the words are: it has come so far. */
	return bytes_contain(reply->summary.message, FIELD) ? PERMISSION_GIVEN : PERMISSION_OPEN;
}

/* As mongod shows the value in an error; false where we don't know how. */
static bool show(const struct element *value, char *text, size_t size)
{
	int64_t number;

	if (!element_integer(value, &number))
		return false;
	switch (value->type) {
	case BSON_BYTE_INT32:
	case BSON_BYTE_INT64:
		snprintf(text, size, "%" PRId64, number);
		return true;
	case BSON_BYTE_DOUBLE:
		snprintf(text, size, "%" PRId64 ".0", number);
		return number > -1000000000 && number < 1000000000;
	default:
		return false;
	}
}

/* mongod's words as they would be without the question. */
static void write_words(const struct permission_question *question, const struct element *own,
			struct bytes text, struct buffer *out)
{
	char mark[48], shown[32] = "...";
	const uint8_t *at, *behind;

	snprintf(mark, sizeof(mark), ", " FIELD ": %" PRId64, question->number);
	at = memmem(text.data, text.length, mark, strlen(mark));
	if (!at) {
		buffer_append(out, text.data, text.length);
		return;
	}
	behind = at + strlen(mark);
	buffer_append(out, text.data, (size_t)(at - text.data));
	if (own->type != 0) {
		buffer_append(out, ", " FIELD ": ", strlen(", " FIELD ": "));
		if (!show(own, shown, sizeof(shown)))
			snprintf(shown, sizeof(shown), "...");
		buffer_append(out, shown, strlen(shown));
	}
	buffer_append(out, behind, (size_t)(text.data + text.length - behind));
}

static void pass_message(struct sequence *sequence, const struct packet *reply, struct bytes words)
{
	size_t body = sequence_begin_reply(sequence, &reply->message);
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "errmsg"))
			writer_text(&sequence->buffer, "errmsg", words);
		else
			writer_element(&sequence->buffer, &field);
	(void)sequence_end_reply(sequence, body);
}

enum sequence_outcome permission_pass(const struct permission_question *question,
				      struct sequence *sequence, struct packet *reply)
{
	auto_buffer struct buffer words = {0};
	auto_free char *message = NULL;
	struct bytes text = reply->summary.message;

	if (text.data)
		write_words(question, &sequence->match.command.fields[FIELD_MAX_TIME], text,
			    &words);
	if (sequence->request.kind == PACKET_MESSAGE)
		pass_message(sequence, reply, buffer_view(&words));
	if (words.length > WORDS_MOST || sequence->output.length > FRAME_MAX_LENGTH)
		return sequence_fail(sequence, ERROR_OBJECT_TOO_LARGE, SEQUENCE_OUTGROWN, NULL);
	if (sequence->request.kind == PACKET_MESSAGE)
		return SEQUENCE_DONE;
	message = must_strndup((const char *)words.data, words.length);
	return sequence_fail(sequence, ERROR_UNAUTHORIZED, message, NULL);
}
