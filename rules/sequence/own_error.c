/* Asks mongod what it says about the client's own command. */
#include "rules/sequence/own_error.h"

#include "protocol/template.h"
#include "protocol/writer.h"
#include "rules/query/filter_words.h"
#include "rules/sequence/sequence_inner.h"
#include "rules/query/statements.h"
#include "rules/rule/walk.h"

#define LARGEST (16 * 1024 * 1024) /* mongod takes no larger document */

/* The command that is explained: the client's, or the one inside the client's explain. */
static bool explained_command(const struct sequence *sequence, struct command *command)
{
	const struct command *client = &sequence->match.command;

	if (client->kind != COMMAND_EXPLAIN) {
		*command = *client;
		return true;
	}
	return client->first.type == BSON_BYTE_DOCUMENT &&
	       command_parse(client->first.value, command);
}

/* ---- what can be asked ---- */

/* The field of update's or delete's statements; FIELD_COUNT of another command. */
static enum command_field statements_field(const struct command *command)
{
	if (command->kind == COMMAND_UPDATE)
		return FIELD_UPDATES;
	return command->kind == COMMAND_DELETE ? FIELD_DELETES : FIELD_COUNT;
}

/* The only statement of an update or a delete: mongod explains one. */
static bool only_statement(const struct sequence *sequence, const struct command *command,
			   struct bytes *statement)
{
	struct statements statements;
	struct bytes second;
	bool broken;

	return statements_open(&statements, &sequence->request.message, command,
			       statements_field(command)) &&
	       statements_next(&statements, statement, &broken) &&
	       !statements_next(&statements, &second, &broken) && !broken;
}

/* mongod is asked only about what can be read to its end. */
static bool is_readable(struct bytes document)
{
	enum cursor_step step;
	struct element field;
	struct walk walk;

	step = walk_first(&walk, BSON_BYTE_DOCUMENT, document, &field);
	while (step == CURSOR_ELEMENT && walk_within(&walk, &field))
		step = walk_next(&walk, &field);
	return step == CURSOR_END;
}

static bool can_explain(const struct sequence *sequence, struct command *command)
{
	return sequence->request.kind == PACKET_MESSAGE && sequence->match.facts.answered &&
	       sequence->match.command.body.length <= LARGEST &&
	       !sequence->match.command.duplicate && explained_command(sequence, command) &&
	       (command_named(command->first.name)->traits & COMMAND_EXPLAINABLE) &&
	       command->first.type != BSON_BYTE_BINARY && /* a UUID: an explain takes none */
	       is_readable(sequence->match.command.body) &&
	       filter_words_explainable(sequence->match.command.body);
}

static bool can_explain_statement(struct bytes statement)
{
	return is_readable(statement) && filter_words_explainable(statement);
}

must_check bool own_error_can_ask(const struct sequence *sequence)
{
	struct command command;
	struct bytes statement;

	return can_explain(sequence, &command) &&
	       (statements_field(&command) == FIELD_COUNT ||
		(only_statement(sequence, &command, &statement) &&
		 can_explain_statement(statement)));
}

must_check bool own_error_can_ask_of(const struct sequence *sequence, struct bytes statement)
{
	struct command command;

	return can_explain(sequence, &command) && statements_field(&command) != FIELD_COUNT &&
	       !command_has(&command, FIELD_STMT_IDS) && can_explain_statement(statement);
}

/* ---- the question ---- */

/* What belongs to the message, not to the command that it brings. */
static bool is_generic(const struct element *field)
{
	static const char *const names[] = {
		"lsid",         "txnNumber",  "autocommit", "startTransaction",     "readConcern",
		"writeConcern", "apiVersion", "apiStrict",  "apiDeprecationErrors", "maxTimeMS"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (element_is(field, names[i]))
			return true;
	return field->name.length > 0 && field->name.data[0] == '$';
}

/* {aggregate: ..., explain: true}: mongod refuses it inside an explain. */
static bool is_own_explain(const struct sequence *sequence, const struct element *field)
{
	return field->type == BSON_BYTE_BOOL && element_is(field, "explain") &&
	       sequence->match.command.kind == COMMAND_AGGREGATE;
}

static bool is_sound_time(const struct element *time)
{
	int64_t limit;

	return time->type == 0 || (element_integer(time, &limit) && limit >= 0);
}

/* What mongod refuses of the fields that an explain has itself. Sound ones stay away: an explain
 * must not have each read concern, nor end early. */
static void write_malformed(const struct command *command, struct buffer *out)
{
	const struct element *concern = &command->fields[FIELD_READ_CONCERN];
	const struct element *time = &command->fields[FIELD_MAX_TIME];

	if (!is_sound_time(time))
		writer_element(out, time);
	if (concern->type != 0 && concern->type != BSON_BYTE_DOCUMENT)
		writer_element(out, concern);
}

static void write_list(struct buffer *out, const char *name, struct bytes statement)
{
	size_t list = writer_open_array(out, name);

	writer_document(out, "0", statement);
	writer_close(out, list);
}

/* `statement`: of an update or a delete, the one that is asked about. */
static void write_explained(const struct sequence *sequence, struct buffer *out,
			    const struct command *command, struct bytes statement)
{
	enum command_field field_of_list = statements_field(command);
	const char *list = field_of_list == FIELD_UPDATES ? "updates" : "deletes";
	size_t explained = writer_open_document(out, "explain");
	bool explains = false, has_cursor = false;
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, command->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		has_cursor = has_cursor || element_is(&field, "cursor");
		if (field_of_list != FIELD_COUNT && element_is(&field, list))
			write_list(out, list, statement);
		else if (is_own_explain(sequence, &field))
			explains = true;
		else if (!is_generic(&field))
			writer_element(out, &field);
	}
	if (explains && !has_cursor)
		template_write(out, "cursor", "{}"); /* mongod wants the one or the other */
	if (command->kind == COMMAND_AGGREGATE)
		write_malformed(command, out); /* mongod reads an aggregate's own fields first */
	if (field_of_list != FIELD_COUNT && !command_has(command, field_of_list))
		write_list(out, list, statement);
	writer_close(out, explained);
}

/* A verbosity that would run the command is not the client's error. */
static void write_verbosity(const struct command *client, struct buffer *out)
{
	struct element verbosity;
	struct bytes text;

	if (client->kind == COMMAND_EXPLAIN &&
	    document_find(client->body, "verbosity", &verbosity) &&
	    !(element_string(&verbosity, &text) &&
	      (bytes_are(text, "executionStats") || bytes_are(text, "allPlansExecution"))))
		writer_element(out, &verbosity);
	else
		writer_string(out, "verbosity", "queryPlanner");
}

enum sequence_outcome own_error_ask_of(struct sequence *sequence, struct bytes statement)
{
	const struct command *client = &sequence->match.command;
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence);
	struct command command;

	require(explained_command(sequence, &command));
	write_explained(sequence, out, &command, statement);
	write_verbosity(client, out);
	if (command.kind != COMMAND_AGGREGATE)
		write_malformed(client, out);
	if (command_has(client, FIELD_READ_PREFERENCE))
		writer_element(out, &client->fields[FIELD_READ_PREFERENCE]);
	if (command_has(client, FIELD_DB))
		writer_element(out, &client->fields[FIELD_DB]);
	sequence_write_api_fields(sequence);
	sequence->reply.outside = true;
	return sequence_send_command(sequence, body);
}

enum sequence_outcome own_error_ask(struct sequence *sequence)
{
	struct bytes statement = {0};
	struct command command;

	require(explained_command(sequence, &command));
	if (statements_field(&command) != FIELD_COUNT)
		require(only_statement(sequence, &command, &statement));
	return own_error_ask_of(sequence, statement);
}

/* ---- the answer ---- */

/* Errors that the explain met, and the command need not meet. */
static bool is_explains_own(int64_t code)
{
	return code == ERROR_OBJECT_TOO_LARGE || code == ERROR_BUFFER_TOO_LARGE ||
	       code == ERROR_EXCEEDED_MEMORY_LIMIT;
}

must_check bool own_error_said(const struct packet *reply)
{
	const struct reply_summary *summary = &reply->summary;

	return summary->readable && !summary->ok && !is_explains_own(summary->code);
}

/* "Command explain requires authentication" names another command than the client's. */
static void write_text(const struct sequence *sequence, struct buffer *out, struct bytes text)
{
	static const char *const begin = "Command explain ";
	struct bytes name = sequence->match.command.first.name;
	auto_buffer struct buffer words = {0};
	size_t length = strlen(begin);

	if (!bytes_begin_with(text, begin)) {
		writer_text(out, "errmsg", text);
		return;
	}
	buffer_append(&words, "Command ", strlen("Command "));
	buffer_append(&words, name.data, name.length);
	buffer_append(&words, text.data + length - 1, text.length - length + 1);
	writer_text(out, "errmsg", buffer_view(&words));
}

void own_error_write_field(const struct sequence *sequence, struct buffer *out,
			   const struct element *field)
{
	struct bytes text;

	if (element_is(field, "errmsg") && element_string(field, &text))
		write_text(sequence, out, text);
	else
		writer_element(out, field);
}

/* Whether mongod tells the error in a write's reply, as its statement's, and not as the command's:
 * what it finds when it reads the command's fields, before any statement, is the command's. */
static bool is_statements(const struct sequence *sequence, int64_t code)
{
	return statements_field(&sequence->match.command) != FIELD_COUNT &&
	       code != ERROR_UNAUTHORIZED && code != ERROR_TYPE_MISMATCH && code != 40413 &&
	       code != 40414 && code != 40415;
}

static bool is_of_error(const struct element *field)
{
	return element_is(field, "ok") || element_is(field, "errmsg") ||
	       element_is(field, "code") || element_is(field, "codeName");
}

must_check bool own_error_is_statements(const struct sequence *sequence, const struct packet *reply)
{
	return reply->summary.readable && is_statements(sequence, reply->summary.code);
}

static void write_errors(const struct sequence *sequence, struct buffer *out, struct bytes body)
{
	size_t errors = writer_open_array(out, "writeErrors"),
	       error = writer_open_document(out, "0");
	struct element code, text;

	writer_int32(out, "index", 0);
	if (document_find(body, "code", &code))
		writer_element(out, &code);
	if (document_find(body, "errmsg", &text))
		own_error_write_field(sequence, out, &text);
	writer_close(out, error);
	writer_close(out, errors);
}

/* {n: 0, writeErrors: [{index: 0, code, errmsg}], nModified: 0, ok: 1} */
static void write_as_statements(const struct sequence *sequence, struct buffer *out,
				struct bytes body, bool tells)
{
	writer_int32(out, "n", 0);
	if (tells)
		write_errors(sequence, out, body);
	if (statements_field(&sequence->match.command) == FIELD_UPDATES)
		writer_int32(out, "nModified", 0);
	writer_double(out, "ok", 1.0);
}

static enum sequence_outcome write_answer(struct sequence *sequence, const struct packet *reply,
					  bool statements, bool tells)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_reply(sequence, &reply->message);
	struct cursor cursor;
	struct element field;

	if (statements)
		write_as_statements(sequence, out, reply->message.body, tells);
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!statements || !is_of_error(&field))
			own_error_write_field(sequence, out, &field);
	return sequence_end_reply(sequence, body);
}

void own_error_lend(struct sequence *sequence, const struct packet *reply, struct packet *made)
{
	struct buffer frame = {0};

	write_answer(sequence, reply, true, false);
	buffer_append(&frame, sequence->output.data, sequence->output.length);
	packet_fini(made);
	packet_read_reply(made, &frame);
}

enum sequence_outcome own_error_pass(struct sequence *sequence, struct packet *reply)
{
	sequence->end.failed = true; /* a transaction ends with the error */
	return write_answer(sequence, reply, own_error_is_statements(sequence, reply), true);
}

enum sequence_outcome own_error_pass_or_refuse(struct sequence *sequence, struct packet *reply,
					       const char *why)
{
	if (reply && own_error_said(reply))
		return own_error_pass(sequence, reply);
	return sequence_refuse_write(sequence, ERROR_COMMAND_NOT_SUPPORTED, why);
}
