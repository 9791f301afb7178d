/* The stages that a client has put behind $changeStream.
 *
 * They have to see events as clients do, so the stream is opened without them. Each event carries
 * them in a field of its own: a getMore knows no pipeline. mongod runs them on the rewritten
 * events. */
#include "rules/read/stream.h"

#include "protocol/writer.h"
#include "rules/rule/overflow_names.h"

#include <stdio.h>

#define MODIFIED \
	"%s :: caused by :: Encountered an event whose _id field, which contains the resume " \
	"token, was modified by the pipeline. Modifying the _id field of an event makes it " \
	"impossible to resume the stream from that point. Only transformations that retain the " \
	"unmodified _id field are allowed."

/* ---- the client's aggregate ---- */

static bool open_stages(const struct sequence *sequence, struct cursor *stages,
			struct element *first)
{
	const struct element *pipeline = &sequence->match.command.fields[FIELD_PIPELINE];

	return sequence->match.command.kind == COMMAND_AGGREGATE &&
	       pipeline->type == BSON_BYTE_ARRAY && cursor_open(stages, pipeline->value) &&
	       cursor_next(stages, first) == CURSOR_ELEMENT;
}

bool stream_has_stages(const struct sequence *sequence)
{
	struct element stage;
	struct cursor stages;

	return open_stages(sequence, &stages, &stage) &&
	       cursor_next(&stages, &stage) == CURSOR_ELEMENT;
}

static bool find_option(const struct sequence *sequence, const char *name, struct bytes *word)
{
	struct element document, options;
	struct cursor stages;

	return open_stages(sequence, &stages, &document) &&
	       element_only_field(&document, &options) && options.type == BSON_BYTE_DOCUMENT &&
	       document_find_string(options.value, name, word);
}

bool stream_has_images(const struct sequence *sequence)
{
	struct bytes word;

	return find_option(sequence, "fullDocument", &word) &&
	       (bytes_are(word, "whenAvailable") || bytes_are(word, "required"));
}

static bool requires(const struct sequence *sequence, const char *name)
{
	struct bytes word;

	return find_option(sequence, name, &word) && bytes_are(word, "required");
}

/* Overflow collections have no images: mongod must leave their events out before it looks for
 * them. A rule that shows what is stored shows its overflow, too. */
bool stream_leaves_out(const struct sequence *sequence)
{
	const struct rule_set *rules = namespace_cache_rules(sequence->match.cache);

	if (sequence->match.namespace ||
	    !(requires(sequence, "fullDocument") || requires(sequence, "fullDocumentBeforeChange")))
		return false;
	for (size_t i = 0; i < rule_set_count(rules); i++)
		if (rule_set_at(rules, i)->streams != RULE_STREAMS_EXACT)
			return false;
	return true;
}

static bool edit_batch(void *context, struct buffer *out, const struct element *field)
{
	(void)context;
	if (!element_is(field, "cursor"))
		return false;
	template_write(out, "cursor", "{batchSize: 0}");
	return true;
}

enum sequence_outcome stream_ask_pipeline(struct sequence *sequence)
{
	sequence->step = STREAM_PIPELINE_ASKED;
	sequence_write_edited(sequence, MESSAGE_EXHAUST_ALLOWED | MESSAGE_MORE_TO_COME, edit_batch,
			      NULL);
	return SEQUENCE_SEND;
}

enum sequence_outcome stream_take_pipeline(struct sequence *sequence, struct packet *reply)
{
	struct reply_cursor cursor = reply_read_cursor(reply->summary.cursor);

	if (!reply->summary.ok || !element_integer(&cursor.id, &read_of(sequence)->cursor_id))
		return sequence_pass(sequence, reply);
	return stream_send_kill(sequence, STREAM_PIPELINE_KILLED);
}

static void write_others(struct buffer *out, const char *name, const void *context)
{
	struct cursor stages;
	struct element stage;
	size_t start, list, place = 0;
	char index[12];

	if (!stream_has_stages(context) || !open_stages(context, &stages, &stage))
		return;
	start = writer_open_document(out, name);
	list = writer_open_array(out, "$literal");
	while (cursor_next(&stages, &stage) == CURSOR_ELEMENT)
		writer_renamed(out, writer_index(index, place++), &stage);
	writer_close(out, list);
	writer_close(out, start);
}

static void write_images(struct buffer *out, const char *name, const void *context)
{
	if (stream_has_images(context))
		writer_bool(out, name, true);
}

/* As {v: {v: "$$v"}}: what has no value has none there, either. */
static void write_variables(struct buffer *out, const char *name, const void *context)
{
	const struct sequence *sequence = context;
	const struct element *let = &sequence->match.command.fields[FIELD_LET];
	struct cursor variables;
	struct element each;
	size_t start;

	if (!stream_has_stages(sequence) || let->type != BSON_BYTE_DOCUMENT ||
	    !cursor_open(&variables, let->value))
		return;
	start = writer_open_document(out, name);
	while (cursor_next(&variables, &each) == CURSOR_ELEMENT) {
		const char *variable = (const char *)each.name.data;
		auto_buffer struct buffer path = {0};

		buffer_append(&path, "$$", 2);
		buffer_append(&path, each.name.data, each.name.length);
		template_write(out, variable, "{@variable: @value}", fill("variable", variable),
			       fill_bytes("value", buffer_view(&path)));
	}
	writer_close(out, start);
}

static void write_collation(struct buffer *out, const char *name, const void *context)
{
	const struct sequence *sequence = context;
	const struct element *collation = &sequence->match.command.fields[FIELD_COLLATION];

	if (stream_has_stages(sequence) && collation->type == BSON_BYTE_DOCUMENT)
		template_write(out, name, "{$literal: @collation}", fill("collation", collation));
}

static void splice_names(struct buffer *out, size_t *place, const void *context)
{
	const struct sequence *sequence = context;

	overflow_names_splice_events(out, place, namespace_cache_rules(sequence->match.cache));
}

static void splice_stages(struct buffer *out, size_t *place, const void *context)
{
	const struct sequence *sequence = context;
	char index[12];

	if (stream_leaves_out(sequence))
		template_write(out, writer_index(index, (*place)++),
			       "{$match: {$and: [{'ns.db': {$not: {$regex: '^spillway\\z'}}}, "
			       "..@names]}}",
			       fill_spliced("names", splice_names, sequence));
	if (stream_has_stages(sequence) || stream_has_images(sequence))
		template_write(out, writer_index(index, (*place)++),
			       "{$set: {'" STREAM_STAGES "': @others, '" STREAM_LET
			       "': @variables, '" STREAM_COLLATION
			       "': @collation, '" STREAM_IMAGE_MARK "': @images}}",
			       fill_with("others", write_others, sequence),
			       fill_with("variables", write_variables, sequence),
			       fill_with("collation", write_collation, sequence),
			       fill_with("images", write_images, sequence));
}

static bool edit_pipeline(void *context, struct buffer *out, const struct element *field)
{
	const struct sequence *sequence = context;
	struct cursor stages;
	struct element first;

	if (!element_is(field, "pipeline") || !open_stages(sequence, &stages, &first))
		return false;
	template_write(out, "pipeline", "[@first, ..@stages]", fill("first", &first),
		       fill_spliced("stages", splice_stages, sequence));
	return true;
}

enum sequence_outcome stream_open_marked(struct sequence *sequence)
{
	sequence->step = STREAM_ASKED;
	sequence_write_edited(sequence, MESSAGE_EXHAUST_ALLOWED, edit_pipeline, sequence);
	return sequence->match.facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

/* ---- the events ---- */

/* The next events, some megabytes of them. */
static void splice_events(struct buffer *out, size_t *place, const void *context)
{
	const struct stream *stream = context;
	struct bytes left = {stream->events.data + stream->sent, stream->sending}, event;
	char name[12];

	while (message_next_document(&left, &event))
		writer_document(out, writer_index(name, (*place)++), event);
}

static void write_let(struct buffer *out, const char *name, const void *context)
{
	const struct stream *stream = context;
	struct cursor variables;
	struct element each, value;
	size_t start;

	if (stream->stages.let.length == 0 || !cursor_open(&variables, stream->stages.let))
		return;
	start = writer_open_document(out, name);
	while (cursor_next(&variables, &each) == CURSOR_ELEMENT) {
		const char *variable = (const char *)each.name.data;

		if (each.type == BSON_BYTE_DOCUMENT && document_find(each.value, variable, &value))
			template_write(out, variable, "{$literal: @value}", fill("value", &value));
		else
			writer_string(out, variable, "$$REMOVE");
	}
	writer_close(out, start);
}

static void choose_events(struct stream *stream)
{
	struct bytes left = {stream->events.data + stream->sent,
			     stream->events.length - stream->sent};
	struct bytes event;

	stream->sending = 0;
	while ((stream->sending == 0 || stream->sending < STREAM_PART_MOST) &&
	       message_next_document(&left, &event))
		stream->sending += event.length;
}

/* A collection has a collation of its own, which its streams don't take. */
static void write_own_collation(struct buffer *out, const char *name, const void *context)
{
	const struct stream *stream = context;

	if (stream->stages.collation.length > 0)
		writer_document(out, name, stream->stages.collation);
	else
		template_write(out, name, "{locale: 'simple'}");
}

/* Who may watch a collection may read that, but perhaps nothing else in its database: there
 * $documents is not allowed. A $facet makes one document of none. */
#define FROM_COLLECTION \
	"{aggregate: @collection, pipeline: [{$match: {_id: {$in: []}}}, {$facet: {e: [{$limit: " \
	"1}]}}, {$project: {e: {$literal: [..@events]}}}, {$unwind: '$e'}, {$replaceRoot: " \
	"{newRoot: '$e'}}, "
#define FROM_DATABASE "{aggregate: 1, pipeline: [{$documents: {$literal: [..@events]}}, "
#define RUN "..@stages], cursor: {batchSize: 1000000}, let: @let, collation: @collation}"

enum sequence_outcome stream_ask_stages(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct stream *stream = read_of(sequence)->stream;
	const struct command *command = &sequence->match.command;
	const struct ruled_namespace *namespace = sequence->match.namespace;
	auto_free char *database = NULL;
	size_t body;

	if (stream->sent == stream->events.length && stream->told < stream->count &&
	    stream->passed.length <= FRAME_MAX_LENGTH)
		return stream_answer(sequence, input);
	if (stream->sent == stream->events.length) {
		buffer_fini(&stream->events);
		stream->events = buffer_steal(&stream->passed);
		return stream_end(sequence);
	}
	choose_events(stream);
	database = must_strndup((const char *)command->database.data, command->database.length);
	sequence->match.command.fields[FIELD_READ_CONCERN].type = 0;
	body = sequence_begin_command(sequence);
	template_write_fields(
		&sequence->buffer, namespace ? FROM_COLLECTION RUN : FROM_DATABASE RUN,
		fill("collection", namespace ? namespace->collection : NULL),
		fill_spliced("events", splice_events, stream),
		fill_array("stages", stream->stages.list), fill_with("let", write_let, stream),
		fill_with("collation", write_own_collation, stream));
	sequence_write_read_fields(sequence, input, database, (struct bytes){0});
	sequence->step = STREAM_STAGES_ASKED;
	return sequence_send_command(sequence, body);
}

/* The event with this `_id` among those that went through, behind those that were found before. */
static bool find_event(struct bytes *left, const struct element *id)
{
	struct element own;
	struct bytes event;

	while (message_next_document(left, &event))
		if (document_find(event, "_id", &own) &&
		    bytes_equal(element_raw(&own), element_raw(id)))
			return true;
	return false;
}

static bool take_events(struct stream *stream, struct bytes batch)
{
	struct bytes left = {stream->events.data + stream->sent, stream->sending};
	struct element event, id;
	struct cursor cursor;

	if (!batch.data || !cursor_open(&cursor, batch))
		return false;
	while (cursor_next(&cursor, &event) == CURSOR_ELEMENT) {
		if (event.type != BSON_BYTE_DOCUMENT || !document_find(event.value, "_id", &id) ||
		    !find_event(&left, &id))
			return false;
		buffer_append(&stream->passed, event.value.data, event.value.length);
	}
	return true;
}

static enum sequence_outcome fail_modified(struct sequence *sequence)
{
	bool more = sequence->match.command.kind == COMMAND_GET_MORE;
	char message[SEQUENCE_MESSAGE];

	snprintf(message, sizeof(message), MODIFIED,
		 more ? "Executor error during getMore" : "PlanExecutor error during aggregation");
	sequence_fail(sequence, ERROR_CHANGE_STREAM_FATAL, message,
		      "NonResumableChangeStreamError");
	return stream_end_failed(sequence);
}

enum sequence_outcome stream_take_stages(struct sequence *sequence,
					 const struct sequence_input *input)
{
	struct stream *stream = read_of(sequence)->stream;
	struct reply_cursor cursor = reply_read_cursor(input->reply->summary.cursor);
	int64_t more;

	if (!input->reply->summary.ok)
		return stream_pass_error(sequence, input->reply);
	if (!element_integer(&cursor.id, &more) || more != 0)
		return stream_fail(sequence, ERROR_OBJECT_TOO_LARGE,
				   "the pipeline makes more than 16 MB of some events; open the "
				   "stream with a smaller batchSize");
	if (!take_events(stream, cursor.batch))
		return fail_modified(sequence);
	stream->sent += stream->sending;
	return stream_ask_stages(sequence, input);
}
