/* insert, update and delete on a ruled namespace: the client's bytes, with the state reset where an
 * array is set as a whole; statements that need whole arrays one by one, as edits; the mover is
 * told. */
#include "rules/write/write_inner.h"

#include "rules/sequence/notes.h"

#include <stdlib.h>

bool write_is_edit(const struct sequence *sequence, struct bytes document, struct whole_write *edit)
{
	bool deletes = write_statements_field(sequence) == FIELD_DELETES;

	return sequence->match.edits && whole_write_of_statement(document, deletes, edit) &&
	       whole_write_wanted(edit, sequence->match.namespace);
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

/* A plain append to a known document: its tail can be moved, and the statement, which left no
 * history, sent once more. */
static bool movable(struct sequence *sequence, size_t index)
{
	struct sequence_write *write = write_of(sequence);

	if (index >= write->count || write->moved[index])
		return false;
	write->moved[index] = true;
	notes_begin(&sequence->move.note, sequence, NULL);
	return write_note_statement(sequence, write->documents[index], &sequence->move.note) &&
	       sequence->move.note.reason == MOVER_APPENDED && sequence->move.note.id_type != 0;
}

/* Finds the client's statements, once. */
static void collect_statements(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);
	struct statements statements;
	struct bytes document;
	size_t room = 0;
	bool broken;

	if (write->documents || !write_open_statements(sequence, &statements))
		return;
	while (statements_next(&statements, &document, &broken)) {
		if (write->count == room) {
			room = room ? 2 * room : 16;
			write->documents =
				must_realloc(write->documents, room * sizeof(*write->documents));
		}
		write->documents[write->count++] = document;
	}
	write->moved = must_calloc(write->count, sizeof(*write->moved));
}

/* An error of the whole that moving may mend: its statement's document is to be moved. */
static bool find_movable(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);

	while (write->looked_at < write->result.errors.count) {
		const struct write_entry *error = &write->result.errors.entries[write->looked_at++];

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

	write->applied = true;
	if (write->result.reply_count == 0 &&
	    !write_result_add(&write->result, &write->rejected.lender, 0))
		return sequence_pass(sequence, &write->rejected.lender);
	sequence->output = (struct bytes){0};
	if (!sequence->match.facts.answered)
		return SEQUENCE_DONE;
	sequence->buffer.length = 0;
	if (concern_is_unacknowledged(&sequence->match.command.fields[FIELD_WRITE_CONCERN]))
		write_result_append_nothing(&write->result, &sequence->buffer,
					    sequence->request.header.request_id);
	else
		write_result_append(&write->result, &sequence->buffer,
				    sequence->request.header.request_id);
	sequence->output = buffer_view(&sequence->buffer);
	return SEQUENCE_DONE;
}

/* ---- the client's statements, run by run ---- */

static void send_statements(struct sequence *sequence, size_t first, size_t count)
{
	struct sequence_write *write = write_of(sequence);
	const struct write_command command = {.documents = write->documents,
					      .count = write->count,
					      .selection = {first, count},
					      .part = sequence->match.edits || sequence->begun,
					      .answered = sequence->match.edits};

	sequence->step = WRITE_ASKED;
	write->sent = first;
	write->sending = count;
	write_command_make(sequence, &command);
}

bool write_is_rejected(const struct sequence_write *write, size_t index)
{
	struct bytes text;
	int32_t code;

	return refused_statements_find(&write->rejected, index, &code, &text);
}

static enum sequence_outcome send_run(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);
	size_t first = write->next;
	struct whole_write edit;

	while (write->next < write->count && !write_is_rejected(write, write->next) &&
	       !write_is_edit(sequence, write->documents[write->next], &edit))
		write->next++;
	send_statements(sequence, first, write->next - first);
	return SEQUENCE_SEND;
}

/* In a transaction nothing comes behind an error. */
bool write_is_ordered(const struct sequence *sequence)
{
	const struct element *ordered = &sequence->match.command.fields[FIELD_ORDERED];

	return ordered->type == 0 || element_is_nothing(ordered) || element_truth(ordered) ||
	       command_has(&sequence->match.command, FIELD_AUTOCOMMIT);
}

/* mongod's error in the place of the next statement. */
static bool take_rejected(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);
	struct bytes text;
	int32_t code;

	if (!refused_statements_find(&write->rejected, write->next, &code, &text))
		return false;
	write_result_add_error(&write->result, write->next++, code, text);
	sequence->end.failed = true; /* a transaction ends with the error */
	return true;
}

static bool is_over(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);

	return write->next == write->count ||
	       (write_is_ordered(sequence) && write->result.errors.count > 0);
}

enum sequence_outcome write_go_on(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct whole_write edit;
	size_t together;

	if (find_movable(sequence)) {
		sequence->step = WRITE_MOVED;
		return sequence_begin_move(sequence);
	}
	while (!is_over(sequence) && take_rejected(sequence))
		;
	if (is_over(sequence))
		return answer(sequence);
	if (sequence_time_left(sequence, input) == 0)
		return sequence_refuse_write(sequence, ERROR_MAX_TIME_EXPIRED,
					     "operation exceeded time limit");
	together = write_count_together(sequence);
	if (together > 1)
		return write_send_together(sequence, together);
	if (write_is_edit(sequence, write->documents[write->next], &edit))
		return write_begin_edit(sequence, input, &edit);
	return send_run(sequence);
}

/* The driver retries the whole: history answers what is done, and some is. */
const char *write_wrong_label(struct sequence *sequence)
{
	const struct sequence_write *write = write_of(sequence);

	return write->result.n > 0 || write->some ? "NoWritesPerformed" : NULL;
}

static enum sequence_outcome send_less(struct sequence *sequence,
				       const struct sequence_input *input);

/* mongod takes no body of a command above 16 MB, and ours is larger than the client's. */
static bool is_too_long(const struct sequence_write *write, const struct reply_summary *summary)
{
	return summary->code == ERROR_OBJECT_TOO_LARGE && write->result.reply_count > 0;
}

/* The reply to a run, or to one edit. */
bool write_take_part(struct sequence *sequence, const struct sequence_input *input,
		     struct packet *reply, enum sequence_outcome *outcome)
{
	struct sequence_write *write = write_of(sequence);
	size_t retried = write->result.retried.length;

	if (!reply->summary.readable) {
		*outcome = sequence_pass(sequence, reply);
		return false;
	}
	if (!reply->summary.ok) {
		if (is_too_long(write, &reply->summary)) {
			packet_fini(reply); /* an edit's own */
			*outcome = send_less(sequence, input);
			return false;
		}
		*outcome = sequence_pass_relabelled(sequence, reply, NULL,
						    write_wrong_label(sequence));
		return false;
	}
	if (write_result_add(&write->result, reply, write->sent)) {
		if (write->sent < write->asked) /* we have asked twice, not the client */
			write->result.retried.length = retried;
		return true;
	}
	*outcome = sequence_pass(sequence, reply);
	return false;
}

/* What was to be sent is too long, and what was applied before must be told: several statements go
 * by halves, and one that is too long by itself fails alone. */
static enum sequence_outcome send_less(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);

	if (write->editing) {
		write->edit.end.code = ERROR_OBJECT_TOO_LARGE;
		write->edit.end.message = SEQUENCE_OUTGROWN;
		return write_refuse_edit(sequence, input);
	}
	if (sequence->step == WRITE_TOGETHER) {
		write->most = write->sending / 2;
		return write_go_on(sequence, input);
	}
	if (sequence->step == WRITE_ASKED && sequence->match.edits && write->sending > 1) {
		write->next = write->sent + write->sending / 2;
		send_statements(sequence, write->sent, write->sending / 2);
		return SEQUENCE_SEND;
	}
	if (write->result.reply_count == 0)
		return sequence_fail(sequence, ERROR_OBJECT_TOO_LARGE, SEQUENCE_OUTGROWN, NULL);
	write->moved[write->sent] = true; /* no move of its document would help */
	write_add_failure(sequence, ERROR_OBJECT_TOO_LARGE, SEQUENCE_OUTGROWN);
	return write_go_on(sequence, input);
}

/* ---- the story ---- */

static bool any_resets(const struct sequence *sequence)
{
	struct statements statements;
	struct statement statement;
	struct bytes document;
	bool broken;

	if (!write_open_statements(sequence, &statements))
		return false;
	while (statements_next(&statements, &document, &broken))
		if (write_statement_resets(sequence, document, &statement))
			return true;
	return false;
}

static enum sequence_outcome begin(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);

	if (sequence->match.edits) {
		collect_statements(sequence);
		if (!write_all_sound(sequence))
			return write_probe(sequence);
		return write_judge(sequence, input);
	}
	sequence->step = WRITE_ASKED;
	if (!any_resets(sequence))
		return sequence_send_request(sequence);
	collect_statements(sequence);
	send_statements(sequence, 0, write->count);
	return sequence->match.facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

/* The first reply to the whole command: nearly always it stands as it is. In a transaction the
 * error has aborted everything and must surface. */
static enum sequence_outcome take_first(struct sequence *sequence,
					const struct sequence_input *input, struct packet *reply)
{
	struct sequence_write *write = write_of(sequence);

	write->main = packet_steal(reply);
	sequence->output = buffer_view(&write->main.raw);
	if (!write->main.summary.readable)
		return SEQUENCE_DONE;
	write->applied = write->main.summary.ok;
	if (!write->applied || !has_size_error(&write->main.summary) ||
	    write_statements_field(sequence) != FIELD_UPDATES ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return SEQUENCE_DONE;
	collect_statements(sequence);
	write->next = write->count;
	if (!write_result_add(&write->result, &write->main, 0))
		return SEQUENCE_DONE;
	return write_go_on(sequence, input);
}

static enum sequence_outcome take_reply(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	enum sequence_outcome outcome;

	if (write->result.reply_count == 0 && !sequence->match.edits)
		return take_first(sequence, input, input->reply);
	return write_take_part(sequence, input, input->reply, &outcome)
		       ? write_go_on(sequence, input)
		       : outcome;
}

/* An ordered command had stopped at the refused statement: all from there on go out; else that one
 * alone. Where the document could not be moved, or the client's time is over, its error stands. */
static enum sequence_outcome take_moved(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);

	if (sequence_next_move(sequence, input))
		return SEQUENCE_MOVE;
	if (!sequence->move.helped || sequence_time_left(sequence, input) == 0)
		return write_go_on(sequence, input);
	write_result_forget_error(&write->result, write->refused);
	write->looked_at--;
	if (write_is_ordered(sequence)) {
		write->next = write->refused;
		return write_go_on(sequence, input);
	}
	send_statements(sequence, write->refused, 1);
	return SEQUENCE_SEND;
}

static enum sequence_outcome write_resume(struct sequence *sequence,
					  const struct sequence_input *input)
{
	switch ((enum write_step)sequence->step) {
	case WRITE_BEGIN:
		return begin(sequence, input);
	case WRITE_ASKED:
		return take_reply(sequence, input);
	case WRITE_EDITS:
		return write_edit_on(sequence, input, input->reply);
	case WRITE_TOGETHER:
		return write_take_together(sequence, input);
	case WRITE_MOVED:
		return take_moved(sequence, input);
	case WRITE_PROBED:
		return write_take_probe(sequence, input->reply);
	case WRITE_REFUSED:
		return write_take_judgement(sequence, input);
	case WRITE_CREATED:
		return write_leave_edit(sequence, input);
	}
	require(!"a step of another sequence");
}

static void write_fini(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);

	packet_fini(&write->main);
	write_result_fini(&write->result);
	free(write->documents);
	free(write->moved);
	if (write->editing)
		edit_fini(&write->edit);
	buffer_fini(&write->edited);
	refused_statements_fini(&write->rejected);
}

static size_t write_memory(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);

	return write->count * sizeof(*write->documents) + write_result_memory(&write->result) +
	       (write->editing ? edit_memory(&write->edit) : 0);
}

struct sequence *sequence_write_new(void)
{
	struct sequence_write *write = must_calloc(1, sizeof(*write));

	write->most = TOGETHER_MAX;
	write->sequence.resume = write_resume;
	write->sequence.notes = write_notes;
	write->sequence.fini = write_fini;
	write->sequence.outgrown = send_less;
	write->sequence.memory = write_memory;
	return &write->sequence;
}
