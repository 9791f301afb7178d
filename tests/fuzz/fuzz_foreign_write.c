/* Fuzzes pipelines that reach ruled namespaces from elsewhere: one stage of the input's fields, the
 * pipeline inside it, and a pipeline behind it; then the replies. */
#include "tests/fuzz/rewrite.h"

static void write_stage(struct buffer *frame, const char *place, const char *verb,
			const char *collection, struct input *input)
{
	struct bytes options = input_document(input), inner = input_document(input);
	size_t stage = writer_open_document(frame, place), value;
	struct cursor cursor;
	struct element element;

	value = writer_open_document(frame, verb);
	writer_string(frame, strcmp(verb, "$unionWith") == 0 ? "coll" : "from", collection);
	if (cursor_open(&cursor, options))
		while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
			writer_element(frame, &element);
	if (strcmp(verb, "$graphLookup") != 0)
		writer_array(frame, "pipeline", inner);
	writer_close(frame, value);
	writer_close(frame, stage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const verbs[] = {"$lookup", "$unionWith", "$graphLookup"};
	struct input input = {{data, size}};
	const char *verb = verbs[input_byte(&input) % ARRAY_LENGTH(verbs)];
	const char *source = input_collection(&input), *collection = input_collection(&input);
	auto_buffer struct buffer frame = {0};
	size_t body = rewrite_begin(&frame, "aggregate", source), pipeline;
	struct cursor cursor;
	struct element element;
	char name[12];

	pipeline = writer_open_array(&frame, "pipeline");
	write_stage(&frame, "0", verb, collection, &input);
	if (cursor_open(&cursor, input_document(&input)))
		for (size_t i = 1; cursor_next(&cursor, &element) == CURSOR_ELEMENT; i++)
			writer_renamed(&frame, writer_index(name, i), &element);
	writer_close(&frame, pipeline);
	writer_document(&frame, "cursor", (struct bytes){(const uint8_t *)"\5\0\0\0\0", 5});
	rewrite_request(&frame, body, &input);
	return 0;
}
