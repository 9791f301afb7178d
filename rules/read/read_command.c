/* What a read sends in place of the client's find: with the fields that a merge needs. */
#include "rules/read/read_inner.h"

#include "protocol/writer.h"
#include "rules/query/projection.h"
#include "rules/query/read_options.h"
#include "rules/stages/aggregate.h"

#include <stdlib.h>

bool read_needs_state(const struct sequence *sequence)
{
	const struct element *projection = &sequence->match.command.fields[FIELD_PROJECTION];
	enum projection_kind kind;

	if (!read_is_command(sequence, COMMAND_FIND) || projection->type != BSON_BYTE_DOCUMENT)
		return false;
	if (sequence->match.windows)
		return true;
	kind = projection_classify(projection->value, sequence->match.namespace).kind;
	return kind == PROJECTION_INCLUDE || kind == PROJECTION_EXCLUDE;
}

static void write_projection(const struct sequence *sequence, struct buffer *out)
{
	const struct element *projection = &sequence->match.command.fields[FIELD_PROJECTION];

	if (sequence->match.windows)
		projection_write_windows(out, "projection", projection->value,
					 sequence->match.namespace);
	else if (read_needs_state(sequence))
		projection_write(out, "projection", projection->value, sequence->match.namespace);
	else if (projection->type != 0)
		writer_element(out, projection);
}

static bool edit_find(void *context, struct buffer *out, const struct element *field)
{
	int64_t time = sequence_time_anew(context);

	if (element_is(field, "maxTimeMS") && time > 0)
		writer_int64(out, "maxTimeMS", time);
	else if (element_is(field, "projection") && read_needs_state(context))
		write_projection(context, out);
	else
		return false;
	return true;
}

/* The projection has the mark of a document whose `_id` is hidden. */
static bool marks_id(const struct sequence *sequence)
{
	return read_needs_state(sequence) &&
	       projection_marks(sequence->match.command.fields[FIELD_PROJECTION].value,
				sequence->match.namespace);
}

/* A first batch without documents, of what a pattern matches: it would not tell a collection from
 * a view, of which the rest can't be read. */
static bool leaves_open(const struct match *match)
{
	return options_has_number(&match->command, "batchSize") &&
	       options_number(&match->command, "batchSize") == 0 &&
	       rule_is_pattern(match->namespace->targets[0].rule) &&
	       !aggregate_unserved_find(&match->command, match->namespace);
}

/* Nothing but windows is wanted of the arrays, and `_id`s are there to find the overflow by. Wider
 * arrays would fill a single batch sooner. */
static bool takes_marks(const struct match *match)
{
	return match->windows && !options_single_batch(&match->command) &&
	       !projection_hides_id(match->command.fields[FIELD_PROJECTION].value);
}

enum sequence_outcome read_ask_aggregate(struct sequence *sequence)
{
	const struct match *match = &sequence->match;
	struct aggregate_task task = match_task(match);
	struct sequence_read *read = read_of(sequence);
	size_t body = sequence_begin_command(sequence);

	/* Whose getMores can't ask again looks at once. */
	task.damage = match_skips_damaged(match) || command_has(&match->command, FIELD_AUTOCOMMIT)
			      ? REASSEMBLE_SKIPS
			      : read->retry.damage;
	task.marks = takes_marks(match);
	task.time_left = sequence_time_anew(sequence);
	sequence->match.windows = false; /* whoever comes here again has to do without */
	aggregate_write(&sequence->buffer, &match->command, &task, sequence->begun, NULL);
	read->aggregates = true;
	read->marked = false;
	sequence->step = READ_ASKED;
	return sequence_send_command(sequence, body);
}

enum sequence_outcome read_send_client_command(struct sequence *sequence)
{
	const struct match *match = &sequence->match;
	struct sequence_read *read = read_of(sequence);
	bool exhaust = sequence->request.message.flags & MESSAGE_EXHAUST_ALLOWED;

	sequence->step = READ_ASKED;
	read->marked = marks_id(sequence);
	if (read->marked && leaves_open(match))
		return read_ask_aggregate(sequence);
	if (match->windows) {
		read->windows = must_calloc(match->namespace->target_count, sizeof(*read->windows));
		require(windows_of(match->command.fields[FIELD_PROJECTION].value, match->namespace,
				   read->windows) > 0);
	}
	if (!exhaust && !read_needs_state(sequence) && sequence_time_anew(sequence) == 0)
		return sequence_send_request(sequence);
	/* No helper could be sent while the server streams its replies. The session asks for each
	 * part of the client's stream (sequence_streams). */
	sequence_write_edited(sequence, MESSAGE_EXHAUST_ALLOWED, edit_find, sequence);
	return match->facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

/* Conditions on an index, which has to be named beside them. */
static void write_bounds(const struct command *command, struct buffer *out)
{
	static const enum command_field bounds[] = {FIELD_MIN, FIELD_MAX, FIELD_HINT};

	if (!command_has(command, FIELD_MIN) && !command_has(command, FIELD_MAX))
		return;
	for (size_t i = 0; i < ARRAY_LENGTH(bounds); i++)
		if (command_has(command, bounds[i]))
			writer_element(out, &command->fields[bounds[i]]);
}

/* A document whose generation died is asked for again, with the client's own conditions and its
 * `_id`. */
void read_write_find_again(struct sequence *sequence, const struct element *id)
{
	const struct command *command = &sequence->match.command;
	struct buffer *out = &sequence->buffer;
	size_t filter, and, pin;
	struct element record_id;

	writer_string(out, "find", sequence->match.namespace->collection);
	filter = writer_open_document(out, "filter");
	and = writer_open_array(out, "$and");
	pin = writer_open_document(out, "0");
	writer_element(out, id);
	writer_close(out, pin);
	if (command->fields[FIELD_FILTER].type == BSON_BYTE_DOCUMENT)
		writer_renamed(out, "1", &command->fields[FIELD_FILTER]);
	writer_close(out, and);
	writer_close(out, filter);
	write_projection(sequence, out);
	if (command_has(command, FIELD_COLLATION))
		writer_element(out, &command->fields[FIELD_COLLATION]);
	if (command_has(command, FIELD_LET))
		writer_element(out, &command->fields[FIELD_LET]);
	if (document_find(command->body, "showRecordId", &record_id))
		writer_element(out, &record_id);
	write_bounds(command, out);
	writer_bool(out, "singleBatch", true);
}
