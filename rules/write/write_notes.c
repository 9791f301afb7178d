/* What a write tells the mover: which documents grew, changed or went. */
#include "rules/write/write_inner.h"

#include "protocol/writer.h"
#include "rules/sequence/notes.h"

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

bool write_note_statement(const struct sequence *sequence, struct bytes document,
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
	if (write_is_edit(sequence, document, &edit))
		return false; /* they leave notes of their own */
	update = update_classify(&statement.u, sequence->match.namespace);
	return notes_of_update(&update, note);
}

const struct packet *write_last_reply(const struct sequence_write *write)
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

	struct bytes together = edit_together(&write->edit);
	struct element id = write->edit.id;
	bool swaps;

	if (!write->editing || !(write->edit.folded || sequence->cut) || id.type == 0)
		return;
	note.reason = MOVER_EDITED;
	if (together.length > 0)
		require(edit_together_next(&together, &id, &swaps));
	do {
		note.id_type = id.type;
		note.id = id.value;
		take_for_each(sequence, &note, take, context);
	} while (edit_together_next(&together, &id, &swaps));
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

/* Also where an error is the answer: of some statements before it the server has said so. */
static bool may_have_applied(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);

	return !sequence->match.facts.answered || write->applied || write->result.n > 0 ||
	       sequence->cut;
}

void write_notes(const struct sequence *sequence,
		 void (*take)(void *context, const struct mover_note *note), void *context)
{
	const struct sequence_write *write = const_write_of(sequence);
	struct statements statements;
	struct mover_note common, note;
	struct bytes document;
	bool broken;

	notes_begin(&common, sequence, write_last_reply(write));
	note_edits(sequence, &common, take, context);
	note_unfinished(sequence, &common, take, context);
	if (!may_have_applied(sequence) || !write_open_statements(sequence, &statements))
		return;
	while (statements_next(&statements, &document, &broken)) {
		note = common;
		if (write_note_statement(sequence, document, &note))
			take_for_each(sequence, &note, take, context);
	}
}

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

void write_note_document(struct sequence_write *write, const struct element *id,
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

enum mover_reason write_reason_of(const struct edit *edit, bool swapped)
{
	if (edit->write.update.type == 0)
		return MOVER_DELETED;
	if (edit->facts.sets)
		return MOVER_CHANGED;
	return swapped ? MOVER_APPENDED : MOVER_EDITED;
}

static void note_together(struct sequence_write *write)
{
	struct bytes together = edit_together(&write->edit);
	struct element id;
	bool swaps;

	while (edit_together_next(&together, &id, &swaps))
		write_note_document(write, &id, write_reason_of(&write->edit, swaps));
}

/* The caller has called take_part, so there is a last reply. */
void write_note_edit(struct sequence_write *write)
{
	const struct packet *reply = write_last_reply(write);
	const struct edit *edit = &write->edit;
	struct element id = edit->id;

	require(reply);
	if (edit->sent.count > 0)
		note_together(write);
	else if (upserted_id(reply, &id) || id.type != 0)
		write_note_document(write, &id,
				    write_reason_of(edit, edit->sent.purpose == EDIT_SWAPS));
}
