/* Finds and rewrites bit tests with a binary mask, and $all of an element. */
#include "rules/query/filter_words.h"

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
	LEVEL_ELEMENT,    /* the operators on an element: $elemMatch's, and those of $not in it */
	LEVEL_CHOICES,    /* $and's, $or's and $nor's list of conditions */
	LEVEL_ALL,        /* $all's list: of values, or of {$elemMatch: ...} */
	LEVEL_SPREAD,     /* the list of an element's $all, written as operators on the element */
};

/* A document or array that is read, and written where there is an `out`. */
struct level {
	enum level_kind kind;
	struct cursor cursor;
	size_t opened;
};

struct words {
	struct buffer *out; /* NULL: they are only counted */
	struct level levels[CURSOR_MAX_DEPTH];
	size_t depth;
	size_t found, positions;
	bool spread, unserved;
};

static void enter(struct words *words, enum level_kind kind, const struct element *element,
		  const char *name)
{
	struct level *level;

	if (words->depth == CURSOR_MAX_DEPTH) {
		words->unserved = true;
		return;
	}
	level = &words->levels[words->depth];
	level->kind = kind;
	if (!cursor_open(&level->cursor, element->value)) {
		words->unserved = true;
		return;
	}
	if (words->out && kind != LEVEL_SPREAD)
		level->opened = element->type == BSON_BYTE_ARRAY
					? writer_open_array(words->out, name)
					: writer_open_document(words->out, name);
	words->depth++;
}

/* ---- $all of an element ---- */

/* A document that mongod takes for operators, and not for a value: its first name begins with a
 * dollar sign, and it is no DBRef. */
static bool holds_operators(const struct element *value)
{
	struct element part;

	return value->type == BSON_BYTE_DOCUMENT && document_begins_with_operator(value->value) &&
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

/* {$elemMatch: ...}; mongod looks at nothing behind it. */
static bool is_element_match(const struct element *item, struct element *match)
{
	return item->type == BSON_BYTE_DOCUMENT && document_first(item->value, match) &&
	       element_is(match, "$elemMatch");
}

/* mongod refuses an operator among an $all's values: what may be one is left to it. */
static bool may_be_operator(const struct element *item)
{
	struct element first;

	return item->type == BSON_BYTE_DOCUMENT && document_first(item->value, &first) &&
	       element_names_operator(&first);
}

/* An $all of values, or of {$elemMatch: ...} alone. */
static bool is_spread(const struct element *element)
{
	struct cursor cursor;
	struct element item, match;
	enum cursor_step step;
	size_t matches = 0, values = 0;

	if (!element_is(element, "$all") || element->type != BSON_BYTE_ARRAY ||
	    !cursor_open(&cursor, element->value))
		return false;
	while ((step = cursor_next(&cursor, &item)) == CURSOR_ELEMENT) {
		if (is_element_match(&item, &match))
			matches++;
		else if (may_be_operator(&item))
			return false;
		else
			values++;
	}
	return step == CURSOR_END && (matches == 0 || values == 0);
}

/* A value of the list: {$eq: value}, or {$in: [regex]}, as mongod reads only one $regex. */
static void write_spread(struct buffer *out, const struct element *value)
{
	size_t list;

	if (value->type != BSON_BYTE_REGEX) {
		writer_renamed(out, "$eq", value);
		return;
	}
	list = writer_open_array(out, "$in");
	writer_renamed(out, "0", value);
	writer_close(out, list);
}

/* ---- all of it ---- */

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
		return is_element_match(element, &first);
	if (in->kind == LEVEL_ELEMENT && is_spread(element)) {
		*kind = LEVEL_SPREAD;
		return true;
	}
	if (list) {
		*kind = element_is(element, "$all") ? LEVEL_ALL : LEVEL_CHOICES;
		return element_is(element, "$all") || element_is(element, "$and") ||
		       element_is(element, "$or") || element_is(element, "$nor");
	}
	if (element_is(element, "$elemMatch") && holds_operators(element))
		*kind = LEVEL_ELEMENT;
	if (element_is(element, "$not"))
		*kind = in->kind;
	if (element->name.length > 0 && element->name.data[0] == '$')
		return element->type == BSON_BYTE_DOCUMENT &&
		       (element_is(element, "$not") || element_is(element, "$elemMatch"));
	return holds_operators(element);
}

static void copy(struct words *words, const struct element *element)
{
	if (bytes_begin_with(element->name, "$_internal") && holds_mask(element))
		words->unserved = true;
	if (words->out)
		writer_element(words->out, element);
}

static void take_mask(struct words *words, const struct element *test, const char *name)
{
	words->found++;
	words->positions += count_positions(test);
	if (words->out)
		write_positions(words->out, name, test);
}

static void take(struct words *words, const struct level *in, const struct element *element)
{
	auto_free char *name = must_strndup((const char *)element->name.data, element->name.length);
	bool operates = in->kind == LEVEL_CONDITIONS || in->kind == LEVEL_ELEMENT;
	enum level_kind kind;

	if (operates && is_widened(element)) {
		take_mask(words, element, name);
		return;
	}
	if (!opens_level(in, element, &kind)) {
		copy(words, element);
		return;
	}
	words->spread = words->spread || kind == LEVEL_SPREAD;
	if (kind == LEVEL_SPREAD && element->value.length == 5 && words->out)
		writer_renamed(words->out, "$in", element); /* finds nothing, too */
	enter(words, kind, element, name);
}

/* One of the list of an element's $all. */
static void take_spread(struct words *words, const struct element *item)
{
	static const struct level of_element = {.kind = LEVEL_ELEMENT};
	struct element match;

	if (is_element_match(item, &match))
		take(words, &of_element, &match);
	else if (words->out)
		write_spread(words->out, item);
}

static void go_through(struct words *words, struct buffer *out, const char *name,
		       struct bytes filter)
{
	struct element element = {.type = BSON_BYTE_DOCUMENT, .value = filter};

	words->out = out;
	words->depth = words->found = words->positions = 0;
	words->spread = words->unserved = false;
	enter(words, LEVEL_CONDITIONS, &element, name);
	while (words->depth > 0 && !words->unserved) {
		struct level *level = &words->levels[words->depth - 1];
		enum cursor_step step = cursor_next(&level->cursor, &element);

		if (step == CURSOR_ELEMENT) {
			if (level->kind == LEVEL_SPREAD)
				take_spread(words, &element);
			else
				take(words, level, &element);
			continue;
		}
		words->unserved = step != CURSOR_END;
		if (words->out && level->kind != LEVEL_SPREAD)
			writer_close(words->out, level->opened);
		words->depth--;
	}
}

/* Most filters have neither a bit test nor an $all inside an $elemMatch. */
static bool may_differ(struct bytes filter)
{
	const uint8_t *at = filter.data, *end = filter.data + filter.length;
	bool elements = false;

	while ((at = memchr(at, '$', (size_t)(end - at))) && end - at >= 5) {
		if (memcmp(at, "$bits", 5) == 0 || (elements && memcmp(at, "$all", 5) == 0))
			return true;
		elements = elements || memcmp(at, "$elem", 5) == 0;
		at++;
	}
	return false;
}

enum filter_words filter_words_of(struct bytes filter)
{
	struct words words;

	if (!may_differ(filter))
		return FILTER_WORDS_PLAIN;
	go_through(&words, NULL, "", filter);
	if (words.unserved || words.positions > POSITIONS_MAX)
		return FILTER_WORDS_UNSERVED;
	if (words.found > 0)
		return FILTER_WORDS_WIDENED;
	return words.spread ? FILTER_WORDS_SPREAD : FILTER_WORDS_PLAIN;
}

void filter_words_write(struct buffer *out, const char *name, struct bytes filter)
{
	struct words words;

	if (filter_words_of(filter) == FILTER_WORDS_PLAIN)
		writer_document(out, name, filter);
	else
		go_through(&words, out, name, filter);
}

/* Most commands have none. */
static bool may_hold_tests(struct bytes command)
{
	static const char word[] = "$bits";

	return memmem(command.data, command.length, word, sizeof(word) - 1) != NULL;
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

bool filter_words_exceed(struct bytes pipeline)
{
	size_t positions = 0;

	return may_hold_tests(pipeline) &&
	       (!sum_positions(BSON_BYTE_ARRAY, pipeline, true, &positions) ||
		positions > POSITIONS_MAX);
}

bool filter_words_explainable(struct bytes command)
{
	size_t positions = 0;

	return !may_hold_tests(command) ||
	       (sum_positions(BSON_BYTE_DOCUMENT, command, false, &positions) &&
		positions <= POSITIONS_MAX);
}
