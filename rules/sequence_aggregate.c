/* A read that needs ruled arrays whole: mongod puts the documents together, in an aggregate, and
 * the client gets the reply of its own command. */
#include "protocol/writer.h"
#include "rules/aggregate_write.h"
#include "rules/reassemble.h"
#include "rules/sequence_inner.h"

#include <stdio.h>
#include <stdlib.h>

#define ATTEMPTS 5

struct sequence_aggregate {
	struct sequence sequence; /* first: the two are one pointer */
	struct command explained; /* of an explain */
	int attempts;
};

static struct sequence_aggregate *aggregate_of(struct sequence *sequence)
{
	return (struct sequence_aggregate *)(void *)sequence;
}

static bool explains(const struct sequence *sequence)
{
	return bytes_are(sequence->match.command.first.name, "explain");
}

/* ---- what is sent ---- */

static bool edit_explain(void *context, struct buffer *out, const struct element *field)
{
	struct sequence *sequence = context;
	size_t inner;

	if (!element_is(field, "explain"))
		return false;
	inner = writer_open_document(out, "explain");
	aggregate_write(out, &aggregate_of(sequence)->explained, &sequence->match, false);
	writer_close(out, inner);
	return true;
}

static enum sequence_outcome ask(struct sequence *sequence)
{
	const struct match *match = &sequence->match;
	size_t body;

	if (explains(sequence)) {
		require(command_parse(match->command.first.value,
				      &aggregate_of(sequence)->explained));
		sequence_write_edited(sequence, MESSAGE_EXHAUST_ALLOWED, edit_explain, sequence);
		return match->facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
	}
	body = sequence_begin_command(sequence);
	aggregate_write(&sequence->buffer, &match->command, match, sequence->begun);
	return sequence_send_command(sequence, body);
}

/* ---- what comes back ---- */

/* The first document of the reply's batch; false where there is none. */
static bool first_document(struct bytes cursor_document, struct bytes *document)
{
	struct element batch, first;
	struct cursor cursor;

	if (!document_find(cursor_document, "firstBatch", &batch) ||
	    batch.type != BSON_BYTE_ARRAY || !cursor_open(&cursor, batch.value) ||
	    cursor_next(&cursor, &first) != CURSOR_ELEMENT || first.type != BSON_BYTE_DOCUMENT)
		return false;
	*document = first.value;
	return true;
}

static void write_count(struct buffer *out, struct bytes document)
{
	struct element count;

	if (document.length > 0 && document_find(document, "n", &count))
		writer_renamed(out, "n", &count);
	else
		writer_int32(out, "n", 0);
}

static void write_values(struct buffer *out, struct bytes document)
{
	struct element values;
	size_t empty;

	if (document.length > 0 && document_find(document, "values", &values)) {
		writer_element(out, &values);
		return;
	}
	empty = writer_open_array(out, "values");
	writer_close(out, empty);
}

/* A count's or a distinct's reply. */
static enum sequence_outcome answer_value(struct sequence *sequence, struct packet *reply,
					  struct bytes cursor_document)
{
	struct buffer *out = &sequence->buffer;
	struct bytes document = {0};
	struct cursor cursor;
	struct element field;
	size_t start, body;

	(void)!first_document(cursor_document, &document);
	out->length = 0;
	start = message_begin(out, reply->header.request_id, sequence->request.header.request_id,
			      0);
	message_begin_body(out);
	body = writer_open(out);
	if (bytes_are(sequence->match.command.first.name, "count"))
		write_count(out, document);
	else
		write_values(out, document);
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, "cursor"))
			writer_element(out, &field);
	writer_close(out, body);
	message_end(out, start);
	sequence->output = buffer_view(out);
	return SEQUENCE_DONE;
}

static enum sequence_outcome fail(struct sequence *sequence, enum error_code code, const char *why)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	char message[512];

	snprintf(message, sizeof(message), "Spillway rule '%s' on '%s.%s': %s",
		 namespace->targets[0].rule->name, namespace->database, namespace->collection, why);
	return sequence_fail(sequence, code, message, NULL);
}

/* ---- errors in the words of the client's own command ---- */

static bool starts_with(struct bytes text, const char *prefix)
{
	size_t length = strlen(prefix);

	return text.length >= length && memcmp(text.data, prefix, length) == 0;
}

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

	if (starts_with(text, executor)) {
		const char *own = executor_words(command);

		buffer_append(&words, own, strlen(own));
		text = behind(text, executor);
	} else if (starts_with(text, project)) {
		text = behind(text, project);
	} else if (starts_with(text, optimize)) {
		text = behind(text, optimize);
	}
	buffer_append(&words, text.data, text.length);
	writer_text(out, "errmsg", buffer_view(&words));
}

static enum sequence_outcome pass_error(struct sequence *sequence, struct packet *reply)
{
	struct bytes command = sequence->match.command.first.name, text;
	struct buffer *out = &sequence->buffer;
	struct cursor cursor;
	struct element field;
	size_t start, body;

	out->length = 0;
	start = message_begin(out, reply->header.request_id, sequence->request.header.request_id,
			      0);
	message_begin_body(out);
	body = writer_open(out);
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "errmsg") && element_string(&field, &text))
			write_error_text(out, command, text);
		else
			writer_element(out, &field);
	writer_close(out, body);
	message_end(out, start);
	sequence->output = buffer_view(out);
	return SEQUENCE_DONE;
}

/* What has been merged can't be taken back, nor always be merged again. */
static bool merges(const struct sequence *sequence)
{
	const struct element *pipeline = &sequence->match.command.fields[FIELD_PIPELINE];
	struct element stage, merge;
	struct cursor stages;
	bool found = false;

	if (pipeline->type != BSON_BYTE_ARRAY || !cursor_open(&stages, pipeline->value))
		return false;
	while (!found && cursor_next(&stages, &stage) == CURSOR_ELEMENT)
		found = stage.type == BSON_BYTE_DOCUMENT &&
			document_find(stage.value, "$merge", &merge);
	return found;
}

static enum sequence_outcome take(struct sequence *sequence, const struct sequence_input *input)
{
	struct packet *reply = input->reply;
	struct reply_summary summary;

	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary))
		return sequence_pass(sequence, reply);
	if (reassemble_died(reply->message.body, &summary)) {
		sequence->counts.repeats++;
		if (++aggregate_of(sequence)->attempts >= ATTEMPTS || merges(sequence) ||
		    command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
			return fail(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
				    "an array was rewritten while it was being read; try again");
		if (sequence_time_left(sequence, input) == 0)
			return fail(sequence, ERROR_MAX_TIME_EXPIRED,
				    "operation exceeded time limit");
		return ask(sequence);
	}
	if (reassemble_unsafe(reply->message.body, &summary))
		return fail(
			sequence, ERROR_COMMAND_NOT_SUPPORTED,
			"$merge has met a document with a field '_spill', or one with the ruled "
			"array (or what goes with it) that would be merged field by field; use "
			"whenMatched: replace");
	if (reassemble_unclear(reply->message.body, &summary))
		return fail(
			sequence, ERROR_COMMAND_NOT_SUPPORTED,
			"a document doesn't tell which element the positional projection means: "
			"another condition of the filter has met an array");
	if (!summary.ok && !explains(sequence) &&
	    !bytes_are(sequence->match.command.first.name, "aggregate"))
		return pass_error(sequence, reply);
	if (summary.ok && !explains(sequence) &&
	    (bytes_are(sequence->match.command.first.name, "count") ||
	     bytes_are(sequence->match.command.first.name, "distinct")))
		return answer_value(sequence, reply, summary.cursor);
	return sequence_pass(sequence, reply);
}

static enum sequence_outcome aggregate_resume(struct sequence *sequence,
					      const struct sequence_input *input)
{
	return input->reply ? take(sequence, input) : ask(sequence);
}

struct sequence *sequence_aggregate_new(void)
{
	struct sequence_aggregate *aggregate = must_calloc(1, sizeof(*aggregate));

	aggregate->sequence.resume = aggregate_resume;
	return &aggregate->sequence;
}
