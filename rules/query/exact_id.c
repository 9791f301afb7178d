/* Names an `_id` by equality, for its form and what is no text, and by a regular expression for
 * each text in it. */
#include "rules/query/exact_id.h"

#include "protocol/repeats.h"
#include "protocol/writer.h"

#include <stdlib.h>

#define TEXT_MAX 8000 /* each byte may become two of a pattern, which takes 32764 */
#define DOCUMENT_MAX 16000
#define REPEATS_MAX 1000 /* bytes of a document in which a name stands twice */

static bool is_text(const struct element *value)
{
	return value->type == BSON_BYTE_STRING || value->type == BSON_BYTE_SYMBOL;
}

static bool fits_expression(const struct element *text)
{
	return text->type == BSON_BYTE_STRING && text->value.length < TEXT_MAX &&
	       !memchr(text->value.data + 4, '\0', text->value.length - 5);
}

/* ^ and $ would mean lines; \E ends \Q, so each byte is escaped by itself. */
static void write_pattern(struct buffer *out, const struct element *text)
{
	auto_buffer struct buffer pattern = {0};

	buffer_append(&pattern, "\\A", 2);
	for (size_t i = 0; i < text->value.length - 5; i++) {
		uint8_t letter = text->value.data[4 + i];
		bool plain = letter >= 0x80 || (letter >= '0' && letter <= '9') ||
			     (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');

		if (!plain)
			buffer_append(&pattern, "\\", 1);
		buffer_append(&pattern, &letter, 1);
	}
	buffer_append(&pattern, "\\z", 2);
	writer_text(out, "$regex", buffer_view(&pattern));
}

/* ---- the texts of a document ---- */

/* Levels that are open, and the path to where the innermost one stands. */
struct walk {
	struct {
		struct cursor cursor;
		struct bytes document;
		size_t path; /* the length of its own */
		bool listed; /* it stands in an array */
	} levels[CURSOR_MAX_DEPTH];
	size_t depth;
	bool repeats;       /* some name stands twice in a document */
	struct buffer path; /* names with dots between and behind them */
};

static bool open_level(struct walk *walk, struct bytes document, bool listed)
{
	if (walk->depth == CURSOR_MAX_DEPTH)
		return false;
	walk->levels[walk->depth].listed = listed;
	walk->levels[walk->depth].document = document;
	walk->levels[walk->depth].path = walk->path.length;
	return cursor_open(&walk->levels[walk->depth++].cursor, document);
}

static void add_name(struct walk *walk, struct bytes name)
{
	buffer_append(&walk->path, name.data, name.length);
	buffer_append(&walk->path, ".", 1);
}

/* A path leads to this field and to no other: also not to another of its name. */
static bool is_named(const struct walk *walk, const struct element *field)
{
	struct bytes document = walk->levels[walk->depth - 1].document;
	struct cursor cursor;
	struct element other;

	if (field->name.length == 0 || field->name.data[0] == '$' ||
	    memchr(field->name.data, '.', field->name.length) || !cursor_open(&cursor, document))
		return false;
	while (walk->repeats && cursor_next(&cursor, &other) == CURSOR_ELEMENT)
		if (other.name.data != field->name.data && bytes_equal(other.name, field->name))
			return false;
	return true;
}

enum walk_step { WALK_TEXT, WALK_GOES, WALK_STUCK, WALK_END };

/* Paths lead through an array to all of its elements: none of its texts can be named. */
static enum walk_step take_field(struct walk *walk, const struct element *field)
{
	bool listed = walk->levels[walk->depth - 1].listed;

	switch (field->type) {
	case BSON_BYTE_STRING:
	case BSON_BYTE_SYMBOL:
		return !listed && is_named(walk, field) && fits_expression(field) ? WALK_TEXT
										  : WALK_STUCK;
	case BSON_BYTE_DOCUMENT:
	case BSON_BYTE_ARRAY:
		if (!listed && field->type == BSON_BYTE_DOCUMENT && !is_named(walk, field))
			return WALK_STUCK;
		add_name(walk, field->name);
		listed = listed || field->type == BSON_BYTE_ARRAY;
		return open_level(walk, field->value, listed) ? WALK_GOES : WALK_STUCK;
	case BSON_BYTE_CODE_WITH_SCOPE:
		return WALK_STUCK;
	default:
		return WALK_GOES;
	}
}

/* The next text of the document. */
static enum walk_step next_text(struct walk *walk, struct element *text)
{
	enum walk_step step = WALK_GOES;

	while (walk->depth > 0 && step == WALK_GOES) {
		walk->path.length = walk->levels[walk->depth - 1].path;
		switch (cursor_next(&walk->levels[walk->depth - 1].cursor, text)) {
		case CURSOR_END:
			walk->depth--;
			break;
		case CURSOR_ELEMENT:
			step = take_field(walk, text);
			break;
		case CURSOR_PARTIAL:
		case CURSOR_INVALID:
			step = WALK_STUCK;
		}
	}
	return step == WALK_GOES ? WALK_END : step;
}

/* {"_id.path": {$regex}}; `walk->path` has a dot behind. */
static void write_text(struct buffer *out, struct walk *walk, const struct element *text)
{
	size_t value;

	buffer_append(&walk->path, text->name.data, text->name.length + 1);
	value = writer_open_document(out, (const char *)walk->path.data);
	write_pattern(out, text);
	writer_close(out, value);
}

/* Without `out` it is only looked whether it can be done. */
static bool name_texts(const struct element *id, struct buffer *out)
{
	struct walk *walk = must_calloc(1, sizeof(*walk));
	enum walk_step step = WALK_STUCK;
	struct element text;

	add_name(walk, bytes_of("_id"));
	walk->repeats = document_repeats_name(id->value, false);
	if (id->value.length <= (walk->repeats ? REPEATS_MAX : DOCUMENT_MAX) &&
	    open_level(walk, id->value, false))
		while ((step = next_text(walk, &text)) == WALK_TEXT)
			if (out)
				write_text(out, walk, &text);
	buffer_fini(&walk->path);
	free(walk);
	return step == WALK_END;
}

must_check bool exact_id_possible(const struct element *id)
{
	if (is_text(id))
		return fits_expression(id);
	return id->type != BSON_BYTE_DOCUMENT || name_texts(id, NULL);
}

void exact_id_write(struct buffer *out, const struct element *id)
{
	size_t value = writer_open_document(out, "_id");

	writer_renamed(out, "$eq", id);
	if (is_text(id))
		write_pattern(out, id);
	writer_close(out, value);
	if (id->type == BSON_BYTE_DOCUMENT)
		require(name_texts(id, out));
}
