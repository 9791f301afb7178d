/* The states that arrays had just before the first event of a reply that needs one.
 *
 * A transaction's events have one time. If the reply may begin in the middle of a transaction, the
 * states are asked for behind it, too: where one has not stood, the transaction's earlier events
 * are asked for. */
#include "rules/read/stream.h"

#include "rules/reassembly/raised.h"

#define IDS_MOST 20000
#define ID_BYTES_MOST (8 << 20)
#define EARLIER_MOST 100000
#define SNAPSHOT_UNAVAILABLE 246
#define SNAPSHOT_TOO_OLD 239

static struct stream *stream_of(struct sequence *sequence)
{
	return read_of(sequence)->stream;
}

void stream_write_snapshot(struct buffer *concern, const struct element *time, bool before)
{
	size_t start = writer_open(concern);
	uint8_t bytes[8];
	int64_t value = load_int64(time->value.data) - before;
	struct element at = {.type = BSON_BYTE_TIMESTAMP, .value = {bytes, sizeof(bytes)}};

	memcpy(bytes, &value, sizeof(bytes));
	writer_string(concern, "level", "snapshot");
	writer_renamed(concern, "atClusterTime", &at);
	writer_close(concern, start);
}

enum sequence_outcome stream_fail_snapshot(struct sequence *sequence,
					   const struct stream_item *item, struct packet *reply)
{
	if (reply->summary.code == SNAPSHOT_TOO_OLD || reply->summary.code == SNAPSHOT_UNAVAILABLE)
		return stream_fail_item(sequence, item, ERROR_CHANGE_STREAM_HISTORY_LOST,
					STREAM_TOO_OLD_WORDS);
	return stream_pass_error(sequence, reply);
}

/* ---- states ---- */

/* The `_id`s of the next documents of this part; false: none is left. */
static bool write_ids(struct stream *stream, struct buffer *out)
{
	const struct ruled_namespace *namespace = stream->parts[stream->asking].namespace;
	size_t start = writer_open_array(out, "$in"), mark = out->length, count = 0;
	char name[12];

	for (; stream->asked < stream->knowledge.count; stream->asked++) {
		const struct known *known = &stream->knowledge.list[stream->asked];

		if (known->namespace != namespace || (stream->behind && known->states.count == 0))
			continue;
		if (count == IDS_MOST || out->length - mark > ID_BYTES_MOST)
			break;
		writer_renamed(out, writer_index(name, count++), &known->id);
	}
	writer_close(out, start);
	return count > 0;
}

static enum sequence_outcome ask_part(struct sequence *sequence, const struct sequence_input *input,
				      struct bytes ids)
{
	struct stream *stream = stream_of(sequence);
	const struct ruled_namespace *namespace = stream->parts[stream->asking].namespace;
	auto_buffer struct buffer concern = {0};
	size_t body;

	stream_write_snapshot(&concern, &stream->items[stream->from].event.time, !stream->behind);
	body = sequence_begin_command(sequence);
	template_write_fields(&sequence->buffer,
			      "{find: @collection, filter: {_id: @ids}, projection: {_spill: 1}, "
			      "batchSize: @most}",
			      fill("collection", namespace->collection), fill_document("ids", ids),
			      fill("most", IDS_MOST + 1));
	sequence_write_read_fields(sequence, input, namespace->database, buffer_view(&concern));
	sequence->step = STREAM_STATES_ASKED;
	return sequence_send_command(sequence, body);
}

/* mongod ends a batch at 16 MB: a document may have many states. */
static enum sequence_outcome ask_more(struct sequence *sequence, int64_t id)
{
	const struct stream *stream = stream_of(sequence);
	const struct ruled_namespace *namespace = stream->parts[stream->asking].namespace;
	size_t body = sequence_begin_command(sequence);

	template_write_fields(&sequence->buffer,
			      "{getMore: @id, collection: @collection, $db: @database}",
			      fill("id", id), fill("collection", namespace->collection),
			      fill("database", namespace->database));
	sequence_write_cursor_fields(sequence);
	return sequence_send_command(sequence, body);
}

/* Which documents have to be there before the first event that needs states. One that an event in
 * front of that has inserted has none: no such event makes one. */
static void note_wanted(struct stream *stream)
{
	for (size_t i = 0; i < stream->knowledge.count; i++)
		stream->knowledge.list[i].met = stream->knowledge.list[i].wanted = false;
	for (size_t i = 0; i < stream->count; i++) {
		struct stream_item *item = &stream->items[i];
		struct known *known = stream_find_known(stream, item);
		bool inserted = item->event.kind == EVENT_INSERT;

		if (!known || (i < stream->from && !inserted))
			continue;
		if (!known->met)
			known->wanted = !inserted || item->documents[STREAM_FULL].stored.data;
		known->met = true;
	}
}

/* mongod 6.0 refuses to read at a time before the collection was made. None of these documents was
 * there then: each was inserted by an event of this reply. */
static bool is_of_before_the_collection(struct stream *stream, const struct packet *refused)
{
	const struct ruled_namespace *namespace = stream->parts[stream->asking].namespace;

	if (refused->summary.code != SNAPSHOT_UNAVAILABLE || stream->behind)
		return false;
	note_wanted(stream);
	for (size_t i = 0; i < stream->knowledge.count; i++)
		if (stream->knowledge.list[i].namespace == namespace &&
		    stream->knowledge.list[i].wanted)
			return false;
	return true;
}

/* It was inserted by an earlier event, or its collection is not the one that it was. */
static bool is_missing(const struct known *known)
{
	return known->wanted && !known->found;
}

/* The first event is one of a transaction that may have begun before the reply. */
static bool begins_inside(const struct stream *stream)
{
	const struct known *list = stream->knowledge.list;
	bool concerns = false;

	for (size_t i = 0; i < stream->knowledge.count; i++)
		concerns = concerns || list[i].states.count > 0 || is_missing(&list[i]);
	return concerns && stream->from == 0 && stream->items[0].event.in_transaction;
}

/* mongod 6.0 reads nothing of a time when a collection had another name, or was not dropped yet. */
static enum sequence_outcome go_on(struct sequence *sequence, const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);

	note_wanted(stream);
	for (size_t i = 0; i < stream->knowledge.count; i++)
		if (is_missing(&stream->knowledge.list[i]))
			return stream_fail_item(sequence, &stream->items[stream->from],
						ERROR_CHANGE_STREAM_HISTORY_LOST,
						STREAM_TOO_OLD_WORDS);
	return stream_go_on(sequence, input);
}

static enum sequence_outcome finish_states(struct sequence *sequence,
					   const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);

	stream->asking = stream->asked = 0;
	if (stream->behind)
		return stream_ask_earlier(sequence, input);
	note_wanted(stream);
	if (!begins_inside(stream))
		return go_on(sequence, input);
	stream->behind = true;
	return stream_ask_states(sequence, input);
}

enum sequence_outcome stream_ask_states(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);

	for (; stream->asking < stream->part_count; stream->asking++, stream->asked = 0) {
		auto_buffer struct buffer ids = {0};
		size_t start = writer_open(&ids);
		bool any = write_ids(stream, &ids);

		writer_close(&ids, start);
		if (any)
			return ask_part(sequence, input, buffer_view(&ids));
	}
	return finish_states(sequence, input);
}

static bool learn(struct stream *stream, struct bytes document)
{
	const struct ruled_namespace *namespace = stream->parts[stream->asking].namespace;
	struct array_states behind = {0};
	struct known *known;
	struct element id;
	bool sound;

	if (!document_find(document, "_id", &id))
		return false;
	known = knowledge_find(&stream->knowledge, namespace, &id);
	if (!known)
		return true;
	known->found = true;
	if (!stream->behind)
		return array_states_read(namespace, document, &known->states);
	known->stands = array_states_read(namespace, document, &behind);
	sound = known->stands;
	for (size_t i = 0; i < known->states.count; i++)
		known->stands &= array_state_stands(&known->states.list[i], &behind);
	array_states_fini(&behind);
	return sound;
}

enum sequence_outcome stream_take_states(struct sequence *sequence,
					 const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);
	const struct stream_item *first = &stream->items[stream->from];
	struct element document;
	struct cursor cursor;
	struct reply_cursor reply;
	int64_t more;

	if (!input->reply->summary.ok)
		return is_of_before_the_collection(stream, input->reply)
			       ? stream_ask_states(sequence, input)
			       : stream_fail_snapshot(sequence, first, input->reply);
	reply = reply_read_cursor(input->reply->summary.cursor);
	if (!reply.batch.data || !cursor_open(&cursor, reply.batch) ||
	    !element_integer(&reply.id, &more))
		return stream_fail(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
				   "the server's reply can't be read; try again");
	while (cursor_next(&cursor, &document) == CURSOR_ELEMENT)
		if (document.type != BSON_BYTE_DOCUMENT || !learn(stream, document.value))
			return stream_fail(sequence, ERROR_DATA_CORRUPTION, RAISED_DAMAGED_WORDS);
	return more != 0 ? ask_more(sequence, more) : stream_ask_states(sequence, input);
}

/* ---- earlier events ---- */

static bool is_unsure(const struct stream *stream, const struct ruled_namespace *namespace)
{
	const struct known *list = stream->knowledge.list;

	for (size_t i = 0; i < stream->knowledge.count; i++)
		if (list[i].namespace == namespace &&
		    ((list[i].states.count > 0 && !list[i].stands) || is_missing(&list[i])))
			return true;
	return false;
}

enum sequence_outcome stream_ask_earlier(struct sequence *sequence,
					 const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);
	const struct ruled_namespace *namespace;
	size_t body;

	while (stream->asking < stream->part_count &&
	       !is_unsure(stream, stream->parts[stream->asking].namespace))
		stream->asking++;
	if (stream->asking == stream->part_count)
		return go_on(sequence, input);
	namespace = stream->parts[stream->asking].namespace;
	sequence->match.command.fields[FIELD_READ_CONCERN].type = 0;
	body = sequence_begin_command(sequence);
	template_write_fields(
		&sequence->buffer,
		"{aggregate: @collection, pipeline: [{$changeStream: {startAtOperationTime: "
		"@time}}, {$match: {clusterTime: @time}}], cursor: {batchSize: @most}}",
		fill("collection", namespace->collection),
		fill("time", &stream->items[stream->first].event.time), fill("most", EARLIER_MOST));
	sequence_write_read_fields(sequence, input, namespace->database, (struct bytes){0});
	sequence->step = STREAM_EARLIER_ASKED;
	return sequence_send_command(sequence, body);
}

/* The reply has all events up to this one. */
static bool reaches(struct bytes cursor, const struct event *event)
{
	struct bytes reached, token;

	return document_find_string(cursor, "postBatchResumeToken._data", &reached) &&
	       document_find_string(event->whole, "_id._data", &token) &&
	       stream_compare_tokens(reached, token) >= 0;
}

enum sequence_outcome stream_take_earlier(struct sequence *sequence,
					  const struct sequence_input *input)
{
	struct stream *stream = stream_of(sequence);
	const struct ruled_namespace *namespace = stream->parts[stream->asking].namespace;
	struct reply_cursor reply;
	struct packet *kept;
	int64_t id;

	if (!input->reply->summary.ok)
		return stream_fail_snapshot(sequence, &stream->items[stream->first], input->reply);
	kept = stream_keep(stream, input->reply);
	reply = reply_read_cursor(kept->summary.cursor);
	if (!reaches(kept->summary.cursor, &stream->items[stream->first].event) ||
	    !stream_take_earlier_batch(sequence, reply.batch, namespace) ||
	    !element_integer(&reply.id, &id))
		return stream_fail_item(sequence, &stream->items[stream->first],
					ERROR_CHANGE_STREAM_HISTORY_LOST, STREAM_TOO_OLD_WORDS);
	stream->asking++;
	sequence->step = STREAM_EARLIER_KILLED;
	return sequence_send_kill(sequence, namespace->database, namespace->collection, id);
}
