/* Finds and rewrites bit tests with a binary mask. */
#include "rules/query/bit_masks.h"

#include "protocol/writer.h"
#include "rules/rule/walk.h"

#define POSITIONS_MAX 65536 /* in one filter: about 800 KB of BSON */
#define WIDENED_BYTES 7     /* an eighth byte has no higher bits to set */
#define SUBTYPE_SIZE 5      /* of a binary value: its length and subtype stand before its bytes */

/* ---- masks ---- */

static bool is_test(const struct element *element)
{
	static const char *const tests[] = {"$bitsAllSet", "$bitsAllClear", "$bitsAnySet",
					    "$bitsAnyClear"};

	for (size_t i = 0; i < ARRAY_LENGTH(tests); i++)
		if (element_is(element, tests[i]))
			return true;
	return false;
}

static struct bytes mask_of(const struct element *test)
{
	return (struct bytes){test->value.data + SUBTYPE_SIZE, test->value.length - SUBTYPE_SIZE};
}

static bool is_widened(const struct element *element)
{
	struct bytes mask;

	if (element->type != BSON_BYTE_BINARY || !is_test(element))
		return false;
	mask = mask_of(element);
	for (size_t i = 0; i < mask.length && i < WIDENED_BYTES; i++)
		if (mask.data[i] >= 0x80)
			return true;
	return false;
}

static size_t count_positions(const struct element *test)
{
	struct bytes mask = mask_of(test);
	size_t count = 0;

	for (size_t i = 0; i < mask.length; i++)
		count += (size_t)__builtin_popcount(mask.data[i]);
	return count;
}

static void write_positions(struct buffer *out, const char *name, const struct element *test)
{
	struct bytes mask = mask_of(test);
	size_t list = writer_open_array(out, name), count = 0;
	char index[12];

	for (size_t i = 0; i < mask.length; i++)
		for (size_t bit = 0; bit < 8; bit++)
			if (mask.data[i] >> bit & 1)
				writer_int32(out, writer_index(index, count++),
					     (int32_t)(8 * i + bit));
	writer_close(out, list);
}

/* ---- the filter ---- */

enum level_kind {
	LEVEL_CONDITIONS, /* {<path>: ..., $or: [...]}, or the operators on one path */
	LEVEL_CHOICES,    /* $and's, $or's and $nor's list of them */
	LEVEL_ALL,        /* $all's list: of values, or of {$elemMatch: ...} */
};

/* A document or array that is read, and written where there is an `out`. */
struct level {
	enum level_kind kind;
	struct cursor cursor;
	size_t opened;
};

struct masks {
	struct buffer *out; /* NULL: they are only counted */
	struct level levels[CURSOR_MAX_DEPTH];
	size_t depth;
	size_t found, positions;
	bool unserved;
};

static void enter(struct masks *masks, enum level_kind kind, const struct element *element,
		  const char *name)
{
	struct level *level;

	if (masks->depth == CURSOR_MAX_DEPTH) {
		masks->unserved = true;
		return;
	}
	level = &masks->levels[masks->depth];
	level->kind = kind;
	if (!cursor_open(&level->cursor, element->value)) {
		masks->unserved = true;
		return;
	}
	if (masks->out)
		level->opened = element->type == BSON_BYTE_ARRAY
					? writer_open_array(masks->out, name)
					: writer_open_document(masks->out, name);
	masks->depth++;
}

static bool first_of(struct bytes document, struct element *first)
{
	struct cursor cursor;

	return cursor_open(&cursor, document) && cursor_next(&cursor, first) == CURSOR_ELEMENT;
}

/* A document that mongod takes for operators, and not for a value: its first name begins with a
 * dollar sign, and it is no DBRef. */
static bool holds_operators(const struct element *value)
{
	struct element first, part;

	return value->type == BSON_BYTE_DOCUMENT && first_of(value->value, &first) &&
	       first.name.length > 0 && first.name.data[0] == '$' &&
	       !document_find(value->value, "$ref", &part) &&
	       !document_find(value->value, "$id", &part) &&
	       !document_find(value->value, "$db", &part);
}

/* mongod's own operators nest filters in ways of their own. */
static bool holds_mask(const struct element *element)
{
	struct walk walk;
	struct element inner;
	enum cursor_step step;

	if (element->type != BSON_BYTE_DOCUMENT && element->type != BSON_BYTE_ARRAY)
		return false;
	step = walk_first(&walk, element->type, element->value, &inner);
	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &inner))
		if (is_widened(&inner) || !walk_within(&walk, &inner))
			return true;
	return step != CURSOR_END;
}

/* Which kind of level the element opens. False: it is copied. */
static bool opens_level(const struct level *in, const struct element *element,
			enum level_kind *kind)
{
	struct element first;
	bool list = element->type == BSON_BYTE_ARRAY;

	*kind = LEVEL_CONDITIONS;
	if (in->kind == LEVEL_CHOICES)
		return element->type == BSON_BYTE_DOCUMENT;
	if (in->kind == LEVEL_ALL)
		return element->type == BSON_BYTE_DOCUMENT && first_of(element->value, &first) &&
		       element_is(&first, "$elemMatch");
	if (list) {
		*kind = element_is(element, "$all") ? LEVEL_ALL : LEVEL_CHOICES;
		return element_is(element, "$all") || element_is(element, "$and") ||
		       element_is(element, "$or") || element_is(element, "$nor");
	}
	if (element->name.length > 0 && element->name.data[0] == '$')
		return element->type == BSON_BYTE_DOCUMENT &&
		       (element_is(element, "$not") || element_is(element, "$elemMatch"));
	return holds_operators(element);
}

static void take(struct masks *masks, const struct level *in, const struct element *element)
{
	auto_free char *name = must_strndup((const char *)element->name.data, element->name.length);
	enum level_kind kind;

	if (in->kind == LEVEL_CONDITIONS && is_widened(element)) {
		masks->found++;
		masks->positions += count_positions(element);
		if (masks->out)
			write_positions(masks->out, name, element);
		return;
	}
	if (opens_level(in, element, &kind)) {
		enter(masks, kind, element, name);
		return;
	}
	if (bytes_begin_with(element->name, "$_internal") && holds_mask(element))
		masks->unserved = true;
	if (masks->out)
		writer_element(masks->out, element);
}

static void go_through(struct masks *masks, const char *name, struct bytes filter)
{
	struct element element = {.type = BSON_BYTE_DOCUMENT, .value = filter};

	enter(masks, LEVEL_CONDITIONS, &element, name);
	while (masks->depth > 0 && !masks->unserved) {
		struct level *level = &masks->levels[masks->depth - 1];
		enum cursor_step step = cursor_next(&level->cursor, &element);

		if (step == CURSOR_ELEMENT) {
			take(masks, level, &element);
			continue;
		}
		masks->unserved = step != CURSOR_END;
		if (masks->out)
			writer_close(masks->out, level->opened);
		masks->depth--;
	}
}

/* Most filters have none. */
static bool may_hold_tests(struct bytes filter)
{
	static const char word[] = "$bits";

	return memmem(filter.data, filter.length, word, sizeof(word) - 1) != NULL;
}

enum bit_masks bit_masks_of(struct bytes filter)
{
	struct masks masks;

	if (!may_hold_tests(filter))
		return BIT_MASKS_PLAIN;
	masks.out = NULL;
	masks.depth = masks.found = masks.positions = 0;
	masks.unserved = false;
	go_through(&masks, "", filter);
	if (masks.unserved || masks.positions > POSITIONS_MAX)
		return BIT_MASKS_UNSERVED;
	return masks.found > 0 ? BIT_MASKS_WIDENED : BIT_MASKS_PLAIN;
}

void bit_masks_write(struct buffer *out, const char *name, struct bytes filter)
{
	struct masks masks;

	if (bit_masks_of(filter) != BIT_MASKS_WIDENED) {
		writer_document(out, name, filter);
		return;
	}
	masks.out = out;
	masks.depth = masks.found = masks.positions = 0;
	masks.unserved = false;
	go_through(&masks, name, filter);
}

/* Of all binary masks in the document or array, or of the widened ones. False: it can't be gone
 * through. */
static bool sum_positions(uint8_t type, struct bytes document, bool widened, size_t *positions)
{
	struct walk walk;
	struct element element;
	enum cursor_step step = walk_first(&walk, type, document, &element);

	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		if (element.type == BSON_BYTE_BINARY && is_test(&element) &&
		    (!widened || is_widened(&element)))
			*positions += count_positions(&element);
		if (!walk_within(&walk, &element))
			return false;
	}
	return step == CURSOR_END;
}

bool bit_masks_exceed(struct bytes pipeline)
{
	size_t positions = 0;

	return may_hold_tests(pipeline) &&
	       (!sum_positions(BSON_BYTE_ARRAY, pipeline, true, &positions) ||
		positions > POSITIONS_MAX);
}

bool bit_masks_explainable(struct bytes command)
{
	size_t positions = 0;

	return !may_hold_tests(command) ||
	       (sum_positions(BSON_BYTE_DOCUMENT, command, false, &positions) &&
		positions <= POSITIONS_MAX);
}
