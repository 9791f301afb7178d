/* The reply to an aggregate becomes the reply to the client's own command. */
#include "rules/read/aggregate_reply.h"

#include "protocol/writer.h"
#include "rules/merge/merge.h"

/* The first document of the reply's batch; false where there is none. */
static bool first_document(struct bytes cursor_document, struct bytes *document)
{
	struct element batch, first;
	struct cursor cursor;

	if (!document_find(cursor_document, "firstBatch", &batch) ||
	    batch.type != BSON_BYTE_ARRAY || !cursor_open(&cursor, batch.value) ||
	    cursor_next(&cursor, &first) != CURSOR_ELEMENT || first.type != BSON_BYTE_DOCUMENT)
		return false;
	*document = first.value;
	return true;
}

static void write_count(struct buffer *out, struct bytes document)
{
	struct element count;

	if (document.length > 0 && document_find(document, "n", &count))
		writer_renamed(out, "n", &count);
	else
		writer_int32(out, "n", 0);
}

static void write_values(struct buffer *out, struct bytes document)
{
	struct element values;
	size_t empty;

	if (document.length > 0 && document_find(document, "values", &values)) {
		writer_element(out, &values);
		return;
	}
	empty = writer_open_array(out, "values");
	writer_close(out, empty);
}

enum sequence_outcome aggregate_reply_value(struct sequence *sequence, struct packet *reply,
					    struct bytes cursor_document)
{
	struct buffer *out = &sequence->buffer;
	struct bytes document = {0};
	struct cursor cursor;
	struct element field;
	size_t body;

	(void)!first_document(cursor_document, &document);
	body = sequence_begin_reply(sequence, &reply->message);
	if (sequence->match.command.kind == COMMAND_COUNT)
		write_count(out, document);
	else
		write_values(out, document);
	if (document_find(cursor_document, "atClusterTime", &field)) /* a snapshot's */
		writer_element(out, &field);
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, "cursor"))
			writer_element(out, &field);
	return sequence_end_reply(sequence, body);
}

/* The reply with another cursor. */
static enum sequence_outcome pass_cursor(struct sequence *sequence, struct packet *reply,
					 struct bytes cursor_document)
{
	struct buffer *out = &sequence->buffer;
	struct cursor cursor;
	struct element field;
	size_t body = sequence_begin_reply(sequence, &reply->message);

	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "cursor"))
			writer_document(out, "cursor", cursor_document);
		else
			writer_element(out, &field);
	return sequence_end_reply(sequence, body);
}

bool aggregate_reply_query(struct bytes body, struct bytes *query)
{
	struct element field, first;
	struct cursor stages;

	if (document_find(body, "queryPlanner", &field) || !document_find(body, "stages", &field) ||
	    field.type != BSON_BYTE_ARRAY || !cursor_open(&stages, field.value) ||
	    cursor_next(&stages, &first) != CURSOR_ELEMENT || first.type != BSON_BYTE_DOCUMENT ||
	    !document_find(first.value, "$cursor", &field) || field.type != BSON_BYTE_DOCUMENT)
		return false;
	*query = field.value;
	return true;
}

enum sequence_outcome aggregate_reply_explain(struct sequence *sequence, struct packet *reply,
					      struct bytes query)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_reply(sequence, &reply->message);
	struct cursor fields, parts;
	struct element field, part;

	require(cursor_open(&fields, reply->message.body));
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "stages") && cursor_open(&parts, query))
			while (cursor_next(&parts, &part) == CURSOR_ELEMENT)
				writer_element(out, &part);
		writer_element(out, &field);
	}
	return sequence_end_reply(sequence, body);
}

/* ---- documents that are marked (computed.h) ---- */

static bool write_unmarked(struct buffer *out, struct merge *merge, const struct element *batch)
{
	char name[12];
	size_t list = writer_open_array(out, "firstBatch"), count;
	struct element document;
	struct cursor cursor;

	if (!cursor_open(&cursor, batch->value))
		return false;
	while (cursor_next(&cursor, &document) == CURSOR_ELEMENT) {
		count = merge_document_count(merge);
		if (document.type != BSON_BYTE_DOCUMENT ||
		    merge_add_document(merge, document.value) != MERGE_TAKEN)
			return false;
		buffer_append(out, &document.type, 1);
		writer_index(name, count);
		buffer_append(out, name, strlen(name) + 1);
		if (!merge_write_document(merge, count, out))
			return false;
	}
	writer_close(out, list);
	return true;
}

/* The reply's cursor, with documents that have lost their marks. */
static bool write_shown(struct buffer *out, struct merge *merge, struct bytes cursor_document)
{
	struct element field;
	struct cursor fields;
	size_t start = writer_open(out);

	if (!cursor_open(&fields, cursor_document))
		return false;
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, "firstBatch"))
			writer_element(out, &field);
		else if (!write_unmarked(out, merge, &field))
			return false;
	writer_close(out, start);
	return true;
}

enum sequence_outcome aggregate_reply_computed(struct sequence *sequence, struct packet *reply,
					       struct bytes cursor_document)
{
	auto_buffer struct buffer shown = {0};
	struct merge *merge = merge_new(sequence->match.namespace);
	bool written = write_shown(&shown, merge, cursor_document);

	merge_free(merge);
	return written ? pass_cursor(sequence, reply, buffer_view(&shown))
		       : sequence_fail_by_rule(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
					       "a document that was computed can't be read");
}

/* The reply's cursor, without what stands behind the first documents of its batch. */
static void write_cut(struct buffer *out, struct bytes cursor_document, size_t documents)
{
	struct cursor fields, batch;
	struct element field, document;
	size_t start = writer_open(out), list;

	require(cursor_open(&fields, cursor_document));
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, "firstBatch")) {
			writer_element(out, &field);
			continue;
		}
		list = writer_open_array(out, "firstBatch");
		require(cursor_open(&batch, field.value));
		for (size_t i = 0; i < documents; i++) {
			require(cursor_next(&batch, &document) == CURSOR_ELEMENT);
			writer_element(out, &document);
		}
		writer_close(out, list);
	}
	writer_close(out, start);
}

enum sequence_outcome aggregate_reply_cut(struct sequence *sequence, struct packet *reply,
					  struct bytes cursor_document, size_t documents)
{
	auto_buffer struct buffer cut = {0};

	write_cut(&cut, cursor_document, documents);
	return sequence->match.command.kind == COMMAND_FIND ||
			       sequence->match.command.kind == COMMAND_AGGREGATE
		       ? pass_cursor(sequence, reply, buffer_view(&cut))
		       : aggregate_reply_value(sequence, reply, buffer_view(&cut));
}
