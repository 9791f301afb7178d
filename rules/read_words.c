/* Errors of a read in the words of the client's own command: of a find, count or distinct that an
 * aggregate stands for, and of the planner, which quotes the query. */
#include "rules/read_words.h"

#include "protocol/writer.h"
#include "rules/sequence_inner.h"

static struct bytes behind(struct bytes text, const char *prefix)
{
	size_t length = strlen(prefix);

	return (struct bytes){text.data + length, text.length - length};
}

/* What mongod says of an error that a document has caused. */
static const char *executor_words(struct bytes command)
{
	if (bytes_are(command, "find"))
		return "Executor error during find command :: caused by :: ";
	if (bytes_are(command, "distinct"))
		return "Executor error during distinct command :: caused by :: ";
	return "";
}

static void write_error_text(struct buffer *out, struct bytes command, struct bytes text)
{
	static const char *const project = "Invalid $project :: caused by :: ";
	static const char *const optimize = "Failed to optimize pipeline :: caused by :: ";
	static const char *const executor =
		"PlanExecutor error during aggregation :: caused by :: ";
	auto_buffer struct buffer words = {0};

	if (bytes_begin_with(text, executor)) {
		const char *own = executor_words(command);

		buffer_append(&words, own, strlen(own));
		text = behind(text, executor);
	} else if (bytes_begin_with(text, project)) {
		text = behind(text, project);
	} else if (bytes_begin_with(text, optimize)) {
		text = behind(text, optimize);
	}
	buffer_append(&words, text.data, text.length);
	writer_text(out, "errmsg", buffer_view(&words));
}

enum sequence_outcome read_words_pass(struct sequence *sequence, struct packet *reply)
{
	struct bytes command = sequence->match.command.first.name, text;
	struct buffer *out = &sequence->buffer;
	struct cursor cursor;
	struct element field;
	size_t body = sequence_begin_reply(sequence, &reply->message);

	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "errmsg") && element_string(&field, &text))
			write_error_text(out, command, text);
		else
			writer_element(out, &field);
	return sequence_end_reply(sequence, body);
}

/* ---- the planner's errors ---- */

static bool find_quote(const struct packet *reply, struct bytes *text)
{
	struct element message;

	return reply->kind == PACKET_MESSAGE &&
	       document_find(reply->message.body, "errmsg", &message) &&
	       element_string(&message, text) &&
	       bytes_begin_with(*text, "error processing query: ns=");
}

bool read_words_wanted(const struct sequence *sequence, const struct packet *reply)
{
	struct bytes text;

	return sequence->match.facts.answered && find_quote(reply, &text);
}

/* What belongs to the message, not to the command that it brings. */
static bool is_generic(const struct element *field)
{
	static const char *const names[] = {
		"lsid",         "txnNumber",  "autocommit", "startTransaction",     "readConcern",
		"writeConcern", "apiVersion", "apiStrict",  "apiDeprecationErrors", "maxTimeMS"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (element_is(field, names[i]))
			return true;
	return field->name.length > 0 && field->name.data[0] == '$';
}

static void write_explained(struct buffer *out, const struct command *command)
{
	size_t explained = writer_open_document(out, "explain");
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, command->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!is_generic(&field))
			writer_element(out, &field);
	writer_close(out, explained);
}

/* Outside the client's session: its transaction has ended with the error. */
enum sequence_outcome read_words_ask(struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence);

	if (bytes_are(command->first.name, "explain"))
		writer_element(out, &command->first);
	else
		write_explained(out, command);
	writer_string(out, "verbosity", "queryPlanner");
	if (command_has(command, FIELD_READ_PREFERENCE))
		writer_element(out, &command->fields[FIELD_READ_PREFERENCE]);
	writer_string(out, "$db", sequence->match.namespace->database);
	sequence_write_api_fields(sequence);
	return sequence_send_command(sequence, body);
}

enum sequence_outcome read_words_take(struct sequence *sequence, struct packet *reply,
				      const struct packet *explained)
{
	struct buffer *out = &sequence->buffer;
	struct cursor cursor;
	struct element field;
	struct bytes words;
	size_t body;

	if (!find_quote(explained, &words))
		return sequence_pass(sequence, reply); /* an index has come meanwhile */
	body = sequence_begin_reply(sequence, &reply->message);
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "errmsg"))
			writer_text(out, "errmsg", words);
		else
			writer_element(out, &field);
	return sequence_end_reply(sequence, body);
}
