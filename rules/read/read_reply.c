/* The documents of a reply go into a merge, and come out of it as the client's reply. */
#include "rules/read/read_inner.h"

#include "protocol/writer.h"
#include "rules/read/remainder.h"

void read_open_merge(struct sequence_read *read)
{
	fetch_init(&read->fetch, read->sequence.match.namespace);
	read->fetching = true;
	if (read->windows)
		merge_set_windows(read->fetch.merge, read->windows);
}

enum merge_intake read_take_batch(struct sequence_read *read, size_t most, struct bytes *refused)
{
	static const uint8_t nothing[] = {5, 0, 0, 0, 0};
	const struct bytes in_its_place = {nothing, sizeof(nothing)};
	struct element document;
	struct cursor cursor;
	enum cursor_step step;
	enum merge_intake intake = MERGE_TAKEN;
	int64_t then;
	bool last;

	*refused = (struct bytes){0};
	read->batch_count = 0;
	if (!read->batch.data || !cursor_open(&cursor, read->batch))
		return MERGE_BROKEN;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT) {
		struct bytes image = document.value;

		if (document.type != BSON_BYTE_DOCUMENT)
			return MERGE_BROKEN;
		if (remainder_read(document.value, &image, &last, &then))
			read->unwrapped = true;
		if (read->batch_count++ < most)
			intake = merge_add_document(read->fetch.merge, image);
		if (intake == MERGE_BROKEN &&
		    read_skips(&read->sequence, image, merge_document_count(read->fetch.merge)))
			intake = merge_add_document(read->fetch.merge, in_its_place);
		if (intake != MERGE_TAKEN) {
			*refused = image;
			return intake;
		}
	}
	return step == CURSOR_END ? MERGE_TAKEN : MERGE_BROKEN;
}

void read_follow(struct sequence_read *read)
{
	struct element document;
	struct bytes image;
	struct cursor cursor;
	int64_t then;
	bool last = false;

	if (!read->unwrapped || !cursor_open(&cursor, read->batch))
		return;
	while (!last && cursor_next(&cursor, &document) == CURSOR_ELEMENT)
		(void)!remainder_read(document.value, &image, &last, &then);
	if (last) {
		read->spent = read->cursor_id;
		read->cursor_id = then;
	}
}

/* The most bytes that a reply may have before the end of its batch. */
static size_t batch_limit(const struct sequence_read *read)
{
	return FRAME_MAX_LENGTH - (read->main.message.body.length - read->batch.length) - 256;
}

static void write_batch(struct sequence_read *read, const struct element *field)
{
	struct buffer *out = &read->sequence.buffer;
	struct merge *merge = read->fetch.merge;
	size_t batch, number = 0, limit = batch_limit(read);
	char name[12];

	read->cut = merge_document_count(merge);
	batch = writer_open_array(out,
				  element_is(field, "firstBatch") ? "firstBatch" : "nextBatch");
	for (size_t i = 0; i < merge_document_count(merge); i++) {
		size_t mark = out->length;
		const char *key = writer_index(name, number);

		if (read->retry.gone && read->retry.gone[i])
			continue;
		buffer_append(out, &(uint8_t){BSON_BYTE_DOCUMENT}, 1);
		buffer_append(out, key, strlen(key) + 1);
		if (!merge_write_document(merge, i, out)) {
			out->length = mark;
			read->retry.dead = i;
			return;
		}
		if (number++ > 0 && out->length > limit) {
			out->length = mark;
			read->cut = i;
			break;
		}
	}
	writer_close(out, batch);
}

/* It is set once all is known. */
static void write_id(struct sequence_read *read)
{
	writer_int64(&read->sequence.buffer, "id", read->cursor_id);
	read->id_at = read->sequence.buffer.length - 8;
}

/* The value of the reply's field `cursor`. */
static void write_cursor(struct sequence_read *read)
{
	struct buffer *out = &read->sequence.buffer;
	size_t start = writer_open(out);
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, read->cursor));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT && read->retry.dead == SIZE_MAX) {
		if (element_is(&field, "firstBatch") || element_is(&field, "nextBatch"))
			write_batch(read, &field);
		else if (!element_is(&field, "id"))
			writer_element(out, &field);
		else if (read->retry.dead == SIZE_MAX)
			write_id(read);
	}
	if (read->retry.dead == SIZE_MAX)
		writer_close(out, start);
}

/* A document that was read again is as new as that reply, whose times the client has to know: it
 * might else read something older from another member. */
static void write_newer_field(const struct sequence_read *read, struct buffer *out,
			      const struct element *field)
{
	struct element newer;

	if ((element_is(field, "operationTime") || element_is(field, "$clusterTime")) &&
	    document_find(read->retry.replies[read->retry.reply_count - 1].message.body,
			  element_is(field, "operationTime") ? "operationTime" : "$clusterTime",
			  &newer))
		field = &newer;
	writer_element(out, field);
}

static void write_newer_fields(struct sequence_read *read, struct buffer *out)
{
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, read->main.message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (field.value.data != read->cursor.data) {
			write_newer_field(read, out, &field);
			continue;
		}
		buffer_append(out, element_head(&field).data, element_head(&field).length);
		write_cursor(read);
	}
}

/* What stands around the cursor goes as it came. */
static void write_same_fields(struct sequence_read *read, struct buffer *out)
{
	struct bytes body = read->main.message.body;
	const uint8_t *first = body.data + 4, *behind = read->cursor.data + read->cursor.length;

	buffer_append(out, first, (size_t)(read->cursor.data - first));
	write_cursor(read);
	buffer_append(out, behind, (size_t)(body.data + body.length - 1 - behind));
}

must_check bool read_make_room(struct sequence_read *read)
{
	struct buffer *out = &read->sequence.buffer;

	out->length = 0;
	return buffer_try_reserve(out, read->fetch.kept_bytes + read->main.raw.length +
					       read->main.unpacked.length);
}

void read_write_reply(struct sequence_read *read)
{
	const struct message *main = &read->main.message;
	struct buffer *out = &read->sequence.buffer;
	size_t body;

	read->retry.dead = SIZE_MAX;
	read->id_at = 0;
	out->length = 0;
	message_begin(out, main->header.request_id, read->sequence.request.header.request_id, 0);
	message_begin_body(out);
	body = writer_open(out);
	if (read->retry.reply_count > 0)
		write_newer_fields(read, out);
	else
		write_same_fields(read, out);
	if (read->retry.dead != SIZE_MAX)
		return;
	writer_close(out, body);
	message_end(out, 0);
}
