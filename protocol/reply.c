/* The bodies of replies that Spillway makes itself, and what a server's reply says at its top
 * level. */
#include "protocol/reply.h"

#include "protocol/message.h"
#include "protocol/writer.h"

const char *error_find_name(int64_t code)
{
	switch (code) {
#define ERROR_NAME(constant, number, name) \
	case constant: \
		return name;
		ERROR_CODES(ERROR_NAME)
#undef ERROR_NAME
	}
	return NULL;
}

const char *error_name(enum error_code code)
{
	const char *name = error_find_name(code);

	require(name);
	return name;
}

void reply_error_fields(struct buffer *out, enum error_code code, const char *message,
			const char *label)
{
	writer_double(out, "ok", 0.0);
	writer_string(out, "errmsg", message);
	writer_int32(out, "code", (int32_t)code);
	writer_string(out, "codeName", error_name(code));
	if (label) {
		size_t labels = writer_open_array(out, "errorLabels");

		writer_string(out, "0", label);
		writer_close(out, labels);
	}
}

void reply_error_body(struct buffer *out, enum error_code code, const char *message,
		      const char *label)
{
	size_t start = writer_open(out);

	reply_error_fields(out, code, message, label);
	writer_close(out, start);
}

void reply_old_error_body(struct buffer *out, enum error_code code, const char *message)
{
	size_t start = writer_open(out);

	writer_string(out, "$err", message);
	writer_int32(out, "code", (int32_t)code);
	writer_double(out, "ok", 0.0);
	writer_close(out, start);
}

void reply_error(struct buffer *out, int32_t response_to, enum error_code code, const char *message)
{
	size_t start = message_begin(out, 0, response_to, 0);

	message_begin_body(out);
	reply_error_body(out, code, message, NULL);
	message_end(out, start);
}

static void summarise_element(const struct element *element, struct reply_summary *summary)
{
	if (element_is(element, "ok")) {
		summary->ok = element_truth(element);
	} else if (element_is(element, "code")) {
		if (!element_integer(element, &summary->code))
			summary->code = 0;
	} else if (element_is(element, "errmsg")) {
		(void)!element_string(element, &summary->message);
	} else if (element_is(element, "n")) {
		if (!element_integer(element, &summary->n))
			summary->n = -1;
	} else if (element_is(element, "operationTime") && element->type == BSON_BYTE_TIMESTAMP) {
		summary->operation_time = element->value;
	} else if (element_is(element, "$clusterTime") && element->type == BSON_BYTE_DOCUMENT) {
		summary->cluster_time = element->value;
	} else if (element_is(element, "cursor") && element->type == BSON_BYTE_DOCUMENT) {
		summary->cursor = element->value;
	} else if (element_is(element, "writeErrors") && element->type == BSON_BYTE_ARRAY) {
		summary->write_errors = element->value;
	}
}

struct reply_summary reply_summarise(struct bytes body)
{
	struct reply_summary found = {.readable = true, .n = -1};
	struct cursor cursor;
	struct element element;
	enum cursor_step step;

	if (!cursor_open(&cursor, body))
		return (struct reply_summary){.n = -1};
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT)
		summarise_element(&element, &found);
	return step == CURSOR_END ? found : (struct reply_summary){.n = -1};
}

struct reply_cursor reply_read_cursor(struct bytes document)
{
	struct reply_cursor found = {0};
	struct cursor cursor;
	struct element field;
	enum cursor_step step;
	bool again = false;

	if (!cursor_open(&cursor, document))
		return found;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT) {
		if (element_is(&field, "id"))
			found.id = field;
		else if (element_is(&field, "atClusterTime"))
			found.time = field;
		else if (element_is(&field, "firstBatch") || element_is(&field, "nextBatch")) {
			bool sound = !again && field.type == BSON_BYTE_ARRAY;

			found.batch = sound ? field.value : (struct bytes){0};
			again = true;
		}
	}
	return step == CURSOR_END ? found : (struct reply_cursor){0};
}
