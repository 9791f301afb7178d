/* Any bytes as a BSON document: read within their bounds, the same from a prefix, and what is taken
 * as valid libbson reads in the same way. */
#include <bson/bson.h>

#include "tests/fuzz/fuzz.h"

#define OLD_BINARY 2 /* this subtype has a second length inside, which mongod does not look at */

static bool is_old_binary(const struct element *element)
{
	return element->type == BSON_BYTE_BINARY && element->value.data[4] == OLD_BINARY;
}

/* libbson reads the top level, up to the first binary of the old form. */
static void require_as_libbson(struct bytes document)
{
	struct cursor cursor;
	struct element element;
	bson_t bson;
	bson_iter_t iter;

	require(bson_init_static(&bson, document.data, document.length));
	require(cursor_open(&cursor, document));
	require(bson_iter_init(&iter, &bson));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (is_old_binary(&element))
			return;
		require(bson_iter_next(&iter));
		require(element_is(&element, bson_iter_key(&iter)));
		require(element.type == (uint8_t)bson_iter_type(&iter));
	}
	require(!bson_iter_next(&iter));
}

/* Of a prefix the same elements are read, up to where the bytes end. */
static void require_prefix_agrees(struct bytes document, size_t length)
{
	struct cursor whole, prefix;
	struct element element, same;
	enum cursor_step step;

	if (!cursor_open(&whole, document) ||
	    !cursor_open_prefix(&prefix, (struct bytes){document.data, length}, document.length))
		return;
	while ((step = cursor_next(&prefix, &same)) == CURSOR_ELEMENT) {
		require(cursor_next(&whole, &element) == CURSOR_ELEMENT);
		require(bytes_equal(element_raw(&element), element_raw(&same)));
		require(bytes_equal(element.value, same.value));
	}
	require(step != CURSOR_END || length == document.length);
	require(step != CURSOR_INVALID || cursor_next(&whole, &element) != CURSOR_ELEMENT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes document = {data, size};
	struct element element;
	bool valid = document_valid(document);

	require_elements_inside(document);
	if (document_find_path(document, "document.x", &element))
		require_inside(element_raw(&element), document);
	if (valid) {
		require(document_length(document) == size);
		require_as_libbson(document);
	}
	if (size > 0)
		require_prefix_agrees(document, data[size / 2] * size / 255);
	return 0;
}
