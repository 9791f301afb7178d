/* Fuzzes edits: statements of an update or a delete, or a findAndModify; then what mongod replies
 * to each command of the edit. */
#include "tests/fuzz/rewrite.h"

static void write_statements(struct buffer *frame, const char *list, struct input *input)
{
	size_t array = writer_open_array(frame, list);
	uint8_t count = (uint8_t)(1 + input_byte(input) % 3);
	char name[12];

	for (size_t i = 0; i < count; i++)
		writer_document(frame, writer_index(name, i), input_document(input));
	writer_close(frame, array);
}

/* The fields of a document, as if the command had them. */
static void write_fields(struct buffer *frame, struct bytes document)
{
	struct cursor cursor;
	struct element element;

	if (cursor_open(&cursor, document))
		while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
			writer_element(frame, &element);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const commands[] = {"update", "delete", "findAndModify"};
	struct input input = {{data, size}};
	size_t command = input_byte(&input) % ARRAY_LENGTH(commands);
	const char *collection = input_collection(&input);
	auto_buffer struct buffer frame = {0};
	size_t body = rewrite_begin(&frame, commands[command], collection);

	if (command == 0)
		write_statements(&frame, "updates", &input);
	else if (command == 1)
		write_statements(&frame, "deletes", &input);
	write_fields(&frame, input_document(&input));
	rewrite_request(&frame, body, &input);
	return 0;
}
