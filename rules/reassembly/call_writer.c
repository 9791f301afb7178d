/* Writes aggregation expressions. */
#include "rules/reassembly/call_writer.h"

#include <stdio.h>
#include <stdlib.h>

void text_free(struct text *text)
{
	free(text->bytes);
}

struct text text_join(const char *first, const char *second, const char *third)
{
	size_t length = strlen(first) + strlen(second) + strlen(third) + 1;
	struct text text = {must_malloc(length)};

	snprintf(text.bytes, length, "%s%s%s", first, second, third);
	return text;
}

struct call call_open(struct buffer *out, const char *name, const char *verb)
{
	struct call call = {.out = out};

	call.document = writer_open_document(out, name);
	call.list = writer_open_array(out, verb);
	return call;
}

void call_close(struct call *call)
{
	writer_close(call->out, call->list);
	writer_close(call->out, call->document);
}

void call_text(struct call *call, const char *text)
{
	char name[12];

	writer_string(call->out, writer_index(name, call->place++), text);
}

void call_number(struct call *call, int32_t number)
{
	char name[12];

	writer_int32(call->out, writer_index(name, call->place++), number);
}

void call_null(struct call *call)
{
	char name[12];

	writer_renamed(call->out, writer_index(name, call->place++),
		       &(struct element){.type = BSON_BYTE_NULL});
}

void call_nothing(struct call *call)
{
	char name[12];
	size_t array = writer_open_array(call->out, writer_index(name, call->place++));

	writer_close(call->out, array);
}

struct call call_call(struct call *call, const char *verb)
{
	char name[12];

	return call_open(call->out, writer_index(name, call->place++), verb);
}

/* {verb: text} */
void call_unary(struct call *call, const char *verb, const char *text)
{
	char name[12];
	size_t document = writer_open_document(call->out, writer_index(name, call->place++));

	writer_string(call->out, verb, text);
	writer_close(call->out, document);
}

void call_type_is(struct call *call, const char *path, const char *type)
{
	struct call test = call_call(call, "$eq");

	call_unary(&test, "$type", path);
	call_text(&test, type);
	call_close(&test);
}
