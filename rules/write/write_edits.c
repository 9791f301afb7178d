/* Statements of a write that need arrays whole, one by one. */
#include "rules/write/write_inner.h"

#include "protocol/template.h"

#include <stdlib.h>

static bool part_failed(const struct sequence_write *write)
{
	const struct write_entries *errors = &write->result.errors;

	return errors->count > 0 && errors->entries[errors->count - 1].index == write->sent;
}

/* mongod creates the collection before it finds an upsert's error. Here the error came before a
 * command that upserts. (An error ends a transaction, and takes the collection back.) */
static bool lacks_collection(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);

	return part_failed(write) && write->edit.write.upsert && !write->edit.sent.upsert &&
	       !command_has(&sequence->match.command, FIELD_AUTOCOMMIT);
}

/* Whatever comes of it: the collection may be there. */
static enum sequence_outcome send_create(struct sequence *sequence)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	size_t body = sequence_begin_command(sequence);

	template_write_fields(&sequence->buffer, "{create: @collection, $db: @database}",
			      fill("collection", namespace->collection),
			      fill("database", namespace->database));
	sequence_write_cursor_fields(sequence);
	sequence->step = WRITE_CREATED;
	return sequence_send_command(sequence, body);
}

enum sequence_outcome write_leave_edit(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);

	if (write->edit.folded && write->edit.id.type != 0) /* whatever the write came to */
		write_note_document(write, &write->edit.id, MOVER_EDITED);
	edit_fini(&write->edit);
	write->editing = false;
	write->next++;
	write_more_together(write);
	return write_go_on(sequence, input);
}

static enum sequence_outcome end_edit(struct sequence *sequence, const struct sequence_input *input)
{
	return lacks_collection(sequence) ? send_create(sequence)
					  : write_leave_edit(sequence, input);
}

/* As mongod does it, an error among many documents is all that the statement's answer says. */
static void forget_counts(struct sequence_write *write)
{
	write->result.n = write->n;
	write->result.modified = write->modified;
}

/* Nothing of the command has been applied, or nothing will stay of it. */
static bool leaves_nothing(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);

	return (write->result.n == 0 && !write->some) ||
	       command_has(&sequence->match.command, FIELD_AUTOCOMMIT);
}

/* What the document itself causes is its statement's error, beside others. Any other error is the
 * command's, if nothing has been applied, a driver sends the whole once more, or mongod would give
 * it up, too: else what has been applied must be told. */
static bool refuses_command(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);

	switch (write->edit.end.code) {
	case ERROR_OBJECT_TOO_LARGE:
		return false;
	case ERROR_COMMAND_NOT_SUPPORTED:
	case ERROR_DATA_CORRUPTION:
		return write->count == 1 && leaves_nothing(sequence);
	case ERROR_WRITE_CONFLICT:
		return command_has(&sequence->match.command, FIELD_TXN_NUMBER) ||
		       leaves_nothing(sequence);
	case ERROR_MAX_TIME_EXPIRED:
		return true;
	default:
		return leaves_nothing(sequence);
	}
}

/* Of the statement that was sent last, or was to be. */
void write_add_failure(struct sequence *sequence, enum error_code code, const char *message)
{
	struct sequence_write *write = write_of(sequence);

	write_result_add_error(&write->result, write->sent, code, bytes_of(message));
	sequence->end.failed = true;
	sequence->end.code = code;
}

/* Nothing of this statement was applied by what was asked last. */
enum sequence_outcome write_refuse_edit(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct edit *edit = &write->edit;
	char message[SEQUENCE_MESSAGE];
	bool sound = edit->end.reply.raw.length == 0 ||
		     (edit->end.reply.kind == PACKET_MESSAGE &&
		      write_result_add(&write->result, &edit->end.reply, write->sent));

	if (!sound || write->result.reply_count == 0 || refuses_command(sequence))
		return sequence_refuse_write(sequence, edit->end.code, edit->end.message);
	write_add_failure(sequence, edit->end.code,
			  edit->end.code == ERROR_OBJECT_TOO_LARGE
				  ? edit->end.message
				  : sequence_name_rule(sequence, edit->end.message, message));
	forget_counts(write);
	return end_edit(sequence, input);
}

/* The server's error to a command of Spillway's. Where mongod would not give up the whole, and what
 * was applied must be told, it is the statement's. */
static enum sequence_outcome fail_edit(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct packet *reply = &write->edit.end.reply;
	const struct reply_summary *summary = &reply->summary;
	struct element labels;

	if (leaves_nothing(sequence) || !summary->readable || sequence_ends_all(summary->code) ||
	    document_find(reply->message.body, "errorLabels", &labels))
		return sequence_pass_helper_error(sequence, reply, write_wrong_label(sequence));
	write_result_add_error(&write->result, write->sent, (int32_t)summary->code,
			       summary->message);
	forget_counts(write);
	return end_edit(sequence, input);
}

/* The filter's own fault, as a read has met it. */
static enum sequence_outcome reject_edit(struct sequence *sequence,
					 const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct edit *edit = &write->edit;
	enum sequence_outcome outcome;

	if (edit->end.reply.raw.length > 0 &&
	    !write_take_part(sequence, input, &edit->end.reply, &outcome))
		return outcome;
	require(edit->end.failure.summary.readable);
	write_result_add_error(&write->result, write->sent, edit_cause_code(edit),
			       edit_cause(edit));
	forget_counts(write);
	return end_edit(sequence, input);
}

static enum sequence_outcome send_edit(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);
	const struct write_command command = {.documents = write->documents,
					      .count = write->count,
					      .selection = {write->next, 1},
					      .part = true,
					      .answered = true,
					      .filters = buffer_view(&write->edit.sent.filter),
					      .upsert = write->edit.sent.upsert,
					      .update = write->edit.sent.update};

	write_command_make(sequence, &command);
	return SEQUENCE_SEND;
}

/* For several documents: the statement as often as there are filters. */
static enum sequence_outcome send_together(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);
	size_t count = write->edit.sent.count;
	auto_free struct bytes *same = must_calloc(count, sizeof(*same));
	const struct write_command command = {.documents = same,
					      .count = count,
					      .selection = {0, count},
					      .part = true,
					      .answered = true,
					      .filters = buffer_view(&write->edit.sent.filter),
					      .repeats = true};

	for (size_t i = 0; i < count; i++)
		same[i] = write->documents[write->next];
	write_command_make(sequence, &command);
	return SEQUENCE_SEND;
}

enum sequence_outcome write_edit_on(struct sequence *sequence, const struct sequence_input *input,
				    struct packet *reply)
{
	struct sequence_write *write = write_of(sequence);
	enum sequence_outcome outcome;
	enum edit_outcome step;

	sequence->step = WRITE_EDITS;
	for (;; reply = NULL) {
		step = edit_next(&write->edit, input, reply);
		switch (step) {
		case EDIT_WRITE:
			return write->edit.sent.count > 0 ? send_together(sequence)
							  : send_edit(sequence);
		case EDIT_SEND:
			return SEQUENCE_SEND;
		case EDIT_PAUSE:
			return SEQUENCE_PAUSE;
		case EDIT_FAILED:
			return fail_edit(sequence, input);
		case EDIT_REFUSED:
			return write_refuse_edit(sequence, input);
		case EDIT_REJECTED:
			return reject_edit(sequence, input);
		case EDIT_PART:
		case EDIT_DONE:
			if (!write_take_part(sequence, input, &write->edit.end.reply, &outcome))
				return outcome;
			write_note_edit(write);
			if (part_failed(write))
				forget_counts(write);
			if (step == EDIT_DONE || part_failed(write))
				return end_edit(sequence, input);
		}
	}
}

enum sequence_outcome write_begin_edit(struct sequence *sequence,
				       const struct sequence_input *input,
				       const struct whole_write *edit)
{
	struct sequence_write *write = write_of(sequence);

	write->sent = write->next;
	write->n = write->result.n;
	write->modified = write->result.modified;
	edit_init(&write->edit, sequence, edit);
	write->editing = true;
	return write_edit_on(sequence, input, NULL);
}
