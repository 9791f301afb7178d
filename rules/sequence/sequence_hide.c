/* What a client need not know of overflow collections.
 *
 * listCollections goes out with a condition more in its filter:
 *   LIST_SENT  mongod's reply passes. mongod's error 13 quotes the command: then
 *   LIST_OWN   the client's own command goes out, for its own error
 *
 * A drop of an overflow collection drops nothing. What the collection holds goes with the documents
 * whose tails it holds, and the collection itself may be in use by a mover:
 *   DROP_ASKED    may the client drop it? (permission.h)
 *   DROP_INDEXES  listIndexes    one of them is Spillway's: the answer of a drop
 *   DROP_LOOKED   find           without such an index: the collection is just being made, and
 *                                empty; else it may be an application's own */
#include "protocol/writer.h"
#include "rules/match/fitness_judge.h"
#include "rules/rule/overflow_names.h"
#include "rules/sequence/permission.h"
#include "rules/sequence/sequence_inner.h"

#include <stdio.h>
#include <stdlib.h>

enum hide_step {
	HIDE_BEGINS,
	HIDE_LIST_SENT,
	HIDE_LIST_OWN,
	HIDE_DROP_ASKED,
	HIDE_DROP_INDEXES,
	HIDE_DROP_LOOKED,
};

struct hide {
	struct sequence sequence; /* has to be the first */
	struct packet reply;      /* to the list with the condition */
	struct permission_question question;
	int32_t indexes; /* of the collection that is not dropped */
};

static struct hide *hide_of(struct sequence *sequence)
{
	return (struct hide *)(void *)sequence;
}

static const struct rule_set *rules_of(const struct sequence *sequence)
{
	return namespace_cache_rules(sequence->match.cache);
}

/* ---- listCollections ---- */

/* The client's filter, byte for byte, and {$nor: [...]} behind it: a name may stand twice there. */
static void write_filter(const struct sequence *sequence, struct buffer *out)
{
	const struct command *command = &sequence->match.command;
	const struct element *filter = &command->fields[FIELD_FILTER];
	size_t start = writer_open_document(out, "filter"), list, place = 0;

	if (filter->type == BSON_BYTE_DOCUMENT)
		buffer_append(out, filter->value.data + 4, filter->value.length - 5);
	list = writer_open_array(out, "$nor");
	overflow_names_splice(out, &place, rules_of(sequence), command->database);
	writer_close(out, list);
	writer_close(out, start);
}

static bool edit_field(void *context, struct buffer *out, const struct element *field)
{
	const struct sequence *sequence = context;
	const struct command *command = &sequence->match.command;

	if (element_is(field, "filter")) {
		write_filter(sequence, out);
		return true;
	}
	if (field->name.data != command->first.name.data || command_has(command, FIELD_FILTER))
		return false;
	writer_element(out, field);
	write_filter(sequence, out);
	return true;
}

static enum sequence_outcome send_list(struct sequence *sequence)
{
	sequence_write_edited(sequence, 0, edit_field, sequence);
	sequence->step = HIDE_LIST_SENT;
	return SEQUENCE_SEND;
}

static enum sequence_outcome take_list(struct sequence *sequence, struct packet *reply)
{
	if (!reply_is_unauthorized(reply))
		return sequence_pass(sequence, reply);
	hide_of(sequence)->reply = packet_steal(reply);
	sequence->step = HIDE_LIST_OWN;
	return sequence_send_request(sequence);
}

/* The user may have got the right in between: the list would not be the one that was asked for. */
static enum sequence_outcome take_own_list(struct sequence *sequence, struct packet *reply)
{
	return sequence_pass(sequence, reply->summary.ok ? &hide_of(sequence)->reply : reply);
}

/* ---- drop of an overflow collection ---- */

static enum sequence_outcome ask_permission(struct sequence *sequence,
					    const struct sequence_input *input)
{
	struct permission_question *question = &hide_of(sequence)->question;

	*question = (struct permission_question){.request_id = sequence->next_request_id++,
						 .number = PERMISSION_LEAST + (int64_t)input->now};
	if (!permission_ask(question, &sequence->request, &sequence->match, &sequence->buffer))
		return sequence_fail(sequence, ERROR_COMMAND_NOT_SUPPORTED,
				     "Spillway: the command names nothing that the server could "
				     "be asked about",
				     NULL);
	sequence->output = buffer_view(&sequence->buffer);
	sequence->step = HIDE_DROP_ASKED;
	return SEQUENCE_SEND;
}

/* At a primary, as a drop. */
static enum sequence_outcome ask_collection(struct sequence *sequence, const char *name,
					    enum hide_step step)
{
	const struct command *command = &sequence->match.command;
	size_t body = sequence_begin_command(sequence);

	writer_text(&sequence->buffer, name, command->collection);
	if (step == HIDE_DROP_LOOKED) {
		writer_int32(&sequence->buffer, "limit", 1);
		writer_bool(&sequence->buffer, "singleBatch", true);
	}
	writer_text(&sequence->buffer, "$db", command->database);
	sequence_write_cursor_fields(sequence);
	sequence->step = step;
	return sequence_send_command(sequence, body);
}

static enum sequence_outcome take_permission(struct sequence *sequence, struct packet *reply)
{
	switch (permission_told(reply)) {
	case PERMISSION_GIVEN:
		return ask_collection(sequence, "listIndexes", HIDE_DROP_INDEXES);
	case PERMISSION_DENIED:
	case PERMISSION_OPEN:
		return permission_pass(&hide_of(sequence)->question, sequence, reply);
	case PERMISSION_BROKEN:
		break;
	}
	return sequence_fail(sequence, ERROR_COMMAND_NOT_SUPPORTED,
			     "Spillway: the server did not say whether this client may run the "
			     "command: it is no mongod, or its reply can't be read",
			     NULL);
}

/* How many indexes the batch has. *ours: one is the index that Spillway makes on its overflow, or
 * stands for it while numbers stand twice. */
static int32_t count_indexes(const struct rule *rule, struct bytes batch, bool *ours)
{
	struct cursor cursor;
	struct element index;
	int32_t count = 0;

	if (!cursor_open(&cursor, batch))
		return 0;
	for (; cursor_next(&cursor, &index) == CURSOR_ELEMENT; count++)
		*ours = *ours || (index.type == BSON_BYTE_DOCUMENT &&
				  (judge_is_batch_index(rule, index.value) ||
				   judge_is_place_index(rule, index.value) ||
				   judge_orders_overflow(rule, index.value)));
	return count;
}

static enum sequence_outcome answer_drop(struct sequence *sequence, const struct packet *reply)
{
	const struct command *command = &sequence->match.command;
	struct buffer *out = &sequence->buffer;
	auto_buffer struct buffer name = {0};
	size_t body = sequence_begin_reply(sequence, &reply->message);
	struct cursor cursor;
	struct element field;

	buffer_append(&name, command->database.data, command->database.length);
	buffer_append(&name, ".", 1);
	buffer_append(&name, command->collection.data, command->collection.length);
	writer_int32(out, "nIndexesWas", hide_of(sequence)->indexes);
	writer_text(out, "ns", buffer_view(&name));
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, "cursor"))
			writer_element(out, &field);
	return sequence_end_reply(sequence, body);
}

/* Without Spillway's index the collection may be an application's own. */
static enum sequence_outcome refuse_drop(struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;
	const struct rule *rule =
		rule_set_overflow(rules_of(sequence), command->database, command->collection);
	char what[320];

	snprintf(what, sizeof(what), "drop of the overflow collection '%.*s.%.*s'",
		 (int)command->database.length, (const char *)command->database.data,
		 (int)command->collection.length, (const char *)command->collection.data);
	match_refuse(&sequence->match, rule, what,
		     "it lacks the index that Spillway makes, so it may hold an application's own "
		     "documents; drop it straight at the server");
	return sequence_fail(sequence, sequence->match.refusal.code,
			     sequence->match.refusal.message, NULL);
}

static enum sequence_outcome take_indexes(struct sequence *sequence, struct packet *reply)
{
	const struct command *command = &sequence->match.command;
	const struct reply_summary *summary = &reply->summary;
	const struct rule *rule =
		rule_set_overflow(rules_of(sequence), command->database, command->collection);
	bool ours = false;

	require(rule);
	if (!summary->ok && summary->code == ERROR_NAMESPACE_NOT_FOUND)
		return sequence_fail(sequence, ERROR_NAMESPACE_NOT_FOUND, "ns not found", NULL);
	if (!summary->ok || summary->cursor.length == 0)
		return sequence_pass_helper_error(sequence, reply, NULL);
	hide_of(sequence)->indexes =
		count_indexes(rule, reply_read_cursor(summary->cursor).batch, &ours);
	return ours ? answer_drop(sequence, reply)
		    : ask_collection(sequence, "find", HIDE_DROP_LOOKED);
}

static enum sequence_outcome take_look(struct sequence *sequence, struct packet *reply)
{
	struct reply_cursor read = reply_read_cursor(reply->summary.cursor);
	struct cursor documents;
	struct element document;

	if (!reply->summary.ok || !cursor_open(&documents, read.batch))
		return sequence_pass_helper_error(sequence, reply, NULL);
	return cursor_next(&documents, &document) == CURSOR_END ? answer_drop(sequence, reply)
								: refuse_drop(sequence);
}

static enum sequence_outcome hide_resume(struct sequence *sequence,
					 const struct sequence_input *input)
{
	switch ((enum hide_step)sequence->step) {
	case HIDE_BEGINS:
		return sequence->match.command.kind == COMMAND_DROP
			       ? ask_permission(sequence, input)
			       : send_list(sequence);
	case HIDE_LIST_SENT:
		return take_list(sequence, input->reply);
	case HIDE_LIST_OWN:
		return take_own_list(sequence, input->reply);
	case HIDE_DROP_ASKED:
		return take_permission(sequence, input->reply);
	case HIDE_DROP_INDEXES:
		return take_indexes(sequence, input->reply);
	case HIDE_DROP_LOOKED:
		return take_look(sequence, input->reply);
	}
	require(!"a step without a name");
}

static void hide_fini(struct sequence *sequence)
{
	packet_fini(&hide_of(sequence)->reply);
}

static size_t hide_memory(const struct sequence *sequence)
{
	return ((const struct hide *)(const void *)sequence)->reply.raw.capacity;
}

struct sequence *sequence_hide_new(const struct match *match)
{
	struct hide *hide;

	if (match->command.kind == COMMAND_DB_STATS)
		return sequence_stats_new();
	hide = must_calloc(1, sizeof(*hide));
	hide->sequence.resume = hide_resume;
	hide->sequence.fini = hide_fini;
	hide->sequence.memory = hide_memory;
	return &hide->sequence;
}
