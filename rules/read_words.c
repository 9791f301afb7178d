/* Errors of an aggregate in the words of the find, count or distinct that it stands for. */
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
