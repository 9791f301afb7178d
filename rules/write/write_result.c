/* Puts the replies of several write commands together into one. */
#include "rules/write/write_result.h"

#include "protocol/cursor.h"
#include "protocol/template.h"

#include <stdlib.h>

#define MADE_LEAST 256  /* bytes that a document of ours takes */
#define REPLY_LEAST 256 /* the same of a reply beside its entries */

static void append(struct write_result *result, struct write_entries *entries,
		   struct write_entry entry)
{
	entries->entries =
		must_realloc(entries->entries, (entries->count + 1) * sizeof(*entries->entries));
	entries->entries[entries->count++] = entry;
	result->bytes += entry.document.length;
}

static bool add_entry(struct write_result *result, struct write_entries *entries,
		      struct bytes document, size_t first)
{
	struct element element;
	int64_t index, code = 0;

	if (!document_find(document, "index", &element) || !element_integer(&element, &index) ||
	    index < 0)
		return false;
	if (entries == &result->errors && result->bytes > WRITE_RESULT_ERRORS_MOST) {
		if (!document_find(document, "code", &element) || !element_integer(&element, &code))
			code = 0;
		write_result_add_error(result, first + (size_t)index, (int32_t)code,
				       (struct bytes){0});
		return true;
	}
	append(result, entries, (struct write_entry){first + (size_t)index, document});
	result->views++;
	return true;
}

static bool add_entries(struct write_result *result, struct write_entries *entries,
			const struct element *array, size_t first)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step;

	if (array->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, array->value))
		return false;
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT)
		if (element.type != BSON_BYTE_DOCUMENT ||
		    !add_entry(result, entries, element.value, first))
			return false;
	return step == CURSOR_END;
}

static bool add_retried(struct write_result *result, const struct element *array)
{
	struct cursor cursor;
	struct element element;
	enum cursor_step step;
	int64_t id;

	if (array->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, array->value))
		return false;
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT) {
		if (!element_integer(&element, &id))
			return false;
		buffer_append(&result->retried, &(int32_t){(int32_t)id}, sizeof(int32_t));
	}
	return step == CURSOR_END;
}

static bool add_number(int64_t *sum, const struct element *element)
{
	int64_t number;

	if (!element_integer(element, &number))
		return false;
	*sum += number;
	return true;
}

static bool add_field(struct write_result *result, const struct element *field, size_t first)
{
	if (element_is(field, "n"))
		return add_number(&result->n, field);
	if (element_is(field, "nModified")) {
		result->says_modified = true;
		return add_number(&result->modified, field);
	}
	if (element_is(field, "upserted"))
		return add_entries(result, &result->upserted, field, first);
	if (element_is(field, "writeErrors"))
		return add_entries(result, &result->errors, field, first);
	if (element_is(field, "retriedStmtIds"))
		return add_retried(result, field);
	return true;
}

static void keep_reply(struct write_result *result, struct packet *reply, bool bare)
{
	if (result->reply_count > 0 && result->bare)
		packet_fini(&result->replies[--result->reply_count]);
	else
		result->replies = must_realloc(result->replies, (result->reply_count + 1) *
									sizeof(*result->replies));
	result->replies[result->reply_count++] = packet_steal(reply);
	result->bare = bare;
}

must_check bool write_result_add(struct write_result *result, struct packet *reply, size_t first)
{
	struct cursor cursor;
	struct element field;
	enum cursor_step step;
	size_t views = result->views;

	if (reply->kind != PACKET_MESSAGE || !cursor_open(&cursor, reply->message.body))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT)
		if (!add_field(result, &field, first))
			return false;
	if (step != CURSOR_END)
		return false;
	keep_reply(result, reply,
		   views == result->views &&
			   !document_find(reply->message.body, "writeConcernError", &field));
	return true;
}

void write_result_add_error(struct write_result *result, size_t index, int32_t code,
			    struct bytes message)
{
	struct buffer *document;

	if (result->bytes > WRITE_RESULT_ERRORS_MOST)
		message = bytes_of("left out: the errors before have 16 MB");
	result->made = must_realloc(result->made, (result->made_count + 1) * sizeof(*result->made));
	document = &result->made[result->made_count++];
	*document = (struct buffer){0};
	template_write_document(document, "{index: 0, code: @code, errmsg: @message}",
				fill("code", code), fill("message", message));
	append(result, &result->errors, (struct write_entry){index, buffer_view(document)});
}

void write_result_forget_error(struct write_result *result, size_t index)
{
	struct write_entries *errors = &result->errors;
	size_t kept = 0;

	for (size_t i = 0; i < errors->count; i++)
		if (errors->entries[i].index != index)
			errors->entries[kept++] = errors->entries[i];
	errors->count = kept;
}

static int by_index(const void *a, const void *b)
{
	const struct write_entry *first = a, *second = b;

	return first->index < second->index ? -1 : first->index > second->index;
}

static void append_entry(struct buffer *out, const char *name, const struct write_entry *entry)
{
	size_t start = writer_open_document(out, name);
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, entry->document));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "index"))
			writer_int32(out, "index", (int32_t)entry->index);
		else
			writer_element(out, &field);
	}
	writer_close(out, start);
}

static void append_entries(struct buffer *out, const char *name,
			   const struct write_entries *entries)
{
	char index[12];
	size_t start;

	if (entries->count == 0)
		return;
	qsort(entries->entries, entries->count, sizeof(*entries->entries), by_index);
	start = writer_open_array(out, name);
	for (size_t i = 0; i < entries->count; i++)
		append_entry(out, writer_index(index, i), &entries->entries[i]);
	writer_close(out, start);
}

void write_reply_append_retried(struct buffer *out, struct bytes statements)
{
	char index[12];
	size_t start;

	if (statements.length == 0)
		return;
	start = writer_open_array(out, "retriedStmtIds");
	for (size_t i = 0; i < statements.length / sizeof(int32_t); i++)
		writer_int32(out, writer_index(index, i),
			     load_int32(statements.data + i * sizeof(int32_t)));
	writer_close(out, start);
}

bool write_reply_is_head(const struct element *field)
{
	return element_is(field, "electionId") || element_is(field, "opTime");
}

bool write_reply_is_ours(const struct element *field)
{
	return element_is(field, "n") || element_is(field, "nModified") ||
	       element_is(field, "upserted") || element_is(field, "writeErrors") ||
	       element_is(field, "retriedStmtIds");
}

/* A write concern that wasn't met, where the last reply doesn't say so itself, and its labels. */
static void append_concern_error(const struct write_result *result, struct buffer *out)
{
	struct bytes last = result->replies[result->reply_count - 1].message.body;
	struct element error, labels, others;

	for (size_t i = result->reply_count; i-- > 0;) {
		struct bytes body = result->replies[i].message.body;

		if (!document_find(body, "writeConcernError", &error))
			continue;
		if (i + 1 == result->reply_count)
			return;
		writer_element(out, &error);
		if (document_find(body, "errorLabels", &labels) &&
		    !document_find(last, "errorLabels", &others))
			writer_element(out, &labels);
		return;
	}
}

/* mongod's order: n, electionId, opTime, writeErrors, retriedStmtIds, upserted, nModified, the
 * rest.
 */
static void append_body(const struct write_result *result, struct buffer *out)
{
	struct bytes last = result->replies[result->reply_count - 1].message.body;
	size_t start = writer_open(out);
	struct cursor cursor;
	struct element field;

	writer_int32(out, "n", (int32_t)result->n);
	require(cursor_open(&cursor, last));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (write_reply_is_head(&field))
			writer_element(out, &field);
	append_entries(out, "writeErrors", &result->errors);
	write_reply_append_retried(out, buffer_view(&result->retried));
	append_entries(out, "upserted", &result->upserted);
	if (result->says_modified)
		writer_int32(out, "nModified", (int32_t)result->modified);
	append_concern_error(result, out);
	require(cursor_open(&cursor, last));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!write_reply_is_head(&field) && !write_reply_is_ours(&field))
			writer_element(out, &field);
	writer_close(out, start);
}

void write_result_append(const struct write_result *result, struct buffer *out, int32_t response_to)
{
	size_t start = message_begin(out, 0, response_to, 0);

	require(result->reply_count > 0);
	message_begin_body(out);
	append_body(result, out);
	message_end(out, start);
}

void write_result_append_nothing(const struct write_result *result, struct buffer *out,
				 int32_t response_to)
{
	size_t frame = message_begin(out, 0, response_to, 0), start;
	struct cursor cursor;
	struct element field;

	require(result->reply_count > 0);
	message_begin_body(out);
	start = writer_open(out);
	writer_int32(out, "n", 0);
	if (result->says_modified)
		writer_int32(out, "nModified", 0);
	require(cursor_open(&cursor, result->replies[result->reply_count - 1].message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "ok") || element_is(&field, "$clusterTime") ||
		    element_is(&field, "operationTime"))
			writer_element(out, &field);
	writer_close(out, start);
	message_end(out, frame);
}

size_t write_result_memory(const struct write_result *result)
{
	return result->bytes + result->made_count * (sizeof(*result->made) + MADE_LEAST) +
	       result->reply_count * (sizeof(*result->replies) + REPLY_LEAST);
}

void write_result_fini(struct write_result *result)
{
	for (size_t i = 0; i < result->reply_count; i++)
		packet_fini(&result->replies[i]);
	for (size_t i = 0; i < result->made_count; i++)
		buffer_fini(&result->made[i]);
	free(result->made);
	free(result->replies);
	buffer_fini(&result->retried);
	free(result->upserted.entries);
	free(result->errors.entries);
	*result = (struct write_result){0};
}
