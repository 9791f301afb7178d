/* Fuzzes finds of windows: many slices, by two numbers or one, beside the input's projection and
 * filter; then the replies. */
#include "tests/fuzz/rewrite.h"

static void write_slice(struct buffer *frame, const char *path, struct input *input)
{
	uint8_t form = input_byte(input);
	int32_t first = (int8_t)input_byte(input), second = (int8_t)input_byte(input);
	size_t field, list;

	if (form % 4 == 0)
		return;
	field = writer_open_document(frame, path);
	if (form % 4 == 1) {
		writer_int32(frame, "$slice", first);
	} else if (form % 4 == 2) {
		list = writer_open_array(frame, "$slice");
		writer_int32(frame, "0", first);
		writer_int32(frame, "1", second);
		writer_close(frame, list);
	} else {
		writer_double(frame, "$slice", first / 4.0);
	}
	writer_close(frame, field);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {{data, size}};
	const char *collection = input_collection(&input);
	auto_buffer struct buffer frame = {0};
	size_t body = rewrite_begin(&frame, "find", collection), projection;
	struct cursor cursor;
	struct element element;

	projection = writer_open_document(&frame, "projection");
	write_slice(&frame, "f", &input);
	write_slice(&frame, "a.g", &input);
	write_slice(&frame, "other", &input);
	if (cursor_open(&cursor, input_document(&input)))
		while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
			writer_element(&frame, &element);
	writer_close(&frame, projection);
	writer_document(&frame, "filter", input_document(&input));
	rewrite_request(&frame, body, &input);
	return 0;
}
