/* Errors of a read in the words of the client's own command: of a find, count or distinct that an
 * aggregate stands for, and of the planner, which quotes the query. */
#include "rules/read/error_words.h"

#include "protocol/writer.h"
#include "rules/sequence/own_error.h"
#include "rules/sequence/sequence_inner.h"

static struct bytes behind(struct bytes text, const char *prefix)
{
	size_t length = strlen(prefix);

	return (struct bytes){text.data + length, text.length - length};
}

/* What mongod says of an error that a document has caused. */
static const char *executor_words(enum command_kind command)
{
	if (command == COMMAND_FIND)
		return "Executor error during find command :: caused by :: ";
	if (command == COMMAND_DISTINCT)
		return "Executor error during distinct command :: caused by :: ";
	if (command == COMMAND_GET_MORE)
		return "Executor error during getMore :: caused by :: ";
	return "";
}

static void write_error_text(struct buffer *out, enum command_kind command, struct bytes text)
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
	enum command_kind command = sequence->match.command.kind;
	struct buffer *out = &sequence->buffer;
	struct cursor cursor;
	struct element field;
	struct bytes text;
	size_t body;

	if (command == COMMAND_AGGREGATE || command == COMMAND_EXPLAIN)
		return sequence_pass(sequence, reply);
	body = sequence_begin_reply(sequence, &reply->message);
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "errmsg") && element_string(&field, &text))
			write_error_text(out, command, text);
		else
			writer_element(out, &field);
	return sequence_end_reply(sequence, body);
}

/* ---- errors of a command that is not the client's ---- */

#define FIRST_LOCATION 15000 /* codes above are places in mongod's code, where no state is told */

/* Codes of what mongod finds wrong with a command before it looks at documents. */
static bool is_of_command(int64_t code)
{
	static const int64_t codes[] = {2,  9,  14, 15, 17, 27,  40,  52,  54,
					56, 57, 72, 73, 96, 115, 139, 168, 224};

	for (size_t i = 0; i < ARRAY_LENGTH(codes); i++)
		if (code == codes[i])
			return true;
	return code >= FIRST_LOCATION;
}

bool read_words_quotes(const struct sequence *sequence, const struct packet *reply)
{
	return !reply->summary.ok &&
	       bytes_begin_with(reply->summary.message, "error processing query: ns=") &&
	       own_error_can_ask(sequence);
}

bool read_words_wanted(const struct sequence *sequence, const struct packet *reply)
{
	const struct reply_summary *summary = &reply->summary;

	if (read_words_quotes(sequence, reply))
		return true;
	return !summary->ok && summary->message.data && is_of_command(summary->code) &&
	       !bytes_begin_with(summary->message, "PlanExecutor error") &&
	       !bytes_begin_with(summary->message, "Executor error") && own_error_can_ask(sequence);
}

/* The error of `reply`, with what `explained` says of it. */
static enum sequence_outcome pass_in_words(struct sequence *sequence, const struct packet *reply,
					   const struct packet *explained)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_reply(sequence, &reply->message);
	struct element field, said;
	struct cursor cursor;

	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if ((element_is(&field, "errmsg") || element_is(&field, "code") ||
		     element_is(&field, "codeName")) &&
		    document_find(explained->message.body,
				  element_is(&field, "errmsg") ? "errmsg"
				  : element_is(&field, "code") ? "code"
							       : "codeName",
				  &said))
			own_error_write_field(sequence, out, &said);
		else
			writer_element(out, &field);
	return sequence_end_reply(sequence, body);
}

enum sequence_outcome read_words_take(struct sequence *sequence, struct packet *reply,
				      const struct packet *explained)
{
	/* Else the client's own command would not have met it there. */
	return own_error_said(explained) ? pass_in_words(sequence, reply, explained)
					 : read_words_pass(sequence, reply);
}
