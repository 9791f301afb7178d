/* insert, update and delete on a ruled namespace: the client's bytes, with the state reset where an
 * array is set as a whole; statements that need whole arrays one by one, as edits; the mover is
 * told. */
#include "protocol/writer.h"
#include "rules/edit/edit.h"
#include "rules/write/write_result.h"
#include "rules/sequence/notes.h"
#include "rules/sequence/own_error.h"
#include "rules/sequence/refused_statements.h"
#include "rules/write/rewrite.h"

#include <stdlib.h>

#define TOGETHER_MAX 100      /* edits in one command: where one misses, all are asked again */
#define STATEMENTS_MAX 100000 /* of a command, as mongod */

enum write_step {
	WRITE_BEGIN,
	WRITE_ASKED,    /* the client's command, or a run of its statements */
	WRITE_EDITS,    /* what the edit sent */
	WRITE_TOGETHER, /* edits of several documents, as if all were whole */
	WRITE_MOVED,    /* the mover, after mongod's refusal of a document for its size */
	WRITE_PROBED,   /* the whole command with filters that match nothing */
	WRITE_REFUSED,  /* what mongod says of a statement that is to be refused */
	WRITE_CREATED,  /* the collection, for an upsert that failed */
};

struct sequence_write {
	struct sequence sequence;   /* first: the two are one pointer */
	struct packet main;         /* the first reply, as long as it can stand for the whole */
	struct write_result result; /* once there is more than one */
	struct bytes *documents;    /* the client's statements */
	size_t count;
	size_t next;      /* the first statement that has not been sent */
	size_t sent;      /* the first one of those that were sent last */
	size_t looked_at; /* errors of `result`: those before were not, or are no longer, movable */
	size_t refused;   /* the statement that was too large; its document is moved */
	int64_t time_left; /* milliseconds, for the rest of the command; -1: no limit */
	bool *moved;       /* by statement: once is enough */
	bool applied;
	size_t sending; /* statements in the command that was sent last */
	size_t most;    /* edits that go together next */
	size_t asked;   /* the first statement that has not been sent with others */
	struct edit edit;
	bool editing;
	int64_t n, modified;  /* of the statements before the one being edited */
	struct buffer edited; /* documents {_id, reason, elements}, one behind the other */
	struct refused_statements rejected; /* by mongod */
};

static struct sequence_write *write_of(struct sequence *sequence)
{
	return (struct sequence_write *)(void *)sequence;
}

static const struct sequence_write *const_write_of(const struct sequence *sequence)
{
	return (const struct sequence_write *)(const void *)sequence;
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

static bool is_edit(const struct sequence *sequence, struct bytes document,
		    struct whole_write *edit)
{
	bool deletes = write_statements_field(sequence) == FIELD_DELETES;

	return sequence->match.edits && whole_write_of_statement(document, deletes, edit) &&
	       whole_write_wanted(edit, sequence->match.namespace);
}

static bool note_statement(const struct sequence *sequence, struct bytes document,
			   struct mover_note *note)
{
	struct statement statement;
	struct whole_write edit;
	struct update update;

	if (write_statements_field(sequence) == FIELD_DOCUMENTS)
		return note_insert(sequence, document, note);
	if (!statement_parse(document, &statement) || statement.q.type != BSON_BYTE_DOCUMENT)
		return false;
	notes_identify(note, statement.q.value, &statement.collation);
	if (write_statements_field(sequence) == FIELD_DELETES) {
		note->reason = MOVER_DELETED;
		return note->id_type != 0; /* the sweep finds what others leave */
	}
	if (is_edit(sequence, document, &edit))
		return false; /* they leave notes of their own */
	update = update_classify(&statement.u, sequence->match.namespace);
	return notes_of_update(&update, note);
}

static const struct packet *last_reply(const struct sequence_write *write)
{
	if (write->result.reply_count > 0)
		return &write->result.replies[write->result.reply_count - 1];
	return write->applied ? &write->main : NULL;
}

static void take_for_each(const struct sequence *sequence, struct mover_note *note,
			  void (*take)(void *context, const struct mover_note *note), void *context)
{
	for (size_t i = 0; i < sequence->match.namespace->target_count; i++) {
		note->rule = sequence->match.namespace->targets[i].rule;
		take(context, note);
	}
}

/* An edit that failed or was cut on its way may have folded its document back. */
static void note_unfinished(const struct sequence *sequence, const struct mover_note *common,
			    void (*take)(void *context, const struct mover_note *note),
			    void *context)
{
	const struct sequence_write *write = const_write_of(sequence);
	struct mover_note note = *common;

	if (!write->editing || !(write->edit.folded || sequence->cut) || write->edit.id.type == 0)
		return;
	note.reason = MOVER_EDITED;
	note.id_type = write->edit.id.type;
	note.id = write->edit.id.value;
	take_for_each(sequence, &note, take, context);
}

static int64_t note_number(struct bytes document, const char *name)
{
	struct element element;
	int64_t value;

	return document_find(document, name, &element) && element_integer(&element, &value) ? value
											    : 0;
}

static void note_edits(const struct sequence *sequence, const struct mover_note *common,
		       void (*take)(void *context, const struct mover_note *note), void *context)
{
	struct bytes left = buffer_view(&const_write_of(sequence)->edited), document;

	while (message_next_document(&left, &document)) {
		struct mover_note note = *common;
		struct element id, reason;
		int64_t value;

		if (!document_find(document, "_id", &id) ||
		    !document_find(document, "reason", &reason) ||
		    !element_integer(&reason, &value))
			continue;
		note.id_type = id.type;
		note.id = id.value;
		note.reason = (enum mover_reason)value;
		note.elements = note_number(document, "elements");
		note.bytes = note_number(document, "bytes");
		take_for_each(sequence, &note, take, context);
	}
}

static void write_notes(const struct sequence *sequence,
			void (*take)(void *context, const struct mover_note *note), void *context)
{
	const struct sequence_write *write = const_write_of(sequence);
	struct statements statements;
	struct mover_note common, note;
	struct bytes document;
	bool broken;

	notes_begin(&common, sequence, last_reply(write));
	note_edits(sequence, &common, take, context);
	note_unfinished(sequence, &common, take, context);
	if ((sequence->match.facts.answered && !write->applied && !sequence->cut) ||
	    !write_open_statements(sequence, &statements))
		return;
	while (statements_next(&statements, &document, &broken)) {
		note = common;
		if (note_statement(sequence, document, &note))
			take_for_each(sequence, &note, take, context);
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

/* A plain append to a known document: its tail can be moved, and the statement, which left no
 * history, sent once more. */
static bool movable(struct sequence *sequence, size_t index)
{
	struct sequence_write *write = write_of(sequence);

	if (index >= write->count || write->moved[index])
		return false;
	write->moved[index] = true;
	notes_begin(&sequence->move, sequence, NULL);
	return note_statement(sequence, write->documents[index], &sequence->move) &&
	       sequence->move.reason == MOVER_APPENDED && sequence->move.id_type != 0;
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
					      .time_left = write->time_left,
					      .answered = sequence->match.edits};

	sequence->step = WRITE_ASKED;
	write->sent = first;
	write->sending = count;
	write_command_make(sequence, &command);
}

static bool is_rejected(const struct sequence_write *write, size_t index)
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

	while (write->next < write->count && !is_rejected(write, write->next) &&
	       !is_edit(sequence, write->documents[write->next], &edit))
		write->next++;
	send_statements(sequence, first, write->next - first);
	return SEQUENCE_SEND;
}

/* In a transaction nothing comes behind an error. */
static bool is_ordered(const struct sequence *sequence)
{
	const struct element *ordered = &sequence->match.command.fields[FIELD_ORDERED];

	return ordered->type == 0 || element_truth(ordered) ||
	       command_has(&sequence->match.command, FIELD_AUTOCOMMIT);
}

static enum sequence_outcome begin_edit(struct sequence *sequence,
					const struct sequence_input *input,
					const struct whole_write *edit);
static size_t count_together(const struct sequence *sequence);
static enum sequence_outcome send_together(struct sequence *sequence, size_t count);

/* mongod's error in the place of the next statement. */
static bool take_rejected(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);
	struct bytes text;
	int32_t code;

	if (!refused_statements_find(&write->rejected, write->next, &code, &text))
		return false;
	write_result_add_error(&write->result, write->next++, code, text);
	sequence->failed = true; /* a transaction ends with the error */
	return true;
}

static bool is_over(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);

	return write->next == write->count ||
	       (is_ordered(sequence) && write->result.errors.count > 0);
}

static enum sequence_outcome go_on(struct sequence *sequence, const struct sequence_input *input)
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
	write->time_left = sequence_time_left(sequence, input);
	if (write->time_left == 0)
		return sequence_refuse_write(sequence, ERROR_MAX_TIME_EXPIRED,
					     "operation exceeded time limit");
	together = count_together(sequence);
	if (together > 1)
		return send_together(sequence, together);
	if (is_edit(sequence, write->documents[write->next], &edit))
		return begin_edit(sequence, input, &edit);
	return send_run(sequence);
}

/* The driver retries the whole: history answers what is done, and some is. */
static const char *wrong_label(struct sequence *sequence)
{
	return write_of(sequence)->result.n > 0 ? "NoWritesPerformed" : NULL;
}

static enum sequence_outcome send_less(struct sequence *sequence,
				       const struct sequence_input *input);

/* mongod takes no body of a command above 16 MB, and ours is larger than the client's. */
static bool is_too_long(const struct sequence_write *write, const struct reply_summary *summary)
{
	return summary->code == ERROR_OBJECT_TOO_LARGE && write->result.reply_count > 0;
}

/* The reply to a run, or to one edit. */
static bool take_part(struct sequence *sequence, const struct sequence_input *input,
		      struct packet *reply, enum sequence_outcome *outcome)
{
	struct sequence_write *write = write_of(sequence);
	size_t retried = write->result.retried.length;
	struct reply_summary summary;

	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary)) {
		*outcome = sequence_pass(sequence, reply);
		return false;
	}
	if (!summary.ok) {
		if (is_too_long(write, &summary)) {
			packet_fini(reply); /* an edit's own */
			*outcome = send_less(sequence, input);
			return false;
		}
		*outcome = sequence_pass_relabelled(sequence, reply, NULL, wrong_label(sequence));
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

/* ---- edits ---- */

/* The document that the reply to an edit says was inserted. */
static bool upserted_id(const struct packet *reply, struct element *id)
{
	struct element array, entry;
	struct cursor cursor;

	return document_find(reply->message.body, "upserted", &array) &&
	       array.type == BSON_BYTE_ARRAY && cursor_open(&cursor, array.value) &&
	       cursor_next(&cursor, &entry) == CURSOR_ELEMENT && entry.type == BSON_BYTE_DOCUMENT &&
	       document_find(entry.value, "_id", id);
}

/* Of a check-and-set: what it pushes, and the one value of an $addToSet. */
static void note_appended(const struct sequence_write *write, struct buffer *out)
{
	const struct element *u = &write->edit.write.update;
	struct update update = update_classify(u, write->sequence.match.namespace);
	bool more = update.kind == UPDATE_EDIT;

	writer_int64(out, "elements", update.elements + more);
	writer_int64(out, "bytes", more ? (int64_t)u->value.length : update.bytes);
}

static void note_document(struct sequence_write *write, const struct element *id,
			  enum mover_reason reason)
{
	struct buffer *out = &write->edited;
	size_t start = writer_open(out);

	writer_renamed(out, "_id", id);
	writer_int32(out, "reason", reason);
	if (reason == MOVER_APPENDED)
		note_appended(write, out);
	writer_close(out, start);
}

static enum mover_reason reason_of(const struct edit *edit)
{
	if (edit->write.update.type == 0)
		return MOVER_DELETED;
	if (edit->facts.sets)
		return MOVER_CHANGED;
	return edit->swapped ? MOVER_APPENDED : MOVER_EDITED;
}

/* Behind take_part: the reply is the last one. */
static void note_edit(struct sequence_write *write)
{
	const struct edit *edit = &write->edit;
	struct element id = edit->id;
	enum mover_reason reason = reason_of(edit);

	if (upserted_id(last_reply(write), &id) || id.type != 0)
		note_document(write, &id, reason);
}

static void more_together(struct sequence_write *write)
{
	write->most = write->most > TOGETHER_MAX / 2 ? TOGETHER_MAX : 2 * write->most;
}

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

	return part_failed(write) && write->edit.write.upsert && !write->edit.upsert &&
	       !command_has(&sequence->match.command, FIELD_AUTOCOMMIT);
}

/* Whatever comes of it: the collection may be there. */
static enum sequence_outcome send_create(struct sequence *sequence)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	size_t body = sequence_begin_command(sequence);

	writer_string(&sequence->buffer, "create", namespace->collection);
	writer_string(&sequence->buffer, "$db", namespace->database);
	sequence_write_cursor_fields(sequence);
	sequence->step = WRITE_CREATED;
	return sequence_send_command(sequence, body);
}

static enum sequence_outcome leave_edit(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);

	if (write->edit.folded && write->edit.id.type != 0) /* whatever the write came to */
		note_document(write, &write->edit.id, MOVER_EDITED);
	edit_fini(&write->edit);
	write->editing = false;
	write->next++;
	more_together(write);
	return go_on(sequence, input);
}

static enum sequence_outcome end_edit(struct sequence *sequence, const struct sequence_input *input)
{
	return lacks_collection(sequence) ? send_create(sequence) : leave_edit(sequence, input);
}

/* As mongod does it, an error among many documents is all that the statement's answer says. */
static void forget_counts(struct sequence_write *write)
{
	write->result.n = write->n;
	write->result.modified = write->modified;
}

/* Where a driver sends the whole once more, or nothing has been applied, the error is the
 * command's; so is what will be refused again, where it is all that was asked for. */
static bool refuses_command(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);

	if (write->edit.code == ERROR_OBJECT_TOO_LARGE)
		return false;
	if (write->edit.code == ERROR_COMMAND_NOT_SUPPORTED)
		return write->count == 1;
	return command_has(&sequence->match.command, FIELD_TXN_NUMBER) || write->result.n == 0;
}

/* Of the statement that was sent last, or was to be. */
static void add_failure(struct sequence *sequence, enum error_code code, const char *message)
{
	struct sequence_write *write = write_of(sequence);

	write_result_add_error(&write->result, write->sent, code, bytes_of(message));
	sequence->failed = true;
	sequence->error = code;
}

/* Nothing of this statement was applied by what was asked last. */
static enum sequence_outcome refuse_edit(struct sequence *sequence,
					 const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct edit *edit = &write->edit;
	char message[SEQUENCE_MESSAGE];
	bool sound = edit->reply.raw.length == 0 ||
		     (edit->reply.kind == PACKET_MESSAGE &&
		      write_result_add(&write->result, &edit->reply, write->sent));

	if (!sound || write->result.reply_count == 0 || refuses_command(sequence))
		return sequence_refuse_write(sequence, edit->code, edit->message);
	add_failure(sequence, edit->code,
		    edit->code == ERROR_OBJECT_TOO_LARGE
			    ? edit->message
			    : sequence_name_rule(sequence, edit->message, message));
	forget_counts(write);
	return end_edit(sequence, input);
}

/* What was to be sent is too long, and what was applied before must be told: several statements go
 * by halves, and one that is too long by itself fails alone. */
static enum sequence_outcome send_less(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);

	if (write->editing) {
		write->edit.code = ERROR_OBJECT_TOO_LARGE;
		write->edit.message = SEQUENCE_OUTGROWN;
		return refuse_edit(sequence, input);
	}
	if (sequence->step == WRITE_TOGETHER) {
		write->most = write->sending / 2;
		return go_on(sequence, input);
	}
	if (sequence->step == WRITE_ASKED && sequence->match.edits && write->sending > 1) {
		write->next = write->sent + write->sending / 2;
		send_statements(sequence, write->sent, write->sending / 2);
		return SEQUENCE_SEND;
	}
	if (write->result.reply_count == 0)
		return sequence_fail(sequence, ERROR_OBJECT_TOO_LARGE, SEQUENCE_OUTGROWN, NULL);
	write->moved[write->sent] = true; /* no move of its document would help */
	add_failure(sequence, ERROR_OBJECT_TOO_LARGE, SEQUENCE_OUTGROWN);
	return go_on(sequence, input);
}

/* The filter's own fault, as a read has met it. */
static enum sequence_outcome reject_edit(struct sequence *sequence,
					 const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct edit *edit = &write->edit;
	struct reply_summary summary;
	enum sequence_outcome outcome;

	if (edit->reply.raw.length > 0 && !take_part(sequence, input, &edit->reply, &outcome))
		return outcome;
	require(reply_summarise(edit->failure.message.body, &summary));
	write_result_add_error(&write->result, write->sent, (int32_t)summary.code,
			       edit_cause(edit));
	forget_counts(write);
	return end_edit(sequence, input);
}

static enum sequence_outcome send_edit(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	const struct write_command command = {.documents = write->documents,
					      .count = write->count,
					      .selection = {write->next, 1},
					      .part = true,
					      .time_left = sequence_time_left(sequence, input),
					      .answered = true,
					      .filters = buffer_view(&write->edit.filter),
					      .upsert = write->edit.upsert,
					      .update = write->edit.update};

	write_command_make(sequence, &command);
	return SEQUENCE_SEND;
}

static enum sequence_outcome edit_on(struct sequence *sequence, const struct sequence_input *input,
				     struct packet *reply)
{
	struct sequence_write *write = write_of(sequence);
	enum sequence_outcome outcome;

	sequence->step = WRITE_EDITS;
	for (;; reply = NULL) {
		switch (edit_next(&write->edit, sequence, input, reply)) {
		case EDIT_WRITE:
			return send_edit(sequence, input);
		case EDIT_SEND:
			return SEQUENCE_SEND;
		case EDIT_PAUSE:
			return SEQUENCE_PAUSE;
		case EDIT_FAILED:
			return sequence_pass_helper_error(sequence, &write->edit.reply,
							  wrong_label(sequence));
		case EDIT_REFUSED:
			return refuse_edit(sequence, input);
		case EDIT_REJECTED:
			return reject_edit(sequence, input);
		case EDIT_DONE:
			if (!take_part(sequence, input, &write->edit.reply, &outcome))
				return outcome;
			note_edit(write);
			if (part_failed(write))
				forget_counts(write);
			if (!write->edit.more || part_failed(write))
				return end_edit(sequence, input);
		}
	}
}

static enum sequence_outcome begin_edit(struct sequence *sequence,
					const struct sequence_input *input,
					const struct whole_write *edit)
{
	struct sequence_write *write = write_of(sequence);

	write->sent = write->next;
	write->n = write->result.n;
	write->modified = write->result.modified;
	edit_init(&write->edit, edit, sequence->match.namespace);
	write->editing = true;
	return edit_on(sequence, input, NULL);
}

/* ---- edits of several documents at once ----
 *
 * They go out together as if all arrays were whole. The reply has one `n`: where it is that of all,
 * all are done. Else half of them are asked again, and so on, and history answers for those that
 * are done. So only a retryable write's, and not in order: one that comes late must not find what
 * follows it done. */

static bool goes_together(const struct sequence *sequence, size_t index, struct element *id)
{
	const struct sequence_write *write = const_write_of(sequence);
	struct whole_write edit;

	return !is_rejected(write, index) && is_edit(sequence, write->documents[index], &edit) &&
	       !edit.many && !edit.upsert && edit.collation.type == 0 &&
	       statement_pinned_id(edit.filter.value, false, id);
}

/* Equal values have equal bytes: not so of texts under the collection's collation, nor of 0.0 and
 * -0.0. */
static bool is_told_by_bytes(const struct element *id)
{
	static const uint8_t types[] = {BSON_BYTE_OBJECT_ID, BSON_BYTE_INT32, BSON_BYTE_INT64,
					BSON_BYTE_BINARY,    BSON_BYTE_DATE,  BSON_BYTE_TIMESTAMP};

	return memchr(types, id->type, sizeof(types));
}

/* Of one type: of numbers, others may be equal. */
static bool is_another(const struct element *ids, size_t count)
{
	if (!is_told_by_bytes(&ids[count]))
		return false;
	for (size_t i = 0; i < count; i++)
		if (ids[i].type != ids[count].type || bytes_equal(ids[i].value, ids[count].value))
			return false;
	return true;
}

/* Those that were sent before are not sent with others that were not: their answers differ. */
static size_t most_together(const struct sequence_write *write)
{
	size_t left = (write->next < write->asked ? write->asked : write->count) - write->next;

	return left < write->most ? left : write->most;
}

static size_t count_together(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);
	struct element ids[TOGETHER_MAX];
	size_t count = 0, most = most_together(write);

	if (!sequence->match.edits || is_ordered(sequence) ||
	    !command_has(&sequence->match.command, FIELD_TXN_NUMBER))
		return 0;
	while (count < most && goes_together(sequence, write->next + count, &ids[count]) &&
	       is_another(ids, count))
		count++;
	return count;
}

static void init_edit(const struct sequence *sequence, size_t index, struct edit *edit)
{
	struct whole_write parsed;

	require(is_edit(sequence, const_write_of(sequence)->documents[index], &parsed));
	edit_init(edit, &parsed, sequence->match.namespace);
	require(edit->pinned);
}

static enum sequence_outcome send_together(struct sequence *sequence, size_t count)
{
	struct sequence_write *write = write_of(sequence);
	auto_buffer struct buffer filters = {0};
	struct write_command command = {.documents = write->documents,
					.count = write->count,
					.selection = {write->next, count},
					.part = true,
					.time_left = write->time_left,
					.answered = true};

	for (size_t i = 0; i < count; i++) {
		struct edit edit;

		init_edit(sequence, write->next + i, &edit);
		edit_write_filter(&edit);
		buffer_append(&filters, edit.filter.data, edit.filter.length);
		edit_fini(&edit);
	}
	command.filters = buffer_view(&filters);
	write->sending = count;
	write->sent = write->next;
	sequence->step = WRITE_TOGETHER;
	write_command_make(sequence, &command);
	return SEQUENCE_SEND;
}

static void note_together(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);

	for (size_t i = 0; i < write->sending; i++) {
		struct edit edit;

		init_edit(sequence, write->next + i, &edit);
		note_document(write, &edit.id, reason_of(&edit));
		edit_fini(&edit);
	}
}

/* What the client had sent before, history has told the first time. */
static void take_apart(struct sequence_write *write, struct packet *reply)
{
	struct write_result result = {0};

	if (write->next >= write->asked && write_result_add(&result, reply, 0)) {
		buffer_append(&write->result.retried, result.retried.data, result.retried.length);
		write->asked = write->next + write->sending;
	}
	write_result_fini(&result);
	write->most = write->sending / 2;
}

static enum sequence_outcome take_together(struct sequence *sequence,
					   const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct packet *reply = input->reply;
	struct reply_summary summary;
	enum sequence_outcome outcome;

	if (reply->kind == PACKET_MESSAGE && reply_summarise(reply->message.body, &summary) &&
	    summary.ok &&
	    (summary.n != (int64_t)write->sending || summary.write_errors.length > 0)) {
		take_apart(write, reply);
		return go_on(sequence, input);
	}
	if (!take_part(sequence, input, reply, &outcome))
		return outcome;
	note_together(sequence);
	write->next += write->sending;
	more_together(write);
	return go_on(sequence, input);
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

/* A statement that mongod can't read makes it refuse the whole command: before a part goes out, all
 * must be sound. */
static bool all_sound(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);
	bool deletes = write_statements_field(sequence) == FIELD_DELETES;

	if (write->count > STATEMENTS_MAX)
		return false;
	for (size_t i = 0; i < write->count; i++)
		if (!statement_is_sound(write->documents[i], deletes))
			return false;
	return true;
}

/* mongod says what is wrong with it. */
static enum sequence_outcome probe(struct sequence *sequence)
{
	/* {_id: {$in: []}} */
	static const uint8_t never[] = "\x19\0\0\0\x03_id\0\x0f\0\0\0\x04$in\0\x05\0\0\0\0\0";
	struct sequence_write *write = write_of(sequence);
	const struct write_command command = {.documents = write->documents,
					      .count = write->count,
					      .selection = {0, write->count},
					      .answered = true,
					      .filters = {never, sizeof(never)}};

	sequence->step = WRITE_PROBED;
	write_command_make(sequence, &command);
	return SEQUENCE_SEND;
}

static enum sequence_outcome take_probe(struct sequence *sequence, struct packet *reply)
{
	struct reply_summary summary;

	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary) ||
	    !summary.ok)
		return sequence_pass(sequence, reply);
	return sequence_refuse_write(sequence, ERROR_FAILED_TO_PARSE,
				     "a statement can't be read without guessing");
}

/* As a command of its own the statement would be refused. */
static bool is_refused_alone(struct sequence *sequence, size_t index)
{
	struct sequence_write *write = write_of(sequence);
	const struct write_command command = {.documents = write->documents,
					      .count = write->count,
					      .selection = {index, 1},
					      .answered = true};
	struct buffer frame;

	if (!sequence->match.refuses)
		return false;
	write_command_make(sequence, &command);
	frame = buffer_steal(&sequence->buffer);
	return !refused_statements_serves(&sequence->match, &frame);
}

/* Why the statement can't be served, or NULL. */
static const char *unserved(struct sequence *sequence, size_t index)
{
	const struct sequence_write *write = write_of(sequence);
	const char *why = NULL;
	struct whole_write edit;

	if (is_refused_alone(sequence, index))
		return sequence->match.message;
	if (is_edit(sequence, write->documents[index], &edit))
		why = whole_write_unserved(&edit, sequence->match.namespace);
	return why;
}

/* Nothing has been sent, and nothing will be. */
static enum sequence_outcome refuse_all(struct sequence *sequence)
{
	const struct match *match = &sequence->match;
	const char *why = write_of(sequence)->rejected.why;

	return why == match->message
		       ? sequence_fail(sequence, match->code, match->message, NULL)
		       : sequence_refuse_write(sequence, ERROR_COMMAND_NOT_SUPPORTED, why);
}

/* Each is written out, with all of the command's other fields. */
static bool is_long(const struct sequence *sequence)
{
	return sequence->match.refuses &&
	       const_write_of(sequence)->count >
		       REFUSED_STATEMENTS_BYTES / sequence->match.command.body.length;
}

static enum sequence_outcome ask_mongod(struct sequence *sequence)
{
	struct sequence_write *write = write_of(sequence);
	struct bytes statement = write->documents[write->rejected.judged];

	sequence->step = WRITE_REFUSED;
	if (write->rejected.questions++ < REFUSED_STATEMENTS_MOST &&
	    (sequence->match.code == 0 || sequence->match.code == ERROR_COMMAND_NOT_SUPPORTED) &&
	    own_error_can_ask_of(sequence, statement))
		return own_error_ask_of(sequence, statement);
	return refuse_all(sequence);
}

/* Before anything is sent: statements that can't be served refuse the command, unless each is one
 * that mongod refuses. */
static enum sequence_outcome judge_statements(struct sequence *sequence,
					      const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct refused_statements *rejected = &write->rejected;

	rejected->why = sequence->match.message;
	if (is_long(sequence))
		return refuse_all(sequence);
	for (; rejected->judged < write->count; rejected->judged++) {
		rejected->why = unserved(sequence, rejected->judged);
		if (rejected->why)
			return ask_mongod(sequence);
	}
	return go_on(sequence, input);
}

/* mongod was asked outside the client's transaction. In order, what stands behind the error is not
 * done. */
static enum sequence_outcome take_judgement(struct sequence *sequence,
					    const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct refused_statements *rejected = &write->rejected;

	sequence->begun = false;
	if (!own_error_said(input->reply))
		return refuse_all(sequence);
	if (write->count == 1 || !own_error_is_statements(sequence, input->reply))
		return own_error_pass(sequence, input->reply);
	refused_statements_keep(rejected, sequence, input->reply);
	rejected->judged = is_ordered(sequence) ? write->count : rejected->judged + 1;
	return judge_statements(sequence, input);
}

static enum sequence_outcome begin(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);

	if (sequence->match.edits) {
		collect_statements(sequence);
		if (!all_sound(sequence))
			return probe(sequence);
		return judge_statements(sequence, input);
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
	struct reply_summary summary = {0};

	write->main = packet_steal(reply);
	sequence->output = buffer_view(&write->main.raw);
	if (write->main.kind != PACKET_MESSAGE ||
	    !reply_summarise(write->main.message.body, &summary))
		return SEQUENCE_DONE;
	write->applied = summary.ok;
	if (!summary.ok || !has_size_error(&summary) ||
	    write_statements_field(sequence) != FIELD_UPDATES ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return SEQUENCE_DONE;
	collect_statements(sequence);
	write->next = write->count;
	if (!write_result_add(&write->result, &write->main, 0))
		return SEQUENCE_DONE;
	return go_on(sequence, input);
}

static enum sequence_outcome take_reply(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	enum sequence_outcome outcome;

	if (write->result.reply_count == 0 && !sequence->match.edits)
		return take_first(sequence, input, input->reply);
	return take_part(sequence, input, input->reply, &outcome) ? go_on(sequence, input)
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
	write->time_left = sequence_time_left(sequence, input);
	if (!sequence->move_helped || write->time_left == 0)
		return go_on(sequence, input);
	write_result_forget_error(&write->result, write->refused);
	write->looked_at--;
	if (is_ordered(sequence)) {
		write->next = write->refused;
		return go_on(sequence, input);
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
		return edit_on(sequence, input, input->reply);
	case WRITE_TOGETHER:
		return take_together(sequence, input);
	case WRITE_MOVED:
		return take_moved(sequence, input);
	case WRITE_PROBED:
		return take_probe(sequence, input->reply);
	case WRITE_REFUSED:
		return take_judgement(sequence, input);
	case WRITE_CREATED:
		return leave_edit(sequence, input);
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

	return write->count * sizeof(*write->documents) +
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
