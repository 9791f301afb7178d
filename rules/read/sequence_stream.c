/* Exact change streams: the events of a reply become what the application did.
 *
 *   PIPELINE_ASKED  the client's aggregate, for no events: mongod may refuse its stages
 *   PIPELINE_KILLED this cursor
 *   ASKED           the client's aggregate, without its stages; or its getMore
 *   STATES_ASKED    find {_id: {$in: [...]}}: the arrays' states just before the first event that
 *                   needs one; from there they are followed from event to event. They are asked
 *                   once more behind this event's transaction if it may have begun before the reply
 *   EARLIER_ASKED   the transaction's events before the reply, if a state has ended in it
 *   EARLIER_KILLED  the cursor of these
 *   ARRAY_ASKED     find {_id}: an array that a client's write has set to what was stored
 *   OVERFLOW_ASKED  what fullDocuments lack
 *   AGAIN_ASKED     find {_id}: a document that was looked up, and rewritten since
 *   STAGES_ASKED    aggregate {$documents: <events>}, and the client's stages
 *   KILL_ASKED      the stream's cursor, behind an event that can't be told
 *
 * Each reply is worked on by itself: nothing is kept from one to the next, so that any Spillway can
 * go on with a stream. */
#include "rules/read/stream.h"

#include "rules/read/error_words.h"
#include "rules/reassembly/raised.h"
#include "rules/rule/id_text.h"

#include <stdio.h>
#include <stdlib.h>

#define ATTEMPTS 5

static struct stream *stream_of(struct sequence *sequence)
{
	return read_of(sequence)->stream;
}

struct stream *stream_new(void)
{
	return must_calloc(1, sizeof(struct stream));
}

void stream_free(struct stream *stream)
{
	if (!stream)
		return;
	for (size_t i = 0; i < stream->part_count; i++) {
		if (stream->parts[i].fetching)
			fetch_fini(&stream->parts[i].fetch);
		buffer_fini(&stream->parts[i].concern);
		namespace_release(stream->parts[i].namespace);
	}
	for (size_t i = 0; i < stream->kept_count; i++)
		packet_fini(&stream->kept[i]);
	free(stream->kept);
	free(stream->parts);
	for (size_t i = 0; i < stream->count; i++)
		if (stream->items[i].advanced) { /* others own nothing */
			buffer_fini(&stream->items[i].stored);
			change_task_fini(&stream->items[i].task);
		}
	free(stream->items);
	knowledge_fini(&stream->knowledge);
	buffer_fini(&stream->changes);
	buffer_fini(&stream->events);
	buffer_fini(&stream->passed);
	free(stream);
}

size_t stream_memory(const struct stream *stream)
{
	size_t memory = stream->changes.capacity + stream->events.capacity +
			stream->passed.capacity +
			stream->count * (sizeof(*stream->items) + sizeof(struct change_array)) +
			stream->knowledge.capacity * sizeof(*stream->knowledge.list);

	for (size_t i = 0; i < stream->part_count; i++)
		memory += stream->parts[i].fetch.kept_bytes;
	for (size_t i = 0; i < stream->kept_count; i++)
		memory += stream->kept[i].raw.capacity;
	return memory;
}

bool stream_is(struct bytes cursor)
{
	struct bytes token;

	return document_find_string(cursor, "postBatchResumeToken._data", &token);
}

/* ---- the end ---- */

enum sequence_outcome stream_send_kill(struct sequence *sequence, enum stream_step step)
{
	const struct command *command = &sequence->match.command;
	struct bytes collection = command->collection;
	auto_free char *database =
		must_strndup((const char *)command->database.data, command->database.length);
	auto_free char *name = NULL;

	if (command->fields[FIELD_COLLECTION].type != 0 &&
	    !element_string(&command->fields[FIELD_COLLECTION], &collection))
		collection = (struct bytes){0};
	name = collection.length > 0
		       ? must_strndup((const char *)collection.data, collection.length)
		       : must_strndup("$cmd.aggregate", strlen("$cmd.aggregate"));
	sequence->step = step;
	return sequence_send_kill(sequence, database, name, read_of(sequence)->cursor_id);
}

/* The events of this batch are lost to the client: nobody may read on behind them. */
enum sequence_outcome stream_end_failed(struct sequence *sequence)
{
	struct sequence_read *read = read_of(sequence);

	if (sequence->output.data == sequence->buffer.data)
		read->failure = buffer_steal(&sequence->buffer);
	else
		buffer_append(&read->failure, sequence->output.data, sequence->output.length);
	return stream_send_kill(sequence, STREAM_KILL_ASKED);
}

static enum sequence_outcome take_kill(struct sequence *sequence)
{
	struct sequence_read *read = read_of(sequence);

	buffer_fini(&sequence->buffer);
	sequence->buffer = buffer_steal(&read->failure);
	sequence->output = buffer_view(&sequence->buffer);
	return SEQUENCE_DONE;
}

/* For these mongod itself labels a getMore of a stream: drivers go on behind the last event. */
static bool is_resumable(int64_t code)
{
	return sequence_is_passing(code) || code == 134;
}

enum sequence_outcome stream_pass_error(struct sequence *sequence, struct packet *reply)
{
	if (is_resumable(reply->summary.code))
		sequence_pass_relabelled(sequence, reply, "ResumableChangeStreamError", NULL);
	else
		read_words_pass(sequence, reply);
	return stream_end_failed(sequence);
}

enum sequence_outcome stream_fail(struct sequence *sequence, enum error_code code, const char *why)
{
	char message[SEQUENCE_MESSAGE];

	snprintf(message, sizeof(message), "Spillway: %.1200s", why);
	sequence_fail(sequence, code, message, NULL);
	return stream_end_failed(sequence);
}

enum sequence_outcome stream_fail_item(struct sequence *sequence, const struct stream_item *item,
				       enum error_code code, const char *why)
{
	char message[SEQUENCE_MESSAGE];

	snprintf(message, sizeof(message),
		 "a change of the document with %s in '%.100s.%.100s': %s",
		 id_text(&item->event.id).text, item->namespace->database,
		 item->namespace->collection, why);
	return stream_fail(sequence, code, message);
}

/* ---- fullDocuments ---- */

/* What the overflow was at the time of the event is not known any more. */
static enum sequence_outcome lose(struct sequence *sequence, const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);
	struct stream_item *item = &stream->items[stream->stop.item];

	if (stream->stop.image != STREAM_ARRAY)
		return stream_fail_item(sequence, item, ERROR_CHANGE_STREAM_HISTORY_LOST,
					STREAM_TOO_OLD_WORDS);
	item->documents[STREAM_ARRAY].gone = true;
	return stream_answer(sequence, input);
}

static enum sequence_outcome fail_fetch(struct sequence *sequence,
					const struct sequence_input *input,
					struct stream_part *part, enum fetch_outcome outcome)
{
	struct stream *stream = stream_of(sequence);

	if (outcome == FETCH_FAILED && part->concern.length > 0 &&
	    stream->stop.image == STREAM_ARRAY) {
		part->fetching = false;
		fetch_fini(&part->fetch);
		return lose(sequence, input);
	}
	if (outcome == FETCH_FAILED && part->concern.length > 0)
		return stream_fail_snapshot(sequence, &stream->items[stream->stop.item],
					    &part->fetch.failed);
	if (outcome == FETCH_FAILED)
		return stream_pass_error(sequence, &part->fetch.failed);
	(void)fetch_fail(&part->fetch, sequence, outcome);
	return stream_end_failed(sequence);
}

static enum sequence_outcome fetch_on(struct sequence *sequence, const struct sequence_input *input,
				      struct packet *reply)
{
	struct stream *stream = stream_of(sequence);

	for (; stream->asking < stream->part_count; stream->asking++) {
		struct stream_part *part = &stream->parts[stream->asking];
		enum fetch_outcome outcome;

		if (!part->fetching)
			continue;
		if (input->memory_short)
			return stream_fail(
				sequence, ERROR_TEMPORARILY_UNAVAILABLE,
				"no memory is left for putting arrays together; try again "
				"later");
		part->fetch.most = FRAME_MAX_LENGTH;
		outcome = fetch_next(&part->fetch, sequence, input, reply);
		reply = NULL;
		if (outcome == FETCH_SEND) {
			sequence->step = STREAM_OVERFLOW_ASKED;
			return SEQUENCE_SEND;
		}
		if (outcome != FETCH_COMPLETE)
			return fail_fetch(sequence, input, part, outcome);
	}
	return stream_answer(sequence, input);
}

/* The document was looked up: as it is now will do, too. */
static enum sequence_outcome look_up(struct sequence *sequence, const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);
	const struct stream_item *item = &stream->items[stream->stop.item];
	auto_buffer struct buffer concern = {0};
	size_t body;

	if (stream->stop.tried != stream->stop.item)
		stream->stop.attempts = 0;
	stream->stop.tried = stream->stop.item;
	if (++stream->stop.attempts > ATTEMPTS)
		return stream_fail_item(sequence, item, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
					RAISED_DIED_WORDS);
	template_write_document(&concern, "{level: 'majority'}");
	body = sequence_begin_command(sequence);
	template_write_fields(&sequence->buffer,
			      "{find: @collection, filter: {_id: {$eq: @id}}, limit: 1, "
			      "singleBatch: true}",
			      fill("collection", item->namespace->collection),
			      fill("id", &item->event.id));
	sequence_write_read_fields(sequence, input, item->namespace->database,
				   buffer_view(&concern));
	sequence->step = STREAM_AGAIN_ASKED;
	return sequence_send_command(sequence, body);
}

/* The document is that of the event's time: so has the overflow to be. It was still there. */
static enum sequence_outcome look_back(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);
	const struct stream_item *item = &stream->items[stream->stop.item];
	struct stream_document *document =
		&stream->items[stream->stop.item].documents[stream->stop.image];
	struct stream_part *part;

	if (stream->parts[document->part].concern.length > 0)
		return lose(sequence, input);
	document->part = stream->asking = stream_add_part(stream, item->namespace);
	part = &stream->parts[document->part];
	stream_write_snapshot(&part->concern, &item->event.time, false);
	fetch_init(&part->fetch, item->namespace);
	part->fetching = true;
	part->fetch.read_concern = buffer_view(&part->concern);
	document->index = 0;
	if (merge_add_document(part->fetch.merge, document->stored) != MERGE_TAKEN)
		return stream_fail_item(sequence, item, ERROR_DATA_CORRUPTION,
					RAISED_DAMAGED_WORDS);
	return fetch_on(sequence, input, NULL);
}

static enum sequence_outcome ask_again(struct sequence *sequence,
				       const struct sequence_input *input)
{
	const struct stream *stream = stream_of(sequence);
	bool looked_up = stream->items[stream->stop.item].event.kind == EVENT_UPDATE &&
			 stream->stop.image == STREAM_FULL && !stream->images;

	return looked_up ? look_up(sequence, input) : look_back(sequence, input);
}

struct packet *stream_keep(struct stream *stream, struct packet *reply)
{
	stream->kept = must_realloc(stream->kept, (stream->kept_count + 1) * sizeof(*stream->kept));
	stream->kept[stream->kept_count] = packet_steal(reply);
	return &stream->kept[stream->kept_count++];
}

/* The first document of a reply; false where there is none. */
static bool first_document(const struct packet *reply, struct element *document)
{
	struct bytes batch = reply_read_cursor(reply->summary.cursor).batch;
	struct cursor cursor;

	return batch.data && cursor_open(&cursor, batch) &&
	       cursor_next(&cursor, document) == CURSOR_ELEMENT &&
	       document->type == BSON_BYTE_DOCUMENT;
}

static enum sequence_outcome take_again(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);
	struct stream_item *item = &stream->items[stream->stop.item];
	struct stream_document *looked_up = &item->documents[STREAM_FULL];
	struct element document;

	if (!input->reply->summary.ok)
		return stream_pass_error(sequence, input->reply);
	stream->asking = looked_up->part;
	if (!first_document(stream_keep(stream, input->reply), &document))
		looked_up->gone = true;
	else if (merge_replace_document(stream->parts[looked_up->part].fetch.merge,
					looked_up->index, document.value) != MERGE_TAKEN)
		return stream_fail_item(sequence, item, ERROR_DATA_CORRUPTION,
					RAISED_DAMAGED_WORDS);
	return fetch_on(sequence, input, NULL);
}

enum sequence_outcome stream_end(struct sequence *sequence)
{
	enum sequence_outcome outcome = stream_write_reply(sequence);

	if (sequence->buffer.length > FRAME_MAX_LENGTH)
		return stream_fail(sequence, ERROR_OBJECT_TOO_LARGE,
				   "the events of a batch, with whole documents, pass the "
				   "48,000,000 bytes of a message; open the stream with a smaller "
				   "batchSize");
	return outcome;
}

enum sequence_outcome stream_answer(struct sequence *sequence, const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);

	if (!stream_write_events(stream))
		return stream->stop.unclear
			       ? stream_fail_item(sequence, &stream->items[stream->stop.item],
						  ERROR_CHANGE_STREAM_HISTORY_LOST,
						  STREAM_NOT_WHOLE_WORDS)
			       : ask_again(sequence, input);
	return stream->stages.list.length > 0 ? stream_ask_stages(sequence, input)
					      : stream_end(sequence);
}

static enum sequence_outcome fetch_documents(struct sequence *sequence,
					     const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);

	if (!stream_open_merges(stream))
		return stream_fail_item(sequence, &stream->items[stream->stop.item],
					ERROR_DATA_CORRUPTION, RAISED_DAMAGED_WORDS);
	stream->asking = 0;
	return fetch_on(sequence, input, NULL);
}

/* ---- an array that a client's write has set to what was stored ---- */

static enum sequence_outcome ask_array(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);
	const struct stream_item *item = &stream->items[stream->settled];
	size_t target = change_unknown(&item->task)->target;
	auto_buffer struct buffer concern = {0};
	size_t body = sequence_begin_command(sequence);

	stream_write_snapshot(&concern, &item->event.time, true);
	template_write_fields(&sequence->buffer,
			      "{find: @collection, filter: {_id: {$eq: @id}}, projection: "
			      "{'@array': 1}, limit: 1, singleBatch: true}",
			      fill("collection", item->namespace->collection),
			      fill("id", &item->event.id),
			      fill("array", item->namespace->targets[target].rule->array));
	sequence_write_read_fields(sequence, input, item->namespace->database,
				   buffer_view(&concern));
	sequence->step = STREAM_ARRAY_ASKED;
	return sequence_send_command(sequence, body);
}

enum sequence_outcome stream_go_on(struct sequence *sequence, const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);

	if (!stream->touched && !knowledge_has_states(&stream->knowledge))
		return sequence_pass(sequence, &read_of(sequence)->main);
	switch (stream_settle(stream)) {
	case STREAM_SETTLED:
		return fetch_documents(sequence, input);
	case STREAM_WANTS_ARRAY:
		return ask_array(sequence, input);
	case STREAM_EDITED:
		return stream_fail_item(sequence, &stream->items[stream->settled],
					ERROR_CHANGE_STREAM_HISTORY_LOST, STREAM_EDITED_WORDS);
	case STREAM_UNCLEAR:
		break;
	}
	return stream_fail_item(sequence, &stream->items[stream->settled],
				ERROR_CHANGE_STREAM_HISTORY_LOST, STREAM_UNCLEAR_WORDS);
}

static enum sequence_outcome take_array(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);
	struct stream_item *item = &stream->items[stream->settled];
	struct change_array *array = change_unknown(&item->task);
	struct element document, before = {.type = 0};

	if (!input->reply->summary.ok)
		return stream_fail_snapshot(sequence, item, input->reply);
	if (first_document(stream_keep(stream, input->reply), &document) &&
	    !document_find_path(document.value, item->namespace->targets[array->target].rule->array,
				&before))
		before.type = 0;
	if (!stream_set_array(stream, array, &before))
		return stream_fail_item(sequence, item, ERROR_CHANGE_STREAM_HISTORY_LOST,
					STREAM_UNCLEAR_WORDS);
	return stream_go_on(sequence, input);
}

/* ---- the client's command ---- */

/* No helper could be sent while the server streams its replies. */
static enum sequence_outcome begin(struct sequence *sequence)
{
	if (stream_has_stages(sequence))
		return stream_ask_pipeline(sequence);
	if (stream_has_images(sequence) || stream_leaves_out(sequence))
		return stream_open_marked(sequence);
	sequence->step = STREAM_ASKED;
	if (!(sequence->request.message.flags & MESSAGE_EXHAUST_ALLOWED))
		return sequence_send_request(sequence);
	sequence_write_edited(sequence, MESSAGE_EXHAUST_ALLOWED, NULL, NULL);
	return sequence->match.facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

static enum sequence_outcome pass_failure(struct sequence *sequence,
					  const struct sequence_input *input)
{
	char message[RAISED_MESSAGE];
	enum error_code code;
	const char *failure = raised_failure(&input->reply->summary, message, &code);

	return failure ? sequence_fail(sequence, code, failure, NULL)
		       : sequence_pass(sequence, input->reply);
}

/* ---- streams that were opened under other rules ---- */

static bool is_exact(const struct sequence *sequence)
{
	const struct match *match = &sequence->match;

	return match->namespace ? stream_is_exact(match->namespace)
				: rule_set_has_streams(namespace_cache_rules(match->cache),
						       (struct bytes){0}, RULE_STREAMS_EXACT);
}

/* Of all that a stream of a database, or of the cluster, tells. */
static bool is_refused_wide(const struct match *match)
{
	const struct rule_set *rules = namespace_cache_rules(match->cache);

	return bytes_are(match->command.database, "admin")
		       ? rule_set_has_streams(rules, (struct bytes){0}, RULE_STREAMS_REFUSED)
		       : rule_set_stream_refused(rules, match->command.database) != NULL;
}

static bool is_refused(const struct match *match)
{
	if (!match->namespace)
		return is_refused_wide(match);
	for (size_t i = 0; i < match->namespace->target_count; i++)
		if (match->namespace->targets[i].rule->streams == RULE_STREAMS_REFUSED)
			return true;
	return false;
}

/* It was opened before these rules were in force, which do not let it be: they refuse it, or it is
 * an exact one with marks that only exact rules take away. */
static bool is_outlived(const struct sequence *sequence, struct bytes batch)
{
	struct element document;
	struct cursor events;

	if (is_refused(&sequence->match))
		return true;
	return !is_exact(sequence) && batch.data && cursor_open(&events, batch) &&
	       cursor_next(&events, &document) == CURSOR_ELEMENT && stream_is_marked(&document);
}

bool stream_is_told(const struct sequence *sequence, struct bytes batch)
{
	return is_exact(sequence) || is_outlived(sequence, batch);
}

/* Drivers open it anew, behind the last event that they had, under the rules of now. */
static enum sequence_outcome end_outlived(struct sequence *sequence)
{
	sequence_fail(
		sequence, ERROR_CURSOR_NOT_FOUND,
		"Spillway: the change stream was opened under other rules than those in force "
		"(change_streams); open it anew behind the last event",
		"ResumableChangeStreamError");
	return stream_end_failed(sequence);
}

enum sequence_outcome stream_take(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	const struct reply_summary *summary = &input->reply->summary;
	struct reply_cursor cursor;
	struct stream *stream = stream_of(sequence);

	if (!summary->readable || !summary->ok || summary->cursor.length == 0 ||
	    !stream_is(summary->cursor))
		return pass_failure(sequence, input);
	packet_move(&read->main, input->reply);
	cursor = reply_read_cursor(read->main.summary.cursor);
	if (!element_integer(&cursor.id, &read->cursor_id))
		read->cursor_id = 0;
	if (read_is_command(sequence, COMMAND_GET_MORE) && is_outlived(sequence, cursor.batch))
		return end_outlived(sequence);
	if (!is_exact(sequence))
		return sequence_pass(sequence, &read->main);
	/* A getMore's time is how long it waits for an event. */
	sequence->match.command.fields[FIELD_MAX_TIME].type = 0;
	if (!stream_take_batch(sequence, cursor.batch))
		return stream_fail(sequence, ERROR_FAILED_TO_PARSE,
				   "the server's reply can't be read");
	if (!stream->touched && stream->knowledge.count == 0)
		return sequence_pass(sequence, &read->main);
	return stream_ask_states(sequence, input);
}

enum sequence_outcome stream_resume(struct sequence *sequence, const struct sequence_input *input)
{
	switch ((enum stream_step)sequence->step) {
	case STREAM_BEGIN:
		return begin(sequence);
	case STREAM_PIPELINE_ASKED:
		return stream_take_pipeline(sequence, input->reply);
	case STREAM_PIPELINE_KILLED:
		return stream_open_marked(sequence);
	case STREAM_ASKED:
		return stream_take(sequence, input);
	case STREAM_STATES_ASKED:
		return stream_take_states(sequence, input);
	case STREAM_EARLIER_ASKED:
		return stream_take_earlier(sequence, input);
	case STREAM_EARLIER_KILLED:
		return stream_ask_earlier(sequence, input);
	case STREAM_ARRAY_ASKED:
		return take_array(sequence, input);
	case STREAM_OVERFLOW_ASKED:
		return fetch_on(sequence, input, input->reply);
	case STREAM_AGAIN_ASKED:
		return take_again(sequence, input);
	case STREAM_STAGES_ASKED:
		return stream_take_stages(sequence, input);
	case STREAM_KILL_ASKED:
		return take_kill(sequence);
	}
	require(!"a step of another sequence");
}

struct sequence *sequence_stream_new(void)
{
	struct sequence *sequence = sequence_read_new();

	sequence->resume = stream_resume;
	read_of(sequence)->stream = stream_new();
	return sequence;
}
