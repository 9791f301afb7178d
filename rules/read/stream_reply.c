/* A change stream's reply as the client sees it. */
#include "rules/read/stream.h"

#include "protocol/writer.h"

static const char *const image_names[STREAM_IMAGES] = {
	[STREAM_FULL] = "fullDocument",
	[STREAM_BEFORE] = "fullDocumentBeforeChange",
	[STREAM_ARRAY] = "",
};

static bool write_document(struct stream *stream, const struct stream_item *item,
			   enum stream_image image, struct buffer *out)
{
	const struct stream_document *document = &item->documents[image];
	uint8_t type = document->gone ? BSON_BYTE_NULL : BSON_BYTE_DOCUMENT;

	stream->stop.image = image;
	buffer_append(out, &type, 1);
	buffer_append(out, image_names[image], strlen(image_names[image]) + 1);
	return document->gone || merge_write_document(stream->parts[document->part].fetch.merge,
						      document->index, out);
}

static bool is_image(const struct stream_item *item, const struct element *field,
		     enum stream_image image)
{
	return item->documents[image].stored.data && element_is(field, image_names[image]);
}

static bool is_mark(const struct element *field)
{
	return bytes_begin_with(field->name, NAME_STATE "/");
}

/* Whole, unless it is too large, or its overflow is not known any more: then by positions, which
 * say no less. What an array is in has none. */
static bool write_whole(struct stream *stream, const struct stream_item *item, struct buffer *out)
{
	const struct stream_document *document = &item->documents[STREAM_ARRAY];
	auto_buffer struct buffer whole = {0};
	struct change_task task = item->task;
	struct change_written written;

	task.by_positions = !document->stored.data || document->gone;
	stream->stop.image = STREAM_ARRAY;
	if (!task.by_positions && !merge_write_document(stream->parts[document->part].fetch.merge,
							document->index, &whole))
		return false;
	if (!task.by_positions)
		task.by_positions = !document_find_path(
			buffer_view(&whole), (const char *)item->whole.name.data, &task.whole);
	stream->stop.unclear = !change_write(item->event.change, &task, out, &written);
	return !stream->stop.unclear;
}

static bool write_update(struct stream *stream, const struct stream_item *item, struct buffer *out)
{
	if (item->whole.type != 0)
		return write_whole(stream, item, out);
	buffer_append(out, stream->changes.data + item->change, item->change_length);
	return true;
}

static bool write_field(struct stream *stream, const struct stream_item *item,
			const struct element *field, struct buffer *out)
{
	if (is_image(item, field, STREAM_FULL))
		return write_document(stream, item, STREAM_FULL, out);
	if (is_image(item, field, STREAM_BEFORE))
		return write_document(stream, item, STREAM_BEFORE, out);
	if (item->changed && element_is(field, "updateDescription"))
		return write_update(stream, item, out);
	writer_element(out, field);
	return true;
}

static bool is_as_it_came(const struct stream *stream, const struct stream_item *item)
{
	return !item->changed && !item->documents[STREAM_FULL].stored.data &&
	       !item->documents[STREAM_BEFORE].stored.data && !stream->images &&
	       stream->stages.list.length == 0;
}

static bool write_event(struct stream *stream, const struct stream_item *item)
{
	struct buffer *out = &stream->events;
	struct cursor cursor;
	struct element field;
	size_t start;

	if (is_as_it_came(stream, item)) {
		buffer_append(out, item->event.whole.data, item->event.whole.length);
		return true;
	}
	start = writer_open(out);
	require(cursor_open(&cursor, item->event.whole));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!is_mark(&field) && !write_field(stream, item, &field, out))
			return false;
	writer_close(out, start);
	return true;
}

/* Whole documents may make many times the bytes that came: what passes a message is no reply, and
 * what goes through the stages does so in parts. */
static bool is_enough(const struct stream *stream)
{
	return stream->events.length >
	       (stream->stages.list.length > 0 ? STREAM_PART_MOST : FRAME_MAX_LENGTH);
}

must_check bool stream_write_events(struct stream *stream)
{
	size_t i = stream->told;

	stream->events.length = stream->sent = 0;
	for (; i < stream->count && !is_enough(stream); i++) {
		stream->stop.item = i;
		if (!stream->items[i].drops && !write_event(stream, &stream->items[i]))
			return false;
	}
	stream->told = i;
	return true;
}

static void write_batch(const struct stream *stream, struct buffer *out, const char *name)
{
	struct bytes events = buffer_view(&stream->events), event;
	size_t number = 0, batch = writer_open_array(out, name);
	char index[12];

	while (message_next_document(&events, &event))
		writer_document(out, writer_index(index, number++), event);
	writer_close(out, batch);
}

static void write_cursor(const struct stream *stream, struct buffer *out, struct bytes document)
{
	struct cursor cursor;
	struct element field;
	size_t start;

	if (!cursor_open(&cursor, document))
		return;
	start = writer_open_document(out, "cursor");
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, "firstBatch") && !element_is(&field, "nextBatch"))
			writer_element(out, &field);
		else
			write_batch(stream, out, (const char *)field.name.data);
	writer_close(out, start);
}

enum sequence_outcome stream_write_reply(struct sequence *sequence)
{
	struct sequence_read *read = read_of(sequence);
	const struct message *main = &read->main.message;
	size_t body = sequence_begin_reply(sequence, main);
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, main->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "cursor") && field.type == BSON_BYTE_DOCUMENT)
			write_cursor(read->stream, &sequence->buffer, field.value);
		else
			writer_element(&sequence->buffer, &field);
	return sequence_end_reply(sequence, body);
}
