/* Reports for programs: BSON as JSON. */
#include "proxy/base/json_text.h"

#include "rules/rule/text.h"

#include <bson/bson.h>
#include <stdio.h>

char *json_text(struct bytes document)
{
	bson_t view;
	char *text;

	require(bson_init_static(&view, document.data, document.length));
	text = bson_as_relaxed_extended_json(&view, NULL);
	if (text)
		return text;
	return bson_strdup("{ \"unreadable\" : true }"); /* it holds what is no UTF-8 */
}

char *json_value_text(const char *name, const struct element *value)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_renamed(&out, name, value);
	writer_close(&out, start);
	return json_text(buffer_view(&out));
}

void json_write_value(struct buffer *out, const char *name, const struct element *value)
{
	auto_buffer struct buffer alone = {0};
	size_t start = writer_open(&alone);
	bson_t view;
	char *text;

	writer_renamed(&alone, name, value);
	writer_close(&alone, start);
	require(bson_init_static(&view, alone.data, alone.length));
	text = bson_as_relaxed_extended_json(&view, NULL);
	if (text)
		writer_renamed(out, name, value);
	else
		writer_string(out, name, "(unreadable)");
	bson_free(text);
}

void json_write_text(struct buffer *out, const char *name, const char *text)
{
	size_t length = strlen(text);
	auto_free char *plain = must_strndup(text, length);

	for (size_t i = 0; i < length && !bson_utf8_validate(text, length, false); i++)
		if (plain[i] & 0x80)
			plain[i] = '?';
	writer_string(out, name, plain);
}

void json_append(struct buffer *out, struct bytes document)
{
	char *text = json_text(document);

	text_append(out, "%s\n", text);
	bson_free(text);
}

void json_print(struct bytes document)
{
	char *text = json_text(document);

	puts(text);
	bson_free(text);
}

void json_print_failure(const char *command, const char *ended, const char *error)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_string(&out, "command", command);
	writer_string(&out, "ended", ended);
	json_write_text(&out, "error", error);
	writer_close(&out, start);
	json_print(buffer_view(&out));
}
