/* mongod's own words: an error of its planner quotes the filter, and an edit's has more in it than
 * the client's. An explain, which changes nothing, gives the words for what the client sent. */
#include "protocol/writer.h"
#include "rules/edit.h"

static const char quotes[] = "error processing query: ns=";

/* The error of a command, or of its only statement. */
static bool find_text(struct bytes body, struct bytes *text)
{
	struct element errors, error, message;
	struct cursor cursor;

	if (document_find(body, "errmsg", &message))
		return element_string(&message, text);
	return document_find(body, "writeErrors", &errors) && errors.type == BSON_BYTE_ARRAY &&
	       cursor_open(&cursor, errors.value) &&
	       cursor_next(&cursor, &error) == CURSOR_ELEMENT && error.type == BSON_BYTE_DOCUMENT &&
	       document_find(error.value, "errmsg", &message) && element_string(&message, text);
}

static bool finds_quotes(const struct packet *reply, struct bytes *text)
{
	return reply->kind == PACKET_MESSAGE && find_text(reply->message.body, text) &&
	       text->length > strlen(quotes) && bytes_begin_with(*text, quotes);
}

bool edit_words_wanted(const struct edit *edit)
{
	struct bytes text;

	return finds_quotes(&edit->reply, &text);
}

/* ---- the explain ---- */

static void write_option(struct buffer *out, const struct element *element)
{
	if (element->type != 0)
		writer_element(out, element);
}

/* Whatever the update is, the planner sees the filter alone. */
static void write_any_update(struct buffer *out, const char *name)
{
	size_t update = writer_open_document(out, name);
	size_t set = writer_open_document(out, "$set");

	writer_int32(out, "x", 1);
	writer_close(out, set);
	writer_close(out, update);
}

static void write_statement(const struct edit *edit, struct buffer *out)
{
	const struct edit_write *write = &edit->write;
	bool deletes = write->update.type == 0;
	size_t list = writer_open_array(out, deletes ? "deletes" : "updates");
	size_t statement = writer_open_document(out, "0");

	writer_renamed(out, "q", &write->filter);
	if (deletes)
		writer_int32(out, "limit", write->many ? 0 : 1);
	else
		write_any_update(out, "u");
	if (!deletes)
		writer_bool(out, "multi", write->many);
	write_option(out, &write->collation);
	write_option(out, &write->hint);
	writer_close(out, statement);
	writer_close(out, list);
}

static void write_modify(const struct edit *edit, struct buffer *out)
{
	const struct edit_write *write = &edit->write;

	writer_renamed(out, "query", &write->filter);
	if (write->update.type == 0)
		writer_bool(out, "remove", true);
	else
		write_any_update(out, "update");
	write_option(out, &write->sort);
	write_option(out, &write->fields);
	write_option(out, &write->collation);
	write_option(out, &write->hint);
}

/* Outside the client's session: its transaction has ended with the error. */
enum edit_outcome edit_send_words(const struct edit *edit, struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence);
	size_t explained = writer_open_document(out, "explain");

	writer_element(out, &command->first);
	if (bytes_are(command->first.name, "update") || bytes_are(command->first.name, "delete"))
		write_statement(edit, out);
	else
		write_modify(edit, out);
	write_option(out, &command->fields[FIELD_LET]);
	writer_close(out, explained);
	writer_string(out, "verbosity", "queryPlanner");
	writer_string(out, "$db", edit->namespace->database);
	sequence_write_api_fields(sequence);
	sequence_send_command(sequence, body);
	return EDIT_SEND;
}

/* ---- the words in place of those that were ---- */

/* The fields, with another errmsg where there is one. */
static void write_worded(struct buffer *out, struct bytes document, struct bytes words)
{
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, document));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "errmsg"))
			writer_text(out, "errmsg", words);
		else
			writer_element(out, &field);
	}
}

static void write_worded_errors(struct buffer *out, struct bytes errors, struct bytes words)
{
	size_t list = writer_open_array(out, "writeErrors"), entry;
	struct cursor cursor;
	struct element error;

	require(cursor_open(&cursor, errors) && cursor_next(&cursor, &error) == CURSOR_ELEMENT);
	entry = writer_open_document(out, "0");
	write_worded(out, error.value, words);
	writer_close(out, entry);
	writer_close(out, list);
}

static void write_worded_reply(struct buffer *out, struct bytes reply, struct bytes words)
{
	struct element errors, field;
	struct cursor cursor;

	if (document_find(reply, "errmsg", &field) ||
	    !document_find(reply, "writeErrors", &errors)) {
		write_worded(out, reply, words);
		return;
	}
	require(cursor_open(&cursor, reply));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "writeErrors"))
			write_worded_errors(out, field.value, words);
		else
			writer_element(out, &field);
	}
}

void edit_take_words(struct edit *edit, const struct packet *explained)
{
	struct buffer frame = {0};
	struct bytes words;
	size_t start, body;

	if (!finds_quotes(explained, &words))
		return; /* an index has come meanwhile: what was said stands */
	start = message_begin(&frame, edit->reply.header.request_id, edit->reply.header.response_to,
			      0);
	message_begin_body(&frame);
	body = writer_open(&frame);
	write_worded_reply(&frame, edit->reply.message.body, words);
	writer_close(&frame, body);
	message_end(&frame, start);
	packet_fini(&edit->reply);
	packet_read(&edit->reply, &frame);
}
