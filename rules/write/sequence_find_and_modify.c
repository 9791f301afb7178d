/* findAndModify: the client's command, with what a merge needs, and its image put together. */
#include "protocol/template.h"
#include "rules/stages/stage_guard.h"
#include "rules/edit/edit.h"
#include "rules/sequence/notes.h"
#include "rules/sequence/own_error.h"
#include "rules/query/projection.h"
#include "rules/query/statements.h"

#include <stdio.h>
#include <stdlib.h>

#define PLAN_ERROR "Plan executor error during findAndModify :: caused by :: "

enum modify_step {
	MODIFY_BEGIN,
	MODIFY_RIGHTS_ASKED,   /* nothing of an overflow: may the user read it? */
	MODIFY_ASKED,          /* the client's command */
	MODIFY_MOVED,          /* the mover, after mongod's refusal for size */
	MODIFY_OVERFLOW_ASKED, /* what fetch sent */
	MODIFY_EDITS,          /* what the edit sent */
	MODIFY_REFUSED,        /* what mongod says of a command that is to be refused */
};

struct sequence_modify {
	struct sequence sequence; /* first: the two are one pointer */
	struct packet main;
	struct fetch fetch;
	size_t asked; /* targets whose rights are known */
	bool denied;  /* the user may not read some target's overflow */
	bool fetching;
	bool moved;   /* once is enough */
	bool plainly; /* the client's own command has been sent for its error */
	bool applied; /* the server said ok */
	struct edit edit;
	bool editing;
	const char *unserved; /* MODIFY_REFUSED: why */
};

static struct sequence_modify *modify_of(struct sequence *sequence)
{
	return (struct sequence_modify *)(void *)sequence;
}

static bool fields_need_state(const struct sequence *sequence)
{
	const struct element *fields = &sequence->match.command.fields[FIELD_FIELDS];
	enum projection_kind kind;

	if (fields->type != BSON_BYTE_DOCUMENT)
		return false;
	kind = projection_classify(fields->value, sequence->match.namespace).kind;
	return kind == PROJECTION_INCLUDE || kind == PROJECTION_EXCLUDE;
}

static bool update_resets_state(const struct sequence *sequence)
{
	const struct element *update = &sequence->match.command.fields[FIELD_UPDATE];

	return update->type != 0 && !sequence->match.edits &&
	       update_classify(update, sequence->match.namespace).kind == UPDATE_WHOLE;
}

static bool edit_field(void *context, struct buffer *out, const struct element *field)
{
	const struct sequence *sequence = context;
	int64_t time = sequence_time_anew(sequence);

	if (element_is(field, "maxTimeMS") && time > 0) {
		writer_int64(out, "maxTimeMS", time);
		return true;
	}
	if (element_is(field, "fields") && fields_need_state(sequence)) {
		projection_write(out, "fields", field->value, sequence->match.namespace);
		return true;
	}
	if (element_is(field, "update") && update_resets_state(sequence)) {
		update_write_whole(out, "update", field, sequence->match.namespace, NULL);
		return true;
	}
	return false;
}

/* {_id: x} and no more: mongod takes the document by its _id, and never looks at the sort. */
static bool sort_is_idle(const struct edit *edit)
{
	struct cursor cursor;
	struct element field;

	return edit->named == EDIT_PINNED && edit->write.hint.type == 0 &&
	       edit->write.collation.type == 0 && cursor_open(&cursor, edit->write.filter.value) &&
	       cursor_next(&cursor, &field) == CURSOR_ELEMENT &&
	       cursor_next(&cursor, &field) == CURSOR_END;
}

/* Of what is none mongod says so. */
static bool is_switch(const struct element *option)
{
	switch (option->type) {
	case BSON_BYTE_BOOL:
	case BSON_BYTE_DOUBLE:
	case BSON_BYTE_INT32:
	case BSON_BYTE_INT64:
	case BSON_BYTE_DECIMAL:
		return true;
	default:
		return element_is_nothing(option);
	}
}

/* Beside `upsert` mongod says that this is an error. */
static bool removes(const struct sequence *sequence)
{
	return element_truth(&sequence->match.command.fields[FIELD_REMOVE]);
}

/* The client's command with the edit's filter. */
static bool edit_field_of_edit(void *context, struct buffer *out, const struct element *field)
{
	struct sequence *sequence = context;
	const struct edit *edit = &modify_of(sequence)->edit;

	if (element_is(field, "query"))
		return true;
	if (bytes_equal(field->name, sequence->match.command.first.name)) {
		writer_element(out, field);
		writer_document(out, "query", buffer_view(&edit->sent.filter));
		return true;
	}
	if (element_is(field, "upsert") && is_switch(field) && !removes(sequence)) {
		writer_bool(out, "upsert", edit->sent.upsert);
		return true;
	}
	if (element_is(field, "sort") && field->type == BSON_BYTE_DOCUMENT && sort_is_idle(edit))
		return true;
	if (element_is(field, "update") && edit->sent.update.type != 0) {
		writer_renamed(out, "update", &edit->sent.update);
		return true;
	}
	if (element_is(field, "update") && update_computes_names(field)) {
		stage_guard_write(out, "update", field);
		return true;
	}
	return sequence_has_said(sequence, field) || edit_field(context, out, field);
}

static enum sequence_outcome send_client_command(struct sequence *sequence)
{
	sequence->step = MODIFY_ASKED;
	if (!fields_need_state(sequence) && !update_resets_state(sequence) &&
	    sequence_time_anew(sequence) == 0)
		return sequence_send_request(sequence);
	sequence_write_edited(sequence, 0, edit_field, sequence);
	return sequence->match.facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

static enum sequence_outcome fail_image(struct sequence *sequence, const char *why)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	char message[512];

	snprintf(message, sizeof(message),
		 "Spillway rule '%s' on '%s.%s': the command was applied, but its image %s",
		 namespace->targets[0].rule->name, namespace->database, namespace->collection, why);
	return sequence_fail(sequence, ERROR_INCOMPLETE_TRANSACTION_HISTORY, message, NULL);
}

static enum sequence_outcome answer(struct sequence *sequence)
{
	struct sequence_modify *modify = modify_of(sequence);
	const struct message *main = &modify->main.message;
	struct buffer *out = &sequence->buffer;
	struct cursor cursor;
	struct element field;
	size_t body;

	body = sequence_begin_reply(sequence, main);
	require(cursor_open(&cursor, main->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, "value") || field.type != BSON_BYTE_DOCUMENT) {
			writer_element(out, &field);
			continue;
		}
		buffer_append(out, &(uint8_t){BSON_BYTE_DOCUMENT}, 1);
		buffer_append(out, "value", sizeof("value"));
		if (!merge_write_document(modify->fetch.merge, 0, out))
			return fail_image(
				sequence,
				merge_is_too_long(modify->fetch.merge, 0)
					? "passes the limit of a message"
					: "can no longer be completed: the array was rewritten "
					  "meanwhile, or overflow documents are missing (then "
					  "'spillway verify' names the document)");
	}
	writer_close(out, body);
	message_end(out, 0);
	if (out->length > FRAME_MAX_LENGTH)
		return fail_image(sequence, "passes the limit of a message");
	sequence->counts.merged = (int64_t)merge_spilled_count(modify->fetch.merge);
	sequence->output = buffer_view(out);
	return SEQUENCE_DONE;
}

/* The command has been applied, whatever its image's error may be: a driver that sends it again is
 * answered from history, and one that doesn't must not take it for undone. */
static enum sequence_outcome fail_fetch(struct sequence *sequence, enum fetch_outcome outcome)
{
	struct sequence_modify *modify = modify_of(sequence);
	const struct command *command = &sequence->match.command;

	if (command_has(command, FIELD_AUTOCOMMIT))
		return fetch_fail(&modify->fetch, sequence, outcome);
	if (!command_has(command, FIELD_TXN_NUMBER))
		return fail_image(sequence, "can't be read now");
	if (outcome == FETCH_FAILED && reply_is_unauthorized(&modify->fetch.failed))
		return fetch_fail(&modify->fetch, sequence, outcome); /* so would the next */
	if (outcome == FETCH_FAILED && modify->fetch.failed.kind == PACKET_MESSAGE)
		return sequence_pass_relabelled(sequence, &modify->fetch.failed,
						"RetryableWriteError", NULL);
	return sequence_fail(sequence, ERROR_MAX_TIME_EXPIRED, "operation exceeded time limit",
			     "RetryableWriteError");
}

static enum sequence_outcome fetch_on(struct sequence *sequence, const struct sequence_input *input,
				      struct packet *reply)
{
	struct sequence_modify *modify = modify_of(sequence);
	enum fetch_outcome outcome = fetch_next(&modify->fetch, sequence, input, reply);

	if (outcome == FETCH_COMPLETE)
		return answer(sequence);
	if (outcome == FETCH_BROKEN)
		return fail_image(sequence,
				  "can't be completed: an overflow document can't be read; run "
				  "'spillway verify'");
	if (outcome == FETCH_TOO_MUCH)
		return fail_image(sequence, "passes the limit of a message");
	if (outcome != FETCH_SEND)
		return fail_fetch(sequence, outcome);
	sequence->step = MODIFY_OVERFLOW_ASKED;
	return SEQUENCE_SEND;
}

/* mongod found the document too large: its tail moves, then the command is sent once more (it left
 * no history). */
static bool worth_moving(struct sequence *sequence, const struct reply_summary *summary)
{
	struct sequence_modify *modify = modify_of(sequence);

	if (modify->moved || summary->ok ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT) ||
	    (summary->code != ERROR_OBJECT_TOO_LARGE &&
	     summary->code != ERROR_BSON_OBJECT_TOO_LARGE_TO_UPDATE))
		return false;
	modify->moved = true;
	return notes_of_find_and_modify(sequence, NULL, &sequence->move.note) &&
	       sequence->move.note.reason == MOVER_APPENDED && sequence->move.note.id_type != 0;
}

/* mongod remembers the number as another command's, and quotes the one that was sent. What has a
 * history is not run: the client's own command has the same error, in its own words. */
static bool quotes_retry(const struct packet *reply)
{
	return !reply->summary.ok &&
	       bytes_contain(reply->summary.message, "findAndModify retry request:");
}

static enum sequence_outcome take_main(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_modify *modify = modify_of(sequence);
	struct element value;

	if (!input->reply->summary.readable)
		return sequence_pass(sequence, input->reply);
	if (!modify->plainly && quotes_retry(input->reply)) {
		modify->plainly = true;
		sequence->step = MODIFY_ASKED;
		return sequence_send_request(sequence);
	}
	modify->main = packet_steal(input->reply); /* stands where the move fails */
	if (worth_moving(sequence, &modify->main.summary)) {
		sequence->step = MODIFY_MOVED;
		return sequence_begin_move(sequence);
	}
	modify->applied = modify->main.summary.ok;
	if (!modify->applied || !document_find(modify->main.message.body, "value", &value) ||
	    value.type != BSON_BYTE_DOCUMENT) {
		sequence->output = buffer_view(&modify->main.raw);
		return SEQUENCE_DONE;
	}
	fetch_init(&modify->fetch, sequence->match.namespace);
	modify->fetch.most = FETCH_MOST_OF_ONE;
	modify->fetching = true;
	if (merge_add_document(modify->fetch.merge, value.value) != MERGE_TAKEN)
		return fail_image(sequence, "can't be read; run 'spillway verify'");
	if (!merge_clean(modify->fetch.merge))
		return fetch_on(sequence, input, NULL);
	sequence->output = buffer_view(&modify->main.raw);
	return SEQUENCE_DONE;
}

/* An update of a part of the array has failed, as a statement of one. */
static void write_statement_error(struct buffer *out, const struct edit *edit, struct bytes text)
{
	int32_t code = edit_cause_code(edit);
	const char *name = error_find_name(code);

	writer_double(out, "ok", 0);
	writer_text(out, "errmsg", text);
	writer_int32(out, "code", code);
	if (name)
		writer_string(out, "codeName", name);
}

static bool is_time(const struct element *field)
{
	return element_is(field, "$clusterTime") || element_is(field, "operationTime");
}

/* The error of a read that judged the filter, or of an update of a part of the array, in the words
 * of a findAndModify. */
static enum sequence_outcome reject_edit(struct sequence *sequence, const struct edit *edit)
{
	auto_buffer struct buffer text = {0};
	struct buffer *out = &sequence->buffer;
	struct bytes cause = edit_cause(edit);
	struct cursor cursor;
	struct element field;
	size_t frame, body;

	buffer_append(&text, PLAN_ERROR, strlen(PLAN_ERROR));
	buffer_append(&text, cause.data, cause.length);
	out->length = 0;
	frame = message_begin(out, edit->end.failure.header.request_id,
			      sequence->request.header.request_id, 0);
	message_begin_body(out);
	body = writer_open(out);
	require(cursor_open(&cursor, edit->end.failure.message.body));
	if (edit->end.failure.summary.ok)
		write_statement_error(out, edit, buffer_view(&text));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (edit->end.failure.summary.ok && !is_time(&field))
			continue;
		if (element_is(&field, "errmsg"))
			writer_text(out, "errmsg", buffer_view(&text));
		else
			writer_element(out, &field);
	}
	writer_close(out, body);
	message_end(out, frame);
	sequence->output = sequence->match.facts.answered ? buffer_view(out) : (struct bytes){0};
	return SEQUENCE_DONE;
}

static enum sequence_outcome edit_on(struct sequence *sequence, const struct sequence_input *input,
				     struct packet *reply)
{
	struct sequence_modify *modify = modify_of(sequence);
	struct sequence_input answered = *input;

	sequence->step = MODIFY_EDITS;
	switch (edit_next(&modify->edit, input, reply)) {
	case EDIT_WRITE:
		sequence_write_edited(sequence, MESSAGE_MORE_TO_COME, edit_field_of_edit, sequence);
		return SEQUENCE_SEND;
	case EDIT_SEND:
		return SEQUENCE_SEND;
	case EDIT_PAUSE:
		return SEQUENCE_PAUSE;
	case EDIT_FAILED:
		return sequence_pass_helper_error(sequence, &modify->edit.end.reply, NULL);
	case EDIT_REJECTED:
		return reject_edit(sequence, &modify->edit);
	case EDIT_REFUSED:
		return sequence_refuse_write(sequence, modify->edit.end.code,
					     modify->edit.end.message);
	case EDIT_PART: /* never: the command is about one document */
	case EDIT_DONE:
		break;
	}
	if (sequence->match.facts.answered) {
		answered.reply = &modify->edit.end.reply;
		return take_main(sequence, &answered);
	}
	modify->main = packet_steal(&modify->edit.end.reply);
	modify->applied = true;
	sequence->output = (struct bytes){0};
	return SEQUENCE_DONE;
}

/* ---- whether the image can be completed ---- */

static bool image_has_arrays(const struct sequence *sequence)
{
	const struct element *fields = &sequence->match.command.fields[FIELD_FIELDS];

	return fields->type != BSON_BYTE_DOCUMENT ||
	       projection_classify(fields->value, sequence->match.namespace).kind !=
		       PROJECTION_FORWARD;
}

/* An image is completed behind the write, which nothing takes back then; a transaction's end with
 * the error does. */
static bool has_to_prove(const struct sequence *sequence)
{
	return sequence->permission.unproven && sequence->match.facts.answered &&
	       image_has_arrays(sequence) &&
	       !command_has(&sequence->match.command, FIELD_AUTOCOMMIT);
}

static enum sequence_outcome ask_rights(struct sequence *sequence,
					const struct sequence_input *input)
{
	const struct target *target =
		&sequence->match.namespace->targets[modify_of(sequence)->asked];
	size_t body = sequence_begin_command(sequence);

	template_write_fields(&sequence->buffer, "{find: @collection, filter: {_id: {$in: []}}}",
			      fill("collection", target->overflow_collection));
	sequence_write_read_fields(sequence, input, target->overflow_database, (struct bytes){0});
	sequence->step = MODIFY_RIGHTS_ASKED;
	return sequence_send_command(sequence, body);
}

static enum sequence_outcome refuse(struct sequence *sequence, const char *why)
{
	sequence->step = MODIFY_REFUSED;
	return own_error_can_ask(sequence) ? own_error_ask(sequence)
					   : own_error_pass_or_refuse(sequence, NULL, why);
}

static enum sequence_outcome begin(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_modify *modify = modify_of(sequence);
	struct whole_write write;

	write = whole_write_of_command(&sequence->match.command);
	write.denied = modify->denied && write.filter.type == BSON_BYTE_DOCUMENT;
	if (!write.denied &&
	    (!sequence->match.edits || !whole_write_wanted(&write, sequence->match.namespace)))
		return send_client_command(sequence);
	modify->unserved = whole_write_unserved(&write, sequence->match.namespace);
	if (modify->unserved)
		return refuse(sequence, modify->unserved);
	if (modify->editing)
		edit_fini(&modify->edit);
	edit_init(&modify->edit, sequence, &write);
	modify->editing = true;
	return edit_on(sequence, input, NULL);
}

/* Any other error the command itself may meet. */
static enum sequence_outcome take_rights(struct sequence *sequence,
					 const struct sequence_input *input)
{
	struct sequence_modify *modify = modify_of(sequence);

	modify->denied = reply_is_unauthorized(input->reply);
	if (!input->reply->summary.ok)
		return begin(sequence, input);
	if (++modify->asked < sequence->match.namespace->target_count)
		return ask_rights(sequence, input);
	sequence->permission.proven = true;
	return begin(sequence, input);
}

static enum sequence_outcome modify_resume(struct sequence *sequence,
					   const struct sequence_input *input)
{
	struct sequence_modify *modify = modify_of(sequence);

	switch ((enum modify_step)sequence->step) {
	case MODIFY_BEGIN:
		return has_to_prove(sequence) ? ask_rights(sequence, input)
					      : begin(sequence, input);
	case MODIFY_RIGHTS_ASKED:
		return take_rights(sequence, input);
	case MODIFY_ASKED:
		return take_main(sequence, input);
	case MODIFY_MOVED:
		if (sequence_next_move(sequence, input))
			return SEQUENCE_MOVE;
		if (!sequence->move.helped || sequence_time_left(sequence, input) == 0) {
			sequence->output = buffer_view(&modify->main.raw);
			return SEQUENCE_DONE;
		}
		packet_fini(&modify->main);
		return begin(sequence, input);
	case MODIFY_OVERFLOW_ASKED:
		return fetch_on(sequence, input, input->reply);
	case MODIFY_EDITS:
		return edit_on(sequence, input, input->reply);
	case MODIFY_REFUSED:
		return own_error_pass_or_refuse(sequence, input->reply, modify->unserved);
	}
	require(!"a step of another sequence");
}

static bool modify_note(const struct sequence_modify *modify, struct mover_note *note)
{
	const struct packet *reply = modify->applied ? &modify->main : NULL;
	struct element id = modify->edit.id;

	if (!modify->editing)
		return notes_of_find_and_modify(&modify->sequence, reply, note);
	notes_begin(note, &modify->sequence, reply);
	if (reply && document_find_path(reply->message.body, "lastErrorObject.upserted", &id))
		note->reason = MOVER_CHANGED;
	else
		note->reason = modify->edit.write.update.type == 0 ? MOVER_DELETED : MOVER_EDITED;
	note->id_type = id.type;
	note->id = id.value;
	return id.type != 0;
}

static void modify_notes(const struct sequence *sequence,
			 void (*take)(void *context, const struct mover_note *note), void *context)
{
	const struct sequence_modify *modify =
		(const struct sequence_modify *)(const void *)sequence;
	struct mover_note note;

	if (sequence->match.facts.answered && !modify->applied && !sequence->cut &&
	    !(modify->editing && modify->edit.folded))
		return;
	for (size_t i = 0; i < sequence->match.namespace->target_count; i++)
		if (modify_note(modify, &note)) {
			note.rule = sequence->match.namespace->targets[i].rule;
			take(context, &note);
		}
}

static void modify_fini(struct sequence *sequence)
{
	struct sequence_modify *modify = modify_of(sequence);

	if (modify->fetching)
		fetch_fini(&modify->fetch);
	packet_fini(&modify->main);
	if (modify->editing)
		edit_fini(&modify->edit);
}

static size_t modify_memory(const struct sequence *sequence)
{
	const struct sequence_modify *modify =
		(const struct sequence_modify *)(const void *)sequence;

	return modify->main.raw.capacity + modify->fetch.kept_bytes +
	       (modify->editing ? edit_memory(&modify->edit) : 0);
}

struct sequence *sequence_find_and_modify_new(void)
{
	struct sequence_modify *modify = must_calloc(1, sizeof(*modify));

	modify->sequence.resume = modify_resume;
	modify->sequence.notes = modify_notes;
	modify->sequence.fini = modify_fini;
	modify->sequence.memory = modify_memory;
	return &modify->sequence;
}
