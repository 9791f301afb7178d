/* The client's write command, written again. */
#include "rules/stages/stage_guard.h"
#include "rules/write/rewrite.h"

#include "protocol/writer.h"

enum command_field write_statements_field(const struct sequence *sequence)
{
	enum command_kind kind = sequence->match.command.kind;

	if (kind == COMMAND_INSERT)
		return FIELD_DOCUMENTS;
	return kind == COMMAND_UPDATE ? FIELD_UPDATES : FIELD_DELETES;
}

bool write_open_statements(const struct sequence *sequence, struct statements *statements)
{
	return statements_open(statements, &sequence->request.message, &sequence->match.command,
			       write_statements_field(sequence));
}

bool write_statement_resets(const struct sequence *sequence, struct bytes document,
			    struct statement *statement)
{
	if (write_statements_field(sequence) != FIELD_UPDATES ||
	    !statement_parse(document, statement) || statement->u.type == 0)
		return false;
	return update_classify(&statement->u, sequence->match.namespace).kind == UPDATE_WHOLE;
}

/* What a statement is sent as. */
struct form {
	const struct write_command *command;
	struct bytes filter; /* empty: its own */
	bool resets;
};

static bool statement_field(const struct sequence *sequence, struct buffer *out,
			    const struct form *form, const struct element *field)
{
	const struct write_command *command = form->command;
	bool edited = form->filter.length > 0;

	if (edited && element_is(field, "q") && field->type == BSON_BYTE_DOCUMENT)
		writer_document(out, "q", form->filter);
	else if (edited && element_is(field, "upsert") && field->type == BSON_BYTE_BOOL)
		writer_bool(out, "upsert", command->upsert);
	else if (edited && command->update.type != 0 && element_is(field, "u"))
		writer_element(out, &command->update);
	else if (edited && element_is(field, "u") && update_computes_names(field))
		stage_guard_write(out, "u", field);
	else if (form->resets && element_is(field, "u"))
		update_write_whole(out, "u", field, sequence->match.namespace, NULL);
	else
		return false;
	return true;
}

/* Appends the statement's document. An edit's arrays have no state to reset. */
static void write_statement(const struct sequence *sequence, struct buffer *out, struct form form,
			    struct bytes document)
{
	bool edited = form.filter.length > 0;
	struct statement statement;
	struct cursor cursor;
	struct element field;
	size_t start;

	form.resets = !edited && write_statement_resets(sequence, document, &statement);
	if (!form.resets && !edited) {
		buffer_append(out, document.data, document.length);
		return;
	}
	start = writer_open(out);
	require(cursor_open(&cursor, document));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!statement_field(sequence, out, &form, &field))
			writer_element(out, &field);
	writer_close(out, start);
}

/* Of the filters that are left the first; the last one stays. */
static struct form next_form(const struct write_command *command, struct bytes *filters)
{
	struct form form = {.command = command};
	struct bytes left = *filters;

	if (message_next_document(&left, &form.filter) && left.length > 0)
		*filters = left;
	return form;
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
				const struct write_command *command)
{
	struct selection selection = command->selection;
	size_t array;
	char name[12];

	if (!command_has(&sequence->match.command, FIELD_TXN_NUMBER) || command->repeats)
		return;
	array = writer_open_array(out, "stmtIds");
	for (size_t i = 0; i < selection.count && selection.first + i < command->count; i++)
		writer_int32(out, writer_index(name, i),
			     statement_id(&sequence->match.command, selection.first + i));
	writer_close(out, array);
}

static size_t selection_end(const struct write_command *command)
{
	struct selection selection = command->selection;

	return selection.count < command->count - selection.first
		       ? selection.first + selection.count
		       : command->count;
}

static void write_array(const struct sequence *sequence, struct buffer *out,
			const struct write_command *command, const char *field)
{
	size_t array = writer_open_array(out, field), first = command->selection.first;
	struct bytes filters = command->filters;
	char name[12];

	for (size_t i = first; i < selection_end(command); i++) {
		const char *key = writer_index(name, i - first);

		buffer_append(out, &(uint8_t){BSON_BYTE_DOCUMENT}, 1);
		buffer_append(out, key, strlen(key) + 1);
		write_statement(sequence, out, next_form(command, &filters), command->documents[i]);
	}
	writer_close(out, array);
}

/* Where the answer is needed, a `w` that has mongod tell nothing becomes 1, which waits for nobody,
 * either; one that might be such stays away. False: the field is no write concern. */
static bool write_answered_concern(struct buffer *out, const struct element *concern)
{
	size_t document;
	struct cursor fields;
	struct element field;

	if (!element_is(concern, "writeConcern") || concern->type != BSON_BYTE_DOCUMENT ||
	    !cursor_open(&fields, concern->value))
		return false;
	document = writer_open_document(out, "writeConcern");
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "w") && concern_is_zero(&field))
			writer_int32(out, "w", 1);
		else if (!element_is(&field, "w") || field.type != BSON_BYTE_DECIMAL)
			writer_element(out, &field);
	writer_close(out, document);
	return true;
}

/* What a part of the command has otherwise than the whole. */
static bool is_of_the_whole(const struct sequence *sequence, const struct element *field)
{
	int64_t limit;

	return element_is(field, "stmtId") || element_is(field, "stmtIds") ||
	       (element_is(field, "maxTimeMS") && element_integer(field, &limit) && limit > 0) ||
	       sequence_has_said(sequence, field);
}

/* Of what is no order mongod says so. */
static bool is_order(const struct element *field)
{
	return element_is(field, "ordered") && field->type == BSON_BYTE_BOOL;
}

static void write_body(const struct sequence *sequence, struct buffer *out,
		       const struct write_command *command)
{
	struct cursor cursor;
	struct element field;
	size_t body = writer_open(out);

	require(cursor_open(&cursor, sequence->request.message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "updates"))
			write_array(sequence, out, command, "updates");
		else if (element_is(&field, "deletes"))
			write_array(sequence, out, command, "deletes");
		else if ((command->answered && write_answered_concern(out, &field)) ||
			 (command->repeats && is_order(&field)))
			continue;
		else if (!(command->part && is_of_the_whole(sequence, &field)))
			writer_element(out, &field);
	}
	if (command->part) {
		write_statement_ids(sequence, out, command);
		sequence_write_time(out, sequence_time_now(sequence));
	}
	writer_close(out, body);
}

static void write_sequences(const struct sequence *sequence, struct buffer *out,
			    const struct write_command *command)
{
	const struct message *message = &sequence->request.message;

	for (size_t i = 0; i < message->sequence_count; i++) {
		size_t start = message_begin_sequence(out, message->sequences[i].identifier);
		struct bytes filters = command->filters;

		for (size_t j = command->selection.first; j < selection_end(command); j++)
			write_statement(sequence, out, next_form(command, &filters),
					command->documents[j]);
		message_end_sequence(out, start);
	}
}

void write_command_make(struct sequence *sequence, const struct write_command *command)
{
	const struct message *message = &sequence->request.message;
	struct buffer *out = &sequence->buffer;
	uint32_t clear = MESSAGE_CHECKSUM_PRESENT;

	if (command->answered)
		clear |= MESSAGE_MORE_TO_COME;
	out->length = 0;
	message_begin(out, message->header.request_id, 0, message->flags & ~clear);
	message_begin_body(out);
	write_body(sequence, out, command);
	write_sequences(sequence, out, command);
	message_end(out, 0);
	sequence->output = buffer_view(out);
}
