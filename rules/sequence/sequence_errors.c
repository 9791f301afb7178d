/* An error of the server's goes on to the client with its labels put right: they were chosen for a
 * command of ours, not for the client's. */
#include "protocol/writer.h"
#include "rules/sequence/sequence_inner.h"

#include <stdio.h>

#define RETRYABLE "RetryableWriteError"

static bool names(const struct element *label, const char *name)
{
	struct bytes text;

	return name && element_string(label, &text) && bytes_are(text, name);
}

/* A command of ours in a transaction of ours has labels that the client's has not. */
static bool is_foreign(const struct sequence *sequence, const struct element *label)
{
	const struct command *command = &sequence->match.command;

	return (names(label, "TransientTransactionError") &&
		!command_has(command, FIELD_AUTOCOMMIT)) ||
	       (names(label, RETRYABLE) && !command_has(command, FIELD_TXN_NUMBER));
}

struct relabelling {
	const struct sequence *sequence;
	const char *add, *drop;
};

/* The array without `drop` and with `add`; nothing where it would be empty. */
static void write_labels(struct buffer *out, struct bytes labels,
			 const struct relabelling *relabelling)
{
	const char *add = relabelling->add;
	size_t mark = out->length, array = writer_open_array(out, "errorLabels"), count = 0;
	struct cursor cursor;
	struct element label;
	bool stands = false;
	char name[12];

	if (labels.length > 0 && cursor_open(&cursor, labels))
		while (cursor_next(&cursor, &label) == CURSOR_ELEMENT) {
			stands = stands || names(&label, add);
			if (!names(&label, relabelling->drop) &&
			    !is_foreign(relabelling->sequence, &label))
				writer_renamed(out, writer_index(name, count++), &label);
		}
	if (add && !stands)
		writer_string(out, writer_index(name, count++), add);
	writer_close(out, array);
	if (count == 0)
		out->length = mark;
}

enum sequence_outcome sequence_pass_relabelled(struct sequence *sequence, struct packet *reply,
					       const char *add, const char *drop)
{
	const struct relabelling relabelling = {sequence, add, drop};
	struct buffer *out = &sequence->buffer;
	struct cursor cursor;
	struct element field;
	bool labelled = false;
	size_t body;

	body = sequence_begin_reply(sequence, &reply->message);
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, "errorLabels")) {
			writer_element(out, &field);
			continue;
		}
		labelled = true;
		write_labels(out, field.type == BSON_BYTE_ARRAY ? field.value : (struct bytes){0},
			     &relabelling);
	}
	if (!labelled)
		write_labels(out, (struct bytes){0}, &relabelling);
	return sequence_end_reply(sequence, body);
}

bool sequence_is_passing(int64_t code)
{
	static const int64_t codes[] = {6,    7,     89,    91,    189,   262,
					9001, 10107, 11600, 11602, 13435, 13436};

	for (size_t i = 0; i < ARRAY_LENGTH(codes); i++)
		if (code == codes[i])
			return true;
	return false;
}

/* mongod labels these for a retryable write; our read behind one carries no txnNumber. The driver
 * then sends the write again, which mongod answers from its history. */
static bool lacks_label(const struct sequence *sequence, const struct packet *reply)
{
	const struct command *command = &sequence->match.command;

	return command_has(command, FIELD_TXN_NUMBER) && !command_has(command, FIELD_AUTOCOMMIT) &&
	       sequence_is_passing(reply->summary.code);
}

bool sequence_ends_all(int64_t code)
{
	return sequence_is_passing(code) || code == 50 || code == 217 || code == 279 ||
	       code == 290 || code == 11601;
}

bool reply_is_unauthorized(const struct packet *reply)
{
	return !reply->summary.ok && reply->summary.code == ERROR_UNAUTHORIZED;
}

enum sequence_outcome sequence_pass_helper_error(struct sequence *sequence, struct packet *reply,
						 const char *drop)
{
	bool lacks = lacks_label(sequence, reply);
	struct element labels;

	/* mongod may have refused it before it looked at the transaction: that ends as well. */
	sequence->end.failed = true;
	if (!reply->summary.readable ||
	    (!lacks && !document_find(reply->message.body, "errorLabels", &labels)))
		return sequence_pass(sequence, reply);
	return sequence_pass_relabelled(sequence, reply, lacks ? RETRYABLE : NULL, drop);
}

const char *sequence_name_rule(const struct sequence *sequence, const char *why,
			       char message[SEQUENCE_MESSAGE])
{
	const struct ruled_namespace *namespace = sequence->match.namespace;

	snprintf(message, SEQUENCE_MESSAGE, "Spillway rule '%s' on '%s.%s': %s",
		 namespace->targets[0].rule->name, namespace->database, namespace->collection, why);
	return message;
}

enum sequence_outcome sequence_fail_by_rule(struct sequence *sequence, enum error_code code,
					    const char *why)
{
	char message[SEQUENCE_MESSAGE];

	return sequence_fail(sequence, code, sequence_name_rule(sequence, why, message), NULL);
}

enum sequence_outcome sequence_refuse_unauthorized(struct sequence *sequence,
						   const struct target *target)
{
	char message[SEQUENCE_MESSAGE / 2];

	snprintf(message, sizeof(message),
		 "the user may not read what this command needs: the collections that it names, "
		 "and the array's overflow in '%s.%s'",
		 target->overflow_database, target->overflow_collection);
	return sequence_fail_by_rule(sequence, ERROR_UNAUTHORIZED, message);
}

enum sequence_outcome sequence_refuse_write(struct sequence *sequence, enum error_code code,
					    const char *why)
{
	const struct command *command = &sequence->match.command;
	const char *label = NULL;
	char message[SEQUENCE_MESSAGE];

	if (code == ERROR_WRITE_CONFLICT && command_has(command, FIELD_AUTOCOMMIT))
		label = "TransientTransactionError";
	else if (code == ERROR_WRITE_CONFLICT && command_has(command, FIELD_TXN_NUMBER))
		label = "RetryableWriteError";
	return sequence_fail(sequence, code, sequence_name_rule(sequence, why, message), label);
}

void sequence_count_skipped(struct sequence *sequence, const char *message)
{
	sequence->counts.skipped++;
	free(sequence->counts.skipped_one);
	sequence->counts.skipped_one = must_strndup(message, strlen(message));
}
