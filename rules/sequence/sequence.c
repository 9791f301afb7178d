/* What all sequences share: beginning, ending, commands of our own, and the one that has one step.
 */
#include "rules/sequence/sequence.h"

#include "protocol/writer.h"
#include "rules/sequence/own_error.h"
#include "rules/sequence/sequence_inner.h"
#include "rules/rule/text.h"

#include <stdlib.h>

#define COMMAND_USUAL 500 /* bytes that most commands of ours don't pass */

/* Where the command was to start the transaction and nothing was sent, there is none. */
static bool ends_transaction(const struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;

	return sequence->end.failed && command_has(command, FIELD_AUTOCOMMIT) &&
	       (sequence->begun || !command_has(command, FIELD_START_TRANSACTION));
}

static enum sequence_outcome send_abort(struct sequence *sequence)
{
	struct buffer *out = &sequence->buffer;
	size_t body, concern;

	buffer_append(&sequence->end.answer, sequence->output.data, sequence->output.length);
	sequence->end.passes = sequence->output.data != out->data;
	sequence->end.aborts = sequence->begun = true;
	body = sequence_begin_command(sequence);
	writer_int32(out, "abortTransaction", 1);
	writer_string(out, "$db", "admin");
	sequence_write_cursor_fields(sequence);
	concern = writer_open_document(out, "writeConcern");
	writer_int32(out, "w", 1);
	writer_close(out, concern);
	return sequence_send_command(sequence, body);
}

/* Whatever became of it: there may have been no transaction. */
static enum sequence_outcome take_abort(struct sequence *sequence)
{
	struct buffer *answer = &sequence->end.answer;

	if (!sequence->end.passes) {
		buffer_fini(&sequence->buffer);
		sequence->buffer = buffer_steal(answer);
		answer = &sequence->buffer;
	}
	sequence->output = buffer_view(answer);
	return SEQUENCE_DONE;
}

/* Whether what is to go out with the outcome passes a message: the client's words once more than
 * they fit, or a reply that nobody cut. */
static bool is_outgrown(const struct sequence *sequence, enum sequence_outcome outcome)
{
	switch (outcome) {
	case SEQUENCE_SEND:
	case SEQUENCE_SEND_LAST:
	case SEQUENCE_DONE:
		return sequence->output.length > FRAME_MAX_LENGTH;
	case SEQUENCE_MOVE:
	case SEQUENCE_TEND:
	case SEQUENCE_PAUSE:
	case SEQUENCE_AGAIN:
		break;
	}
	return false;
}

/* Nothing of what was written is sent. */
static enum sequence_outcome shrink(struct sequence *sequence, const struct sequence_input *input,
				    enum sequence_outcome outcome)
{
	sequence->output = (struct bytes){0};
	sequence->buffer.length = 0;
	return outcome == SEQUENCE_SEND && sequence->outgrown
		       ? sequence->outgrown(sequence, input)
		       : sequence_fail(sequence, ERROR_OBJECT_TOO_LARGE, SEQUENCE_OUTGROWN, NULL);
}

/* A write may have been applied though it fails: the error tells when, as mongod's does, so that
 * what the client reads next is no older. */
static void keep_times(struct sequence *sequence, const struct packet *reply)
{
	struct buffer *times = &sequence->end.times;
	struct cursor fields;
	struct element field;

	if (!sequence->notes || !reply || !reply->summary.operation_time.data ||
	    !cursor_open(&fields, reply->message.body))
		return;
	times->length = 0;
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "$clusterTime") || element_is(&field, "operationTime"))
			writer_element(times, &field);
}

must_check enum sequence_outcome sequence_resume(struct sequence *sequence,
						 const struct sequence_input *input)
{
	enum sequence_outcome outcome;

	if (sequence->trace.started == 0)
		sequence->trace.started = input->now;
	sequence->trace.resumed = input->now;
	packet_fini(&sequence->held);
	sequence->buffer.length = 0;
	sequence->begun = sequence->begun || (input->reply && !sequence->reply.outside);
	sequence->reply.outside = false;
	keep_times(sequence, input->reply);
	if (sequence->end.aborts)
		return take_abort(sequence);
	outcome = sequence->resume(sequence, input);
	while (is_outgrown(sequence, outcome))
		outcome = shrink(sequence, input, outcome);
	return outcome == SEQUENCE_DONE && ends_transaction(sequence) ? send_abort(sequence)
								      : outcome;
}

must_check enum sequence_outcome sequence_give_up(struct sequence *sequence)
{
	enum sequence_outcome outcome =
		sequence_fail(sequence, ERROR_TEMPORARILY_UNAVAILABLE, SEQUENCE_NO_MEMORY, NULL);

	return ends_transaction(sequence) ? send_abort(sequence) : outcome;
}

void sequence_notes(const struct sequence *sequence,
		    void (*take)(void *context, const struct mover_note *note), void *context)
{
	if (sequence->notes)
		sequence->notes(sequence, take, context);
}

void sequence_cut(struct sequence *sequence,
		  void (*take)(void *context, const struct mover_note *note), void *context)
{
	sequence->cut = true;
	sequence_notes(sequence, take, context);
}

void sequence_free(struct sequence *sequence)
{
	if (!sequence)
		return;
	if (sequence->fini)
		sequence->fini(sequence);
	for (size_t i = 0; i < ARRAY_LENGTH(sequence->held_namespaces); i++)
		namespace_release(sequence->held_namespaces[i]);
	/* A refused sign-in may hold a password. */
	(sequence->match.facts.signs_in ? packet_wipe : packet_fini)(&sequence->request);
	packet_fini(&sequence->held);
	buffer_fini(&sequence->buffer);
	buffer_fini(&sequence->end.answer);
	buffer_fini(&sequence->end.times);
	free(sequence->counts.skipped_one);
	free(sequence);
}

size_t sequence_memory(const struct sequence *sequence)
{
	size_t memory = sequence->request.raw.capacity + sequence->request.unpacked.capacity +
			sequence->buffer.capacity + sequence->held.raw.capacity;

	return memory + (sequence->memory ? sequence->memory(sequence) : 0);
}

/* Also of an OP_MSG that can't be read: mongod doesn't answer those with moreToCome either. */
static bool wants_reply(const struct sequence *sequence)
{
	struct bytes frame = packet_frame(&sequence->request);

	if (sequence->request.header.opcode != OPCODE_MESSAGE ||
	    frame.length < FRAME_HEADER_LENGTH + 4)
		return true;
	return !(load_int32(frame.data + FRAME_HEADER_LENGTH) & MESSAGE_MORE_TO_COME);
}

/* A query or getMore from before commands: it fails in a form of its own. */
static bool is_old_read(const struct packet *request)
{
	struct legacy_query query;

	return request->header.opcode == OPCODE_GET_MORE ||
	       (request->header.opcode == OPCODE_QUERY &&
		legacy_query_parse(packet_frame(request), &query) && !query.is_command);
}

static void write_error_body(const struct sequence *sequence, struct buffer *out,
			     enum error_code code, const char *message, const char *label)
{
	size_t start = writer_open(out);

	reply_error_fields(out, code, message, label);
	buffer_append(out, sequence->end.times.data, sequence->end.times.length);
	writer_close(out, start);
}

/* In the family of the request's opcode. */
static void write_error(struct sequence *sequence, enum error_code code, const char *message,
			const char *label)
{
	struct buffer *out = &sequence->buffer;
	int32_t id = sequence->request.header.request_id;

	out->length = 0;
	if (is_old_read(&sequence->request)) {
		auto_buffer struct buffer body = {0};

		reply_old_error_body(&body, code, message);
		legacy_reply_append(out, id, LEGACY_REPLY_QUERY_FAILURE, buffer_view(&body));
	} else if (sequence->request.header.opcode == OPCODE_QUERY) {
		auto_buffer struct buffer body = {0};

		write_error_body(sequence, &body, code, message, label);
		legacy_reply_append(out, id, 0, buffer_view(&body));
	} else {
		size_t start = message_begin(out, 0, id, 0);

		message_begin_body(out);
		write_error_body(sequence, out, code, message, label);
		message_end(out, start);
	}
}

/* Nothing of a retryable write was sent. The label tells a driver that has sent it before: of the
 * write is known what was told of the attempt before. */
static bool performs_nothing(const struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;

	return !sequence->begun && command_has(command, FIELD_TXN_NUMBER) &&
	       !command_has(command, FIELD_AUTOCOMMIT);
}

enum sequence_outcome sequence_fail(struct sequence *sequence, enum error_code code,
				    const char *message, const char *label)
{
	if (!label && performs_nothing(sequence))
		label = "NoWritesPerformed";
	sequence->end.failed = true;
	sequence->end.code = code;
	sequence->output = (struct bytes){0};
	if (wants_reply(sequence)) {
		auto_free char *words = text_valid(message);

		write_error(sequence, code, words, label);
		sequence->output = buffer_view(&sequence->buffer);
	}
	return SEQUENCE_DONE;
}

enum sequence_outcome sequence_pass(struct sequence *sequence, struct packet *reply)
{
	sequence->held = packet_steal(reply);
	store_int32(sequence->held.raw.data + 8, sequence->request.header.request_id);
	sequence->output = sequence->match.facts.answered ? buffer_view(&sequence->held.raw)
							  : (struct bytes){0};
	return SEQUENCE_DONE;
}

static bool leave_start(void *context, struct buffer *out, const struct element *field)
{
	(void)out;
	return sequence_has_said(context, field);
}

/* A transaction is started once. */
static bool has_started(const struct sequence *sequence)
{
	return sequence->begun && command_has(&sequence->match.command, FIELD_START_TRANSACTION);
}

enum sequence_outcome sequence_send_request(struct sequence *sequence)
{
	if (has_started(sequence))
		sequence_write_edited(sequence, 0, leave_start, sequence);
	else
		sequence->output = buffer_view(&sequence->request.raw);
	return wants_reply(sequence) ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

enum sequence_outcome sequence_begin_move(struct sequence *sequence)
{
	sequence->move.target = 0;
	sequence->move.helped = false;
	sequence->move.note.rule = sequence->match.namespace->targets[0].rule;
	return SEQUENCE_MOVE;
}

must_check bool sequence_next_move(struct sequence *sequence, const struct sequence_input *input)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;

	sequence->move.helped = sequence->move.helped || input->moved;
	if (++sequence->move.target == namespace->target_count)
		return false;
	sequence->move.note.rule = namespace->targets[sequence->move.target].rule;
	return true;
}

enum sequence_outcome sequence_tend(struct sequence *sequence,
				    const struct ruled_namespace *namespace, size_t target)
{
	sequence->move.note.rule = namespace->targets[target].rule;
	sequence->move.note.database = bytes_of(namespace->database);
	sequence->move.note.collection = bytes_of(namespace->collection);
	return SEQUENCE_TEND;
}

/* Whether the answer is a cursor's that has more, in a frame whose flags can be set. */
static bool answers_with_more(struct bytes answer, int64_t *id)
{
	struct message message;
	struct reply_summary summary;
	struct reply_cursor cursor;

	if (!message_parse(answer, &message) || (message.flags & MESSAGE_CHECKSUM_PRESENT))
		return false;
	summary = reply_summarise(message.body);
	cursor = reply_read_cursor(summary.cursor);
	return summary.ok && element_integer(&cursor.id, id) && *id != 0;
}

bool sequence_may_stream(const struct sequence *sequence)
{
	return sequence->request.kind == PACKET_MESSAGE && !sequence->end.failed &&
	       (sequence->request.message.flags & MESSAGE_EXHAUST_ALLOWED) &&
	       sequence->match.command.kind == COMMAND_GET_MORE;
}

must_check bool sequence_streams(struct sequence *sequence, struct packet *next)
{
	uint8_t *answer = (uint8_t *)(uintptr_t)sequence->output.data; /* ours, or `held` */
	const struct element *cursor = &sequence->match.command.first;
	int64_t id;

	if (!sequence_may_stream(sequence) || cursor->type != BSON_BYTE_INT64 ||
	    !answers_with_more(sequence->output, &id))
		return false;
	/* Behind a batch that was cut, another cursor goes on. */
	memcpy((uint8_t *)(uintptr_t)cursor->value.data, &id, sizeof(id));
	store_int32(answer + FRAME_HEADER_LENGTH,
		    load_int32(answer + FRAME_HEADER_LENGTH) | MESSAGE_MORE_TO_COME);
	*next = packet_steal(&sequence->request);
	packet_rename(next, load_int32(answer + 4));
	return true;
}

void sequence_leave_stream(struct sequence *sequence)
{
	if (!sequence_may_stream(sequence) ||
	    !answers_with_more(sequence->output, &sequence->end.cursor))
		sequence->end.cursor = 0;
}

static enum sequence_outcome closed_resume(struct sequence *sequence,
					   const struct sequence_input *input)
{
	(void)input;
	sequence->output = (struct bytes){0};
	return SEQUENCE_DONE;
}

must_check bool sequence_close_stream(struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;
	auto_free char *database = NULL, *name = NULL;
	int64_t cursor = sequence->end.cursor;
	struct bytes collection;

	sequence->end.cursor = 0;
	if (cursor == 0 || !element_string(&command->fields[FIELD_COLLECTION], &collection))
		return false;
	database = must_strndup((const char *)command->database.data, command->database.length);
	name = must_strndup((const char *)collection.data, collection.length);
	(void)sequence_send_kill(sequence, database, name, cursor);
	sequence->resume = closed_resume;
	return true;
}

size_t sequence_begin_reply(struct sequence *sequence, const struct message *reply)
{
	struct buffer *out = &sequence->buffer;

	out->length = 0;
	message_begin(out, reply->header.request_id, sequence->request.header.request_id, 0);
	message_begin_body(out);
	return writer_open(out);
}

enum sequence_outcome sequence_end_reply(struct sequence *sequence, size_t body)
{
	writer_close(&sequence->buffer, body);
	message_end(&sequence->buffer, 0);
	sequence->output =
		sequence->match.facts.answered ? buffer_view(&sequence->buffer) : (struct bytes){0};
	return SEQUENCE_DONE;
}

size_t sequence_begin_command(struct sequence *sequence)
{
	sequence->buffer.length = 0;
	sequence->reply.expected = 0;
	sequence->reply.gives_up = false;
	buffer_reserve(&sequence->buffer, COMMAND_USUAL);
	message_begin(&sequence->buffer, sequence->next_request_id++, 0, 0);
	message_begin_body(&sequence->buffer);
	return writer_open(&sequence->buffer);
}

enum sequence_outcome sequence_send_command(struct sequence *sequence, size_t body)
{
	writer_close(&sequence->buffer, body);
	message_end(&sequence->buffer, 0);
	sequence->output = buffer_view(&sequence->buffer);
	return SEQUENCE_SEND;
}

enum sequence_outcome sequence_send_kill(struct sequence *sequence, const char *database,
					 const char *collection, int64_t cursor_id)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_command(sequence), cursors;

	writer_string(out, "killCursors", collection);
	cursors = writer_open_array(out, "cursors");
	writer_int64(out, "0", cursor_id);
	writer_close(out, cursors);
	writer_string(out, "$db", database);
	sequence_write_cursor_fields(sequence);
	return sequence_send_command(sequence, body);
}

/* ---- REFUSE: mongod's error, where it refuses the command by itself; else ours ---- */

static bool is_judged_by_mongod(const struct sequence *sequence)
{
	return (sequence->match.refusal.code == ERROR_COMMAND_NOT_SUPPORTED ||
		sequence->match.refusal.code == ERROR_FAILED_TO_PARSE) &&
	       own_error_can_ask(sequence);
}

static enum sequence_outcome refuse_resume(struct sequence *sequence,
					   const struct sequence_input *input)
{
	if (!input->reply && is_judged_by_mongod(sequence))
		return own_error_ask(sequence);
	if (input->reply && own_error_said(input->reply))
		return own_error_pass(sequence, input->reply);
	return sequence_fail(sequence, sequence->match.refusal.code,
			     sequence->match.refusal.message, NULL);
}

/* ---- what a hint means has to be known first ---- */

enum ask_step {
	ASK_BEGINS,
	ASK_TENDED,
};

static enum sequence_outcome ask_resume(struct sequence *sequence,
					const struct sequence_input *input)
{
	const struct ruled_namespace *namespace = sequence->match.asks_indexes;

	if (sequence->step == ASK_TENDED && input->moved)
		return SEQUENCE_AGAIN;
	if (sequence->step == ASK_TENDED)
		return sequence_fail(sequence, ERROR_TEMPORARILY_UNAVAILABLE,
				     "Spillway: the collection's indexes, one of which is named "
				     "here, could not be looked up: try again",
				     NULL);
	sequence->step = ASK_TENDED;
	sequence->match.tending = MOVER_TEND_INDEXES;
	return sequence_tend(sequence, namespace, 0);
}

static void hold_namespaces(struct sequence *sequence)
{
	const struct match *match = &sequence->match;

	sequence->held_namespaces[0] = match->namespace;
	sequence->held_namespaces[1] = match->onto;
	sequence->held_namespaces[2] = match->asks_indexes;
	for (size_t i = 0; i < ARRAY_LENGTH(sequence->held_namespaces); i++)
		namespace_hold(sequence->held_namespaces[i]);
}

struct sequence *sequence_new_ask(struct packet *request, const struct match *match)
{
	struct sequence *sequence = must_calloc(1, sizeof(*sequence));

	sequence->resume = ask_resume;
	sequence->asks_indexes = true;
	packet_move(&sequence->request, request);
	sequence->match = *match;
	hold_namespaces(sequence);
	return sequence;
}

static struct sequence *make(const struct match *match)
{
	struct sequence *sequence;

	switch (match->verdict) {
	case VERDICT_READ:
		return sequence_read_new();
	case VERDICT_AGGREGATE:
		sequence = sequence_member_new(match);
		return sequence ? sequence : sequence_aggregate_new();
	case VERDICT_WRITE:
		return sequence_write_new();
	case VERDICT_FIND_AND_MODIFY:
		return sequence_find_and_modify_new();
	case VERDICT_BULK_WRITE:
		return sequence_bulk_write_new();
	case VERDICT_EXPLAIN:
		return sequence_explain_new();
	case VERDICT_WATCH:
		return sequence_watch_new();
	case VERDICT_HIDE:
		return sequence_hide_new(match);
	case VERDICT_STREAM:
		return sequence_stream_new();
	case VERDICT_REFUSE:
		sequence = must_calloc(1, sizeof(*sequence));
		sequence->resume = refuse_resume;
		return sequence;
	case VERDICT_FORWARD:
	case VERDICT_HELLO:
	case VERDICT_CLOSE:
		break;
	}
	require(!"a verdict that needs no sequence");
}

struct sequence *sequence_new(struct packet *request, const struct match *match)
{
	struct sequence *sequence = make(match);

	packet_move(&sequence->request, request);
	sequence->match = *match;
	hold_namespaces(sequence);
	return sequence;
}

struct sequence *sequence_new_plain_find(struct packet *request,
					 const struct ruled_namespace *namespace)
{
	struct sequence *sequence = sequence_read_new();
	struct match *match = &sequence->match;

	packet_move(&sequence->request, request);
	match->verdict = VERDICT_READ;
	match->facts.answered = true;
	match->namespace = namespace;
	match->refusal.rule = "";
	hold_namespaces(sequence);
	require(command_parse(sequence->request.message.body, &match->command));
	return sequence;
}
