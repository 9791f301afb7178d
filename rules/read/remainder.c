/* Keeps documents that a reply has no room for in a cursor of the server's. */
#include "rules/read/remainder.h"

#include "protocol/template.h"

#define STATE_FIELD "_spill"
#define REST_FIELD "/rest"
#define THEN_FIELD "/then"

static void write_image(struct buffer *out, size_t place, struct bytes image, const int64_t *then)
{
	char name[12];
	size_t document = writer_open_document(out, writer_index(name, place));
	size_t state = writer_open_document(out, STATE_FIELD);

	writer_binary(out, REST_FIELD, image);
	if (then)
		writer_int64(out, THEN_FIELD, *then);
	writer_close(out, state);
	writer_close(out, document);
}

struct rest {
	const struct bytes *documents;
	size_t count;
	int64_t then;
};

static void write_images(struct buffer *out, size_t *place, const void *context)
{
	const struct rest *rest = context;

	for (size_t i = 0; i < rest->count; i++)
		write_image(out, (*place)++, rest->documents[i],
			    i + 1 == rest->count ? &rest->then : NULL);
}

void remainder_write(struct buffer *out, const char *collection, const struct bytes *documents,
		     size_t count, int64_t then)
{
	const struct rest rest = {documents, count, then};

	/* The first two stages make one document, even of an empty collection. */
	template_write_fields(
		out,
		"{aggregate: @collection, pipeline: ["
		"{$limit: 1}, {$facet: {one: [{$limit: 1}]}}, "
		"{$project: {_id: 0, rest: {$literal: [..@images]}}}, "
		"{$unwind: '$rest'}, {$replaceWith: '$rest'}], cursor: {batchSize: 0}}",
		fill("collection", collection), fill_spliced("images", write_images, &rest));
}

must_check bool remainder_read(struct bytes document, struct bytes *image, bool *last,
			       int64_t *then)
{
	struct element state, field;
	struct cursor cursor;
	int64_t id;

	/* It is the only field, so that other documents cost no more than a look. */
	if (!cursor_open(&cursor, document) || cursor_next(&cursor, &state) != CURSOR_ELEMENT ||
	    !element_is(&state, STATE_FIELD) || state.type != BSON_BYTE_DOCUMENT ||
	    !cursor_open(&cursor, state.value) || cursor_next(&cursor, &field) != CURSOR_ELEMENT ||
	    !element_is(&field, REST_FIELD) || field.type != BSON_BYTE_BINARY ||
	    field.value.length < 5)
		return false;
	*image = (struct bytes){field.value.data + 5, field.value.length - 5};
	*last = cursor_next(&cursor, &field) == CURSOR_ELEMENT && element_is(&field, THEN_FIELD) &&
		element_integer(&field, &id);
	if (*last)
		*then = id;
	return true;
}
