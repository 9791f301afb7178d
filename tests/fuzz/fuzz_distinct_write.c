/* Fuzzes distincts: the key, the query; then the replies. */
#include "tests/fuzz/rewrite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {{data, size}};
	const char *collection = input_collection(&input);
	bool queries = input_byte(&input) & 1;
	auto_buffer struct buffer frame = {0};
	size_t body = rewrite_begin(&frame, "distinct", collection);

	writer_text(&frame, "key", input_text(&input));
	if (queries)
		writer_document(&frame, "query", input_document(&input));
	rewrite_request(&frame, body, &input);
	return 0;
}
