/* Keeps documents that a reply has no room for in a cursor of the server's. */
#include "rules/read/remainder.h"

#include "protocol/writer.h"

#define STATE_FIELD "_spill"
#define REST_FIELD "/rest"
#define THEN_FIELD "/then"

static size_t open_stage(struct buffer *out, size_t place)
{
	char name[12];

	return writer_open_document(out, writer_index(name, place));
}

/* One document, whatever the collection holds: none, too. */
static void write_one(struct buffer *out)
{
	size_t stage = open_stage(out, 0), facet, empty, limit;

	writer_int32(out, "$limit", 1);
	writer_close(out, stage);
	stage = open_stage(out, 1);
	facet = writer_open_document(out, "$facet");
	empty = writer_open_array(out, "one");
	limit = writer_open_document(out, "0");
	writer_int32(out, "$limit", 1);
	writer_close(out, limit);
	writer_close(out, empty);
	writer_close(out, facet);
	writer_close(out, stage);
}

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

static void write_images(struct buffer *out, const struct bytes *documents, size_t count,
			 int64_t then)
{
	size_t stage = open_stage(out, 2), project = writer_open_document(out, "$project");
	size_t field, literal;

	writer_int32(out, "_id", 0);
	field = writer_open_document(out, "rest");
	literal = writer_open_array(out, "$literal");
	for (size_t i = 0; i < count; i++)
		write_image(out, i, documents[i], i + 1 == count ? &then : NULL);
	writer_close(out, literal);
	writer_close(out, field);
	writer_close(out, project);
	writer_close(out, stage);
}

void remainder_write(struct buffer *out, const char *collection, const struct bytes *documents,
		     size_t count, int64_t then)
{
	size_t pipeline, stage, cursor;

	writer_string(out, "aggregate", collection);
	pipeline = writer_open_array(out, "pipeline");
	write_one(out);
	write_images(out, documents, count, then);
	stage = open_stage(out, 3);
	writer_string(out, "$unwind", "$rest");
	writer_close(out, stage);
	stage = open_stage(out, 4);
	writer_string(out, "$replaceWith", "$rest");
	writer_close(out, stage);
	writer_close(out, pipeline);
	cursor = writer_open_document(out, "cursor");
	writer_int32(out, "batchSize", 0);
	writer_close(out, cursor);
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
