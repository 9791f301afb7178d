/* Fuzzes reads that are written as aggregates: a find's filter, projection and sort, a count's
 * query, an aggregate's pipeline; then the replies. */
#include "tests/fuzz/rewrite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const commands[] = {"find", "count", "aggregate"};
	struct input input = {{data, size}};
	size_t command = input_byte(&input) % ARRAY_LENGTH(commands), body;
	const char *collection = input_collection(&input);
	auto_buffer struct buffer frame = {0};

	body = rewrite_begin(&frame, commands[command], collection);
	if (command == 0) {
		writer_document(&frame, "filter", input_document(&input));
		writer_document(&frame, "projection", input_document(&input));
		writer_document(&frame, "sort", input_document(&input));
	} else if (command == 1) {
		writer_document(&frame, "query", input_document(&input));
	} else {
		writer_array(&frame, "pipeline", input_document(&input));
		writer_document(&frame, "cursor", input_document(&input));
	}
	rewrite_request(&frame, body, &input);
	return 0;
}
