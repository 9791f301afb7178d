/* The replies to the runs of a bulkWrite, put together. */
#include "rules/write/bulk_reply.h"

#include "protocol/template.h"
#include "rules/write/write_result.h"

/* ---- items ---- */

static size_t open_item(struct bulk_reply *reply, double ok, size_t index)
{
	size_t start = writer_open(&reply->items);

	writer_double(&reply->items, "ok", ok);
	writer_int32(&reply->items, "idx", (int32_t)index);
	return start;
}

static void close_failed(struct bulk_reply *reply, const struct bulk_op *op, size_t start)
{
	writer_int32(&reply->items, "n", 0);
	if (op->kind == BULK_UPDATE)
		writer_int32(&reply->items, "nModified", 0);
	writer_close(&reply->items, start);
	reply->errors++;
}

/* mongod's order: code, errmsg, then what the code brings with it (keyPattern, errInfo, ...). */
static void add_failed(struct bulk_reply *reply, const struct bulk_op *op,
		       const struct write_entry *error)
{
	size_t start = open_item(reply, 0.0, error->index);
	struct cursor cursor;
	struct element field;

	if (document_find(error->document, "code", &field))
		writer_element(&reply->items, &field);
	if (document_find(error->document, "errmsg", &field))
		writer_element(&reply->items, &field);
	require(cursor_open(&cursor, error->document));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, "index") && !element_is(&field, "code") &&
		    !element_is(&field, "errmsg"))
			writer_element(&reply->items, &field);
	close_failed(reply, op, start);
}

static void add_upserted(struct bulk_reply *reply, const struct write_entries *upserted)
{
	struct element id;

	if (upserted->count > 0 && document_find(upserted->entries[0].document, "_id", &id))
		template_write(&reply->items, "upserted", "{_id: @id}", fill("id", &id));
}

/* An insert, or the one statement of its command. */
static void add_done(struct bulk_reply *reply, const struct bulk_op *op, size_t index,
		     const struct write_result *result)
{
	size_t start = open_item(reply, 1.0, index);

	writer_int32(&reply->items, "n", op->kind == BULK_INSERT ? 1 : (int32_t)result->n);
	if (op->kind == BULK_UPDATE) {
		writer_int32(&reply->items, "nModified", (int32_t)result->modified);
		add_upserted(reply, &result->upserted);
	}
	writer_close(&reply->items, start);
}

static void add_items(struct bulk_reply *reply, const struct bulk_write *bulk, struct bulk_run run,
		      const struct write_result *result)
{
	const struct write_entries *errors = &result->errors;
	size_t error = 0;

	for (size_t i = run.first; i < run.first + run.count; i++) {
		if (error < errors->count && errors->entries[error].index == i) {
			add_failed(reply, &bulk->ops[i], &errors->entries[error++]);
			if (bulk->stops)
				return;
		} else if (!bulk->errors_only) {
			add_done(reply, &bulk->ops[i], i, result);
		}
	}
}

/* ---- one reply ---- */

static void add_counts(struct bulk_reply *reply, const struct bulk_op *op,
		       const struct write_result *result)
{
	switch (op->kind) {
	case BULK_INSERT:
		reply->inserted += result->n;
		break;
	case BULK_UPDATE:
		reply->matched += result->n - (int64_t)result->upserted.count;
		reply->modified += result->modified;
		reply->upserted += (int64_t)result->upserted.count;
		break;
	case BULK_DELETE:
		reply->deleted += result->n;
		break;
	}
}

/* As mongod gives them: each of the run's, in turn. */
static bool errors_sound(const struct write_entries *errors, struct bulk_run run)
{
	for (size_t i = 0; i < errors->count; i++)
		if (errors->entries[i].index >= run.first + run.count ||
		    (i > 0 && errors->entries[i].index <= errors->entries[i - 1].index))
			return false;
	return true;
}

static void keep_concern(struct bulk_reply *reply)
{
	struct bytes body = reply->last.message.body;
	struct element field;
	size_t start;

	if (!document_find(body, "writeConcernError", &field))
		return;
	reply->concern.length = 0;
	start = writer_open(&reply->concern);
	writer_element(&reply->concern, &field);
	if (document_find(body, "errorLabels", &field))
		writer_element(&reply->concern, &field);
	writer_close(&reply->concern, start);
}

/* The last reply lends its fields; what an earlier one said of the write concern is kept. */
static void keep_last(struct bulk_reply *reply, struct packet *answer)
{
	if (reply->some)
		keep_concern(reply);
	packet_fini(&reply->last);
	reply->last = packet_steal(answer);
	reply->some = true;
}

must_check bool bulk_reply_add(struct bulk_reply *reply, const struct bulk_write *bulk,
			       struct bulk_run run, struct packet *answer)
{
	struct write_result result = {0};
	bool sound = write_result_add(&result, answer, run.first);

	if (sound && !errors_sound(&result.errors, run)) {
		*answer = packet_steal(&result.replies[0]);
		sound = false;
	}
	if (sound) {
		add_counts(reply, &bulk->ops[run.first], &result);
		add_items(reply, bulk, run, &result);
		buffer_append(&reply->retried, result.retried.data, result.retried.length);
		keep_last(reply, &result.replies[0]);
	}
	write_result_fini(&result);
	return sound;
}

void bulk_reply_add_failure(struct bulk_reply *reply, const struct bulk_write *bulk,
			    struct bulk_run run, int32_t code, struct bytes message)
{
	size_t count = bulk->stops ? 1 : run.count;

	for (size_t i = run.first; i < run.first + count; i++) {
		size_t start = open_item(reply, 0.0, i);

		writer_int32(&reply->items, "code", code);
		writer_text(&reply->items, "errmsg", message);
		close_failed(reply, &bulk->ops[i], start);
	}
}

bool bulk_reply_applied(const struct bulk_reply *reply)
{
	return reply->inserted + reply->modified + reply->upserted + reply->deleted > 0;
}

/* ---- the whole ---- */

struct bytes bulk_reply_rest(const struct bulk_reply *reply, const struct bulk_write *bulk)
{
	struct bytes left = buffer_view(&reply->items), document;

	if (bulk->silent || bulk->batch_size < 0)
		return (struct bytes){0};
	for (int64_t i = 0; i < bulk->batch_size; i++)
		if (!message_next_document(&left, &document))
			break;
	return left;
}

void bulk_reply_write_rest(struct buffer *out, struct bytes rest)
{
	template_write_fields(out,
			      "{aggregate: 1, pipeline: [{$documents: {$literal: [..@items]}}], "
			      "cursor: {batchSize: 0}}",
			      fill_documents("items", rest));
}

static void append_cursor(const struct bulk_reply *reply, bool silent,
			  const struct bulk_cursor *held, struct buffer *out)
{
	struct bytes first = buffer_view(&reply->items);

	if (held)
		first.length -= held->rest.length;
	if (silent)
		first.length = 0;
	template_write(out, "cursor", "{id: @id, firstBatch: [..@items], ns: @ns}",
		       held ? fill("id", &held->id) : fill("id", (int64_t)0),
		       fill_documents("items", first),
		       held ? fill("ns", &held->ns) : fill("ns", "admin.$cmd.bulkWrite"));
}

static void append_counts(const struct bulk_reply *reply, struct buffer *out)
{
	writer_int32(out, "nErrors", (int32_t)reply->errors);
	writer_int32(out, "nInserted", (int32_t)reply->inserted);
	writer_int32(out, "nMatched", (int32_t)reply->matched);
	writer_int32(out, "nModified", (int32_t)reply->modified);
	writer_int32(out, "nUpserted", (int32_t)reply->upserted);
	writer_int32(out, "nDeleted", (int32_t)reply->deleted);
}

static void append_last(const struct bulk_reply *reply, struct buffer *out, bool head)
{
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, reply->last.message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (write_reply_is_head(&field) == head && !write_reply_is_ours(&field))
			writer_element(out, &field);
}

/* Each where the last reply has none. */
static void append_concern(const struct bulk_reply *reply, struct buffer *out)
{
	struct bytes last = reply->last.message.body;
	struct cursor cursor;
	struct element field, other;

	if (reply->concern.length == 0 || document_find(last, "writeConcernError", &other))
		return;
	require(cursor_open(&cursor, buffer_view(&reply->concern)));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "writeConcernError") ||
		    !document_find(last, "errorLabels", &other))
			writer_element(out, &field);
}

void bulk_reply_append(const struct bulk_reply *reply, const struct bulk_write *bulk,
		       const struct bulk_cursor *cursor, struct buffer *out, int32_t response_to)
{
	size_t start = message_begin(out, 0, response_to, 0), body;

	require(reply->some);
	message_begin_body(out);
	body = writer_open(out);
	append_cursor(reply, bulk->silent, cursor, out);
	append_counts(reply, out);
	append_last(reply, out, true);
	write_reply_append_retried(out, buffer_view(&reply->retried));
	append_concern(reply, out);
	append_last(reply, out, false);
	writer_close(out, body);
	message_end(out, start);
}

void bulk_reply_fini(struct bulk_reply *reply)
{
	buffer_fini(&reply->items);
	buffer_fini(&reply->retried);
	buffer_fini(&reply->concern);
	packet_fini(&reply->last);
}
