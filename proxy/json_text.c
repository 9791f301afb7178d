/* Reports for programs: BSON as JSON. */
#include "proxy/json_text.h"

#include <bson/bson.h>

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
