/* mongod's own words: an error of its planner quotes the filter, and an edit's has more in it than
 * the client's. An explain, which changes nothing, gives the words for what the client sent. */
#include "rules/edit/edit_inner.h"

#include "rules/reassembly/raised.h"
#include "rules/query/update.h"

static const char quotes[] = "error processing query: ns=";

/* The document that has the error: the reply, or the error of its only statement. */
static bool find_error(struct bytes body, struct bytes *error)
{
	struct element errors, first, message;
	struct cursor cursor;

	*error = body;
	if (document_find(body, "errmsg", &message))
		return true;
	if (!document_find(body, "writeErrors", &errors) || errors.type != BSON_BYTE_ARRAY ||
	    !cursor_open(&cursor, errors.value) || cursor_next(&cursor, &first) != CURSOR_ELEMENT ||
	    first.type != BSON_BYTE_DOCUMENT)
		return false;
	*error = first.value;
	return true;
}

static bool find_text(struct bytes body, struct bytes *text)
{
	struct element message;
	struct bytes error;

	return find_error(body, &error) && document_find(error, "errmsg", &message) &&
	       element_string(&message, text);
}

static bool finds_quotes(const struct packet *reply, struct bytes *text)
{
	return reply->kind == PACKET_MESSAGE && find_text(reply->message.body, text) &&
	       text->length > strlen(quotes) && bytes_begin_with(*text, quotes);
}

bool edit_words_wanted(const struct edit *edit)
{
	struct bytes text;

	return finds_quotes(&edit->end.reply, &text);
}

/* ---- the explain ---- */

/* The planner looks at the filter alone: any update will do. */
static const char *explained(const struct edit *edit, bool statements)
{
	bool deletes = edit->write.update.type == 0;

	if (statements)
		return deletes ? "{deletes: [{q: @filter, limit: @limit, ..@options}]}"
			       : "{updates: [{q: @filter, u: {$set: {x: 1}}, multi: @many, "
				 "..@options}]}";
	return deletes ? "{query: @filter, remove: true, sort: @sort, fields: @fields, ..@options}"
		       : "{query: @filter, update: {$set: {x: 1}}, sort: @sort, fields: @fields, "
			 "..@options}";
}

/* Outside the client's session: its transaction has ended with the error. */
enum edit_outcome edit_send_words(const struct edit *edit)
{
	const struct whole_write *write = &edit->write;
	const struct command *command = &edit->sequence->match.command;
	const struct element *first = &command->first;
	bool statements = command->kind == COMMAND_UPDATE || command->kind == COMMAND_DELETE;
	size_t body = sequence_begin_command(edit->sequence);

	template_write_fields(&edit->sequence->buffer,
			      "{explain: {@command: @first, ..@explained, let: @let}, "
			      "verbosity: 'queryPlanner', $db: @database}",
			      fill("command", first->name), fill("first", first),
			      fill_template("explained", explained(edit, statements)),
			      fill("filter", &write->filter), fill("limit", write->many ? 0 : 1),
			      fill("many", write->many), fill("sort", &write->sort),
			      fill("fields", &write->fields),
			      fill_template("options", "{collation: @collation, hint: @hint}"),
			      fill("collation", &write->collation), fill("hint", &write->hint),
			      fill("let", &command->fields[FIELD_LET]),
			      fill("database", edit->namespace->database));
	sequence_write_api_fields(edit->sequence);
	sequence_send_command(edit->sequence, body);
	return EDIT_SEND;
}

/* ---- the words in place of those that were ---- */

/* What is said instead. */
struct words {
	struct bytes text;
	enum error_code code; /* 0: the same */
};

static void write_worded_field(struct buffer *out, const struct element *field,
			       const struct words *words)
{
	if (element_is(field, "errmsg"))
		writer_text(out, "errmsg", words->text);
	else if (words->code != 0 && element_is(field, "code"))
		writer_int32(out, "code", words->code);
	else if (words->code != 0 && element_is(field, "codeName"))
		writer_string(out, "codeName", error_name(words->code));
	else
		writer_element(out, field);
}

static void write_worded(struct buffer *out, struct bytes document, const struct words *words)
{
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, document));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		write_worded_field(out, &field, words);
}

static void write_worded_errors(struct buffer *out, struct bytes error, const struct words *words)
{
	size_t list = writer_open_array(out, "writeErrors"), entry;

	entry = writer_open_document(out, "0");
	write_worded(out, error, words);
	writer_close(out, entry);
	writer_close(out, list);
}

static void write_worded_reply(struct buffer *out, struct bytes reply, const struct words *words)
{
	struct element field;
	struct cursor cursor;
	struct bytes error;

	if (!find_error(reply, &error) || error.data == reply.data) {
		write_worded(out, reply, words);
		return;
	}
	require(cursor_open(&cursor, reply));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "writeErrors"))
			write_worded_errors(out, error, words);
		else
			writer_element(out, &field);
	}
}

static void say_instead(struct edit *edit, const struct words *words)
{
	struct buffer frame = {0};
	size_t start, body;

	start = message_begin(&frame, edit->end.reply.header.request_id,
			      edit->end.reply.header.response_to, 0);
	message_begin_body(&frame);
	body = writer_open(&frame);
	write_worded_reply(&frame, edit->end.reply.message.body, words);
	writer_close(&frame, body);
	message_end(&frame, start);
	packet_fini(&edit->end.reply);
	packet_read_reply(&edit->end.reply, &frame);
}

void edit_take_words(struct edit *edit, const struct packet *explained)
{
	struct words words = {.code = 0};

	if (finds_quotes(explained, &words.text))
		say_instead(edit, &words);
	/* else an index has come meanwhile: what was said stands */
}

bool edit_tell_forged(struct edit *edit)
{
	struct words words = {.code = ERROR_COMMAND_NOT_SUPPORTED};
	char message[SEQUENCE_MESSAGE];
	struct bytes error, text;
	struct element code;
	int64_t number;

	if (!update_computes_names(&edit->write.update) ||
	    !find_error(edit->end.reply.message.body, &error) ||
	    !find_text(edit->end.reply.message.body, &text) ||
	    !document_find(error, "code", &code) || !element_integer(&code, &number) ||
	    !raised_forged(number, text))
		return false;
	words.text = bytes_of(sequence_name_rule(
		edit->sequence,
		"the update pipeline gives the document a field '_spill', or one whose name begins "
		"with '_spill/' or '_spill.': these names are Spillway's own; compute another name",
		message));
	say_instead(edit, &words);
	return true;
}
