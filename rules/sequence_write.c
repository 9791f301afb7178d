/* insert, update and delete on a ruled namespace: the client's bytes, with the state reset where an
 * array is set as a whole; the mover is told. */
#include "protocol/writer.h"
#include "rules/merge_write.h"
#include "rules/notes.h"
#include "rules/sequence_inner.h"
#include "rules/statements.h"

#include <stdlib.h>

enum write_step {
	WRITE_BEGIN,
	WRITE_ASKED, /* the client's command, or the rest of it after a move */
	WRITE_MOVED, /* the mover, after mongod's refusal of a document for its size */
};

/* Which of the client's statements a command carries: a run of them. */
struct selection {
	size_t first;
	size_t count;
};

struct sequence_write {
	struct sequence sequence;   /* first: the two are one pointer */
	struct packet main;         /* the first reply, as long as it can stand for the whole */
	struct write_result result; /* once there is more than one */
	struct selection sent;
	size_t refused;    /* the statement that was too large; its document is moved */
	int64_t time_left; /* milliseconds, for the rest of the command; -1: no limit */
	bool *moved;       /* by statement: once is enough */
	size_t statement_count;
	bool applied;
};

static struct sequence_write *write_of(struct sequence *sequence)
{
	return (struct sequence_write *)(void *)sequence;
}

static const struct sequence_write *const_write_of(const struct sequence *sequence)
{
	return (const struct sequence_write *)(const void *)sequence;
}

static enum command_field statements_field(const struct sequence *sequence)
{
	struct bytes name = sequence->match.command.first.name;

	if (bytes_are(name, "insert"))
		return FIELD_DOCUMENTS;
	return bytes_are(name, "update") ? FIELD_UPDATES : FIELD_DELETES;
}

static bool open_statements(const struct sequence *sequence, struct statements *statements)
{
	return statements_open(statements, &sequence->request.message, &sequence->match.command,
			       statements_field(sequence));
}

/* ---- the command, its whole-array statements with the state reset ---- */

static bool statement_resets(const struct sequence *sequence, struct bytes document,
			     struct statement *statement)
{
	if (!statement_parse(document, statement) || statement->u.type == 0)
		return false;
	return update_classify(&statement->u, sequence->match.namespace).kind == UPDATE_WHOLE;
}

static bool any_resets(const struct sequence *sequence)
{
	struct statements statements;
	struct statement statement;
	struct bytes document;
	bool broken;

	if (statements_field(sequence) != FIELD_UPDATES || !open_statements(sequence, &statements))
		return false;
	while (statements_next(&statements, &document, &broken))
		if (statement_resets(sequence, document, &statement))
			return true;
	return false;
}

/* Appends the statement's document. */
static void write_statement(const struct sequence *sequence, struct buffer *out,
			    struct bytes document)
{
	struct statement statement;
	struct cursor cursor;
	struct element field;
	size_t start;

	if (!statement_resets(sequence, document, &statement)) {
		buffer_append(out, document.data, document.length);
		return;
	}
	start = writer_open(out);
	require(cursor_open(&cursor, document));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "u"))
			update_write_whole(out, "u", &field, sequence->match.namespace);
		else
			writer_element(out, &field);
	}
	writer_close(out, start);
}

/* As mongod numbers the client's statement: `stmtIds` names it, or they count from `stmtId`. */
static int32_t statement_id(const struct command *command, size_t number)
{
	const struct element *ids = &command->fields[FIELD_STMT_IDS];
	struct element id;
	int64_t value = 0;
	char name[12];

	if (ids->type == BSON_BYTE_ARRAY)
		return document_find(ids->value, writer_index(name, number), &id) &&
				       element_integer(&id, &value)
			       ? (int32_t)value
			       : -1;
	if (!element_integer(&command->fields[FIELD_STMT_ID], &value))
		value = 0;
	return (int32_t)((size_t)value + number);
}

/* Explicit statement ids: a retry of the client's whole command finds each in its history. */
static void write_statement_ids(const struct sequence *sequence, struct buffer *out,
				struct selection selection)
{
	const struct command *command = &sequence->match.command;
	size_t total = const_write_of(sequence)->statement_count, array;
	char name[12];

	if (!command_has(command, FIELD_TXN_NUMBER))
		return;
	array = writer_open_array(out, "stmtIds");
	for (size_t i = 0; i < selection.count && selection.first + i < total; i++)
		writer_int32(out, writer_index(name, i),
			     statement_id(command, selection.first + i));
	writer_close(out, array);
}

static bool selected(struct selection selection, size_t number)
{
	return number >= selection.first && number - selection.first < selection.count;
}

static void write_array(const struct sequence *sequence, struct buffer *out,
			struct selection selection)
{
	struct statements statements;
	struct bytes document;
	size_t array = writer_open_array(out, "updates"), number = 0, place = 0;
	char name[12];
	bool broken;

	require(open_statements(sequence, &statements));
	while (statements_next(&statements, &document, &broken)) {
		const char *key = writer_index(name, place);

		if (!selected(selection, number++))
			continue;
		buffer_append(out, &(uint8_t){BSON_BYTE_DOCUMENT}, 1);
		buffer_append(out, key, strlen(key) + 1);
		write_statement(sequence, out, document);
		place++;
	}
	writer_close(out, array);
}

static bool is_rest_field(const struct element *field)
{
	return element_is(field, "stmtId") || element_is(field, "stmtIds") ||
	       element_is(field, "maxTimeMS");
}

/* What only the rest of a command has otherwise than the whole. */
static void write_rest_fields(const struct sequence *sequence, struct buffer *out,
			      struct selection selection)
{
	int64_t left = const_write_of(sequence)->time_left;

	write_statement_ids(sequence, out, selection);
	if (left > 0)
		writer_int64(out, "maxTimeMS", left);
}

static void write_body(const struct sequence *sequence, struct buffer *out,
		       struct selection selection)
{
	bool rest = const_write_of(sequence)->statement_count > 0;
	struct cursor cursor;
	struct element field;
	size_t body = writer_open(out);

	require(cursor_open(&cursor, sequence->request.message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "updates"))
			write_array(sequence, out, selection);
		else if (!rest || !is_rest_field(&field))
			writer_element(out, &field);
	}
	if (rest)
		write_rest_fields(sequence, out, selection);
	writer_close(out, body);
}

static void write_sequences(const struct sequence *sequence, struct buffer *out,
			    struct selection selection)
{
	const struct message *message = &sequence->request.message;

	for (size_t i = 0; i < message->sequence_count; i++) {
		struct bytes documents = message->sequences[i].documents, document;
		size_t start = message_begin_sequence(out, message->sequences[i].identifier),
		       number = 0;

		while (message_next_document(&documents, &document))
			if (selected(selection, number++))
				write_statement(sequence, out, document);
		message_end_sequence(out, start);
	}
}

/* The client's command with its own form, but only the selected statements, and states reset. */
static enum sequence_outcome send_selection(struct sequence *sequence, struct selection selection)
{
	const struct message *message = &sequence->request.message;
	struct buffer *out = &sequence->buffer;

	sequence->step = WRITE_ASKED;
	write_of(sequence)->sent = selection;
	message_begin(out, message->header.request_id, 0,
		      message->flags & ~(uint32_t)MESSAGE_CHECKSUM_PRESENT);
	message_begin_body(out);
	write_body(sequence, out, selection);
	write_sequences(sequence, out, selection);
	message_end(out, 0);
	sequence->output = buffer_view(out);
	return sequence->match.facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

static enum sequence_outcome send_client_command(struct sequence *sequence)
{
	if (any_resets(sequence))
		return send_selection(sequence, (struct selection){0, SIZE_MAX});
	sequence->step = WRITE_ASKED;
	return sequence_send_request(sequence);
}

/* ---- notes ---- */

/* An inserted document is named by its `_id`; where the server makes it, nobody here knows it. */
static bool note_insert(const struct sequence *sequence, struct bytes document,
			struct mover_note *note)
{
	struct element id;

	if (!document_is_outlier(document, sequence->match.namespace))
		return false;
	note->reason = MOVER_SOMEWHERE;
	if (document_find(document, "_id", &id)) {
		note->reason = MOVER_CHANGED;
		note->id_type = id.type;
		note->id = id.value;
	}
	return true;
}

static bool note_statement(const struct sequence *sequence, struct bytes document,
			   struct mover_note *note)
{
	struct statement statement;
	struct update update;

	if (statements_field(sequence) == FIELD_DOCUMENTS)
		return note_insert(sequence, document, note);
	if (!statement_parse(document, &statement) || statement.q.type != BSON_BYTE_DOCUMENT)
		return false;
	notes_identify(note, statement.q.value, &statement.collation);
	if (statements_field(sequence) == FIELD_DELETES) {
		note->reason = MOVER_DELETED;
		return note->id_type != 0; /* the sweep finds what others leave */
	}
	update = update_classify(&statement.u, sequence->match.namespace);
	return notes_of_update(&update, note);
}

static const struct packet *last_reply(const struct sequence_write *write)
{
	if (write->result.reply_count > 0)
		return &write->result.replies[write->result.reply_count - 1];
	return write->applied ? &write->main : NULL;
}

static void write_notes(const struct sequence *sequence,
			void (*take)(void *context, const struct mover_note *note), void *context)
{
	const struct sequence_write *write = const_write_of(sequence);
	struct statements statements;
	struct mover_note common, note;
	struct bytes document;
	bool broken;

	if ((sequence->match.facts.answered && !write->applied) ||
	    !open_statements(sequence, &statements))
		return;
	notes_begin(&common, sequence, last_reply(write));
	while (statements_next(&statements, &document, &broken)) {
		note = common;
		if (!note_statement(sequence, document, &note))
			continue;
		for (size_t i = 0; i < sequence->match.namespace->target_count; i++) {
			note.rule = sequence->match.namespace->targets[i].rule;
			take(context, &note);
		}
	}
}

/* ---- mongod's refusal of a document for its size ---- */

static bool too_large(struct bytes error)
{
	struct element code;
	int64_t number;

	return document_find(error, "code", &code) && element_integer(&code, &number) &&
	       (number == ERROR_OBJECT_TOO_LARGE ||
		number == ERROR_BSON_OBJECT_TOO_LARGE_TO_UPDATE);
}

/* Finds the client's statement again. */
static bool statement_at(const struct sequence *sequence, size_t index, struct bytes *document)
{
	struct statements statements;
	bool broken;

	if (!open_statements(sequence, &statements))
		return false;
	while (statements_next(&statements, document, &broken))
		if (index-- == 0)
			return true;
	return false;
}

/* A plain append to a known document: its tail can be moved, and the statement, which left no
 * history, sent once more. */
static bool movable(struct sequence *sequence, size_t index)
{
	struct sequence_write *write = write_of(sequence);
	struct bytes document;

	if (index >= write->statement_count || write->moved[index] ||
	    !statement_at(sequence, index, &document))
		return false;
	write->moved[index] = true;
	notes_begin(&sequence->move, sequence, NULL);
	return note_statement(sequence, document, &sequence->move) &&
	       sequence->move.reason == MOVER_APPENDED && sequence->move.id_type != 0;
}

static size_t count_statements(const struct sequence *sequence)
{
	struct statements statements;
	struct bytes document;
	size_t count = 0;
	bool broken;

	if (open_statements(sequence, &statements))
		while (statements_next(&statements, &document, &broken))
			count++;
	return count;
}

/* An error of the whole that moving may mend: its statement's document is to be moved. */
static bool find_movable(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);

	for (size_t i = 0; i < write->result.errors.count; i++) {
		const struct write_entry *error = &write->result.errors.entries[i];

		if (!too_large(error->document) || !movable(sequence, error->index))
			continue;
		write->refused = error->index;
		return true;
	}
	return false;
}

static bool has_size_error(const struct reply_summary *summary)
{
	struct cursor cursor;
	struct element error;

	if (summary->write_errors.length == 0 || !cursor_open(&cursor, summary->write_errors))
		return false;
	while (cursor_next(&cursor, &error) == CURSOR_ELEMENT)
		if (error.type == BSON_BYTE_DOCUMENT && too_large(error.value))
			return true;
	return false;
}

static enum sequence_outcome answer(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);

	sequence->buffer.length = 0;
	write_result_append(&write->result, &sequence->buffer, sequence->request.header.request_id);
	sequence->output = buffer_view(&sequence->buffer);
	return SEQUENCE_DONE;
}

static enum sequence_outcome move_or_answer(struct sequence *sequence)
{
	if (!find_movable(sequence))
		return answer(sequence);
	sequence->step = WRITE_MOVED;
	return sequence_begin_move(sequence);
}

/* The first reply: nearly always it stands as it is. In a transaction the error has aborted
 * everything and must surface. */
static enum sequence_outcome take_first(struct sequence *sequence, struct packet *reply)
{
	struct sequence_write *write = write_of(sequence);
	struct reply_summary summary = {0};

	write->main = packet_steal(reply);
	sequence->output = buffer_view(&write->main.raw);
	if (write->main.kind != PACKET_MESSAGE ||
	    !reply_summarise(write->main.message.body, &summary))
		return SEQUENCE_DONE;
	write->applied = summary.ok;
	if (!summary.ok || !has_size_error(&summary) ||
	    statements_field(sequence) != FIELD_UPDATES ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return SEQUENCE_DONE;
	write->statement_count = count_statements(sequence);
	write->moved = must_calloc(write->statement_count, sizeof(*write->moved));
	if (!write_result_add(&write->result, &write->main, 0))
		return SEQUENCE_DONE;
	return move_or_answer(sequence);
}

static enum sequence_outcome take_reply(struct sequence *sequence, struct packet *reply)
{
	struct sequence_write *write = write_of(sequence);
	struct reply_summary summary;

	if (write->result.reply_count == 0)
		return take_first(sequence, reply);
	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary))
		return sequence_pass(sequence, reply);
	/* The driver retries the whole: history answers what is done, and some is. */
	if (!summary.ok)
		return sequence_pass_relabelled(sequence, reply, NULL,
						write->result.n > 0 ? "NoWritesPerformed" : NULL);
	if (!write_result_add(&write->result, reply, write->sent.first))
		return sequence_pass(sequence, reply);
	return move_or_answer(sequence);
}

/* An ordered command had stopped at the refused statement: all from there on go out; else that one
 * alone. */
static enum sequence_outcome send_rest(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);
	const struct element *ordered = &sequence->match.command.fields[FIELD_ORDERED];
	bool alone = ordered->type != 0 && !element_truth(ordered);

	write_result_forget_error(&write->result, write->refused);
	return send_selection(sequence, (struct selection){write->refused, alone ? 1 : SIZE_MAX});
}

/* Where the document could not be moved, or the client's time is over, its error stands. */
static enum sequence_outcome take_moved(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);

	if (sequence_next_move(sequence, input))
		return SEQUENCE_MOVE;
	write->time_left = sequence_time_left(sequence, input);
	return sequence->move_helped && write->time_left != 0 ? send_rest(sequence)
							      : move_or_answer(sequence);
}

static enum sequence_outcome write_resume(struct sequence *sequence,
					  const struct sequence_input *input)
{
	switch ((enum write_step)sequence->step) {
	case WRITE_BEGIN:
		return send_client_command(sequence);
	case WRITE_ASKED:
		return take_reply(sequence, input->reply);
	case WRITE_MOVED:
		return take_moved(sequence, input);
	}
	require(!"a step of another sequence");
}

static void write_fini(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);

	packet_fini(&write->main);
	write_result_fini(&write->result);
	free(write->moved);
}

struct sequence *sequence_write_new(void)
{
	struct sequence_write *write = must_calloc(1, sizeof(*write));

	write->sequence.resume = write_resume;
	write->sequence.notes = write_notes;
	write->sequence.fini = write_fini;
	return &write->sequence;
}
