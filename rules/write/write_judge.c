/* Whether all statements of a write can be served, before anything is sent. */
#include "rules/write/write_inner.h"

#include "rules/sequence/own_error.h"

#define STATEMENTS_MAX 100000 /* of a command, as mongod */

/* A list of as many numbers as there are statements, or the first of them: parts of the command
 * have others. */
static bool ids_sound(const struct sequence *sequence)
{
	const struct element *ids = &sequence->match.command.fields[FIELD_STMT_IDS];
	const struct element *first = &sequence->match.command.fields[FIELD_STMT_ID];
	struct cursor cursor;
	struct element id;
	size_t count = 0;

	if (ids->type == 0)
		return first->type == 0 || first->type == BSON_BYTE_INT32 ||
		       element_is_nothing(first);
	if (first->type != 0 || ids->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, ids->value))
		return false;
	for (; cursor_next(&cursor, &id) == CURSOR_ELEMENT; count++)
		if (id.type != BSON_BYTE_INT32)
			return false;
	return count == const_write_of(sequence)->count;
}

/* A statement that mongod can't read makes it refuse the whole command: before a part goes out, all
 * must be sound. */
bool write_all_sound(const struct sequence *sequence)
{
	const struct sequence_write *write = const_write_of(sequence);
	bool deletes = write_statements_field(sequence) == FIELD_DELETES;

	if (write->count > STATEMENTS_MAX || !ids_sound(sequence))
		return false;
	for (size_t i = 0; i < write->count; i++)
		if (!statement_is_sound(write->documents[i], deletes))
			return false;
	return true;
}

/* mongod says what is wrong with it. */
enum sequence_outcome write_probe(struct sequence *sequence)
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

enum sequence_outcome write_take_probe(struct sequence *sequence, struct packet *reply)
{
	if (!reply->summary.ok)
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
		return sequence->match.refusal.message;
	if (write_is_edit(sequence, write->documents[index], &edit))
		why = whole_write_unserved(&edit, sequence->match.namespace);
	return why;
}

/* Nothing has been sent, and nothing will be. */
static enum sequence_outcome refuse_all(struct sequence *sequence)
{
	const struct match *match = &sequence->match;
	const char *why = write_of(sequence)->rejected.why;

	return why == match->refusal.message
		       ? sequence_fail(sequence, match->refusal.code, match->refusal.message, NULL)
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
	    (sequence->match.refusal.code == 0 ||
	     sequence->match.refusal.code == ERROR_COMMAND_NOT_SUPPORTED) &&
	    own_error_can_ask_of(sequence, statement))
		return own_error_ask_of(sequence, statement);
	return refuse_all(sequence);
}

/* Before anything is sent: statements that can't be served refuse the command, unless each is one
 * that mongod refuses. */
enum sequence_outcome write_judge(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct refused_statements *rejected = &write->rejected;

	rejected->why = sequence->match.refusal.message;
	if (is_long(sequence))
		return refuse_all(sequence);
	for (; rejected->judged < write->count; rejected->judged++) {
		rejected->why = unserved(sequence, rejected->judged);
		if (rejected->why)
			return ask_mongod(sequence);
	}
	return write_go_on(sequence, input);
}

/* mongod was asked outside the client's transaction. In order, what stands behind the error is not
 * done. */
enum sequence_outcome write_take_judgement(struct sequence *sequence,
					   const struct sequence_input *input)
{
	struct sequence_write *write = write_of(sequence);
	struct refused_statements *rejected = &write->rejected;

	if (!own_error_said(input->reply))
		return refuse_all(sequence);
	if (write->count == 1 || !own_error_is_statements(sequence, input->reply))
		return own_error_pass(sequence, input->reply);
	refused_statements_keep(rejected, sequence, input->reply);
	rejected->judged = write_is_ordered(sequence) ? write->count : rejected->judged + 1;
	return write_judge(sequence, input);
}
