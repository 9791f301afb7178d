/* The ends of a read that are no success: cursors are closed, then the error goes to the client. */
#include "rules/read/read_inner.h"

#include "rules/read/dropped.h"
#include "rules/reassembly/raised.h"
#include "rules/rule/id_text.h"

#include <stdio.h>
#include <stdlib.h>

/* Closes what is still open, then answers. The documents of this batch are lost to the client, so
 * that nobody may read on behind them. */
enum sequence_outcome read_close_cursors(struct sequence *sequence)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	struct sequence_read *read = read_of(sequence);
	const struct target *target = &namespace->targets[read->fetch.target];
	int64_t overflow = read->fetch.cursor_id, main = read->cursor_id, spent = read->spent;

	sequence->step = READ_KILL_ASKED;
	if (spent != 0) {
		read->spent = 0;
		return sequence_send_kill(sequence, namespace->database, namespace->collection,
					  spent);
	}
	if (overflow != 0) {
		read->fetch.cursor_id = 0;
		return sequence_send_kill(sequence, target->overflow_database,
					  target->overflow_collection, overflow);
	}
	if (main != 0) {
		read->cursor_id = 0;
		return sequence_send_kill(sequence, namespace->database, namespace->collection,
					  main);
	}
	buffer_fini(&sequence->buffer);
	sequence->buffer = buffer_steal(&read->failure);
	sequence->output = buffer_view(&sequence->buffer);
	return SEQUENCE_DONE;
}

enum sequence_outcome read_fail_with_output(struct sequence *sequence)
{
	struct sequence_read *read = read_of(sequence);

	if (sequence->output.data == sequence->buffer.data)
		read->failure = buffer_steal(&sequence->buffer);
	else /* the server's own error */
		buffer_append(&read->failure, sequence->output.data, sequence->output.length);
	return read_close_cursors(sequence);
}

enum sequence_outcome read_fail(struct sequence *sequence, enum error_code code, const char *why)
{
	sequence_fail_by_rule(sequence, code, why);
	return read_fail_with_output(sequence);
}

static enum sequence_outcome fail_lost(struct sequence *sequence)
{
	struct sequence_read *read = read_of(sequence);

	if (read->unresolved)
		return sequence_pass(sequence, &read->main);
	return read_fail(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
			 read->lost ? read->lost : RAISED_DIED_WORDS);
}

void read_say_lost(struct sequence_read *read, const char *message)
{
	free(read->lost);
	read->lost = must_strndup(message, strlen(message));
}

void read_name_lost(struct sequence_read *read, struct bytes document)
{
	char message[SEQUENCE_MESSAGE];
	struct element id;

	if (!document_find(document, "_id", &id))
		return;
	snprintf(message, sizeof(message), "the document with %s: %s", id_text(&id).text,
		 RAISED_DIED_WORDS);
	read_say_lost(read, message);
}

enum sequence_outcome read_lose_overflow(struct sequence *sequence,
					 const struct sequence_input *input)
{
	if (!read_is_command(sequence, COMMAND_GET_MORE) ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return fail_lost(sequence);
	sequence->step = READ_DROPPED_ASKED;
	return dropped_ask(sequence, input);
}

enum sequence_outcome read_take_dropped(struct sequence *sequence, const struct packet *reply)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	char message[SEQUENCE_MESSAGE];

	if (!dropped_said(reply))
		return fail_lost(sequence);
	snprintf(message, sizeof(message), "collection dropped: '%s.%s'", namespace->database,
		 namespace->collection);
	sequence_fail(sequence, ERROR_QUERY_PLAN_KILLED, message, NULL);
	return read_fail_with_output(sequence);
}

enum sequence_outcome read_fail_fetch(struct sequence *sequence, enum fetch_outcome outcome)
{
	fetch_fail(&read_of(sequence)->fetch, sequence, outcome);
	return read_fail_with_output(sequence);
}

static enum sequence_outcome refuse_damaged(struct sequence *sequence, struct bytes document)
{
	char message[SEQUENCE_MESSAGE];
	struct element id;

	if (!document.data || !document_find(document, "_id", &id))
		return read_fail(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
				 "the server's reply can't be read; try again");
	snprintf(message, sizeof(message), "the document with %s: %s", id_text(&id).text,
		 RAISED_DAMAGED_WORDS);
	return read_fail(sequence, ERROR_DATA_CORRUPTION, message);
}

enum sequence_outcome read_refuse_document(struct sequence *sequence, enum merge_intake intake,
					   struct bytes document)
{
	if (intake == MERGE_FOREIGN)
		return read_fail(
			sequence, ERROR_COMMAND_NOT_SUPPORTED,
			"a document is spilled under a rule that the configuration no longer has");
	if (intake == MERGE_SPARE)
		return read_fail(
			sequence, ERROR_COMMAND_NOT_SUPPORTED,
			"a document has a field whose name begins with '_spill/', which is "
			"Spillway's own; rename it, straight at mongod");
	return refuse_damaged(sequence, document);
}
