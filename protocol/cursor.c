/* A length-checked, iterative reader of untrusted BSON. What it takes and refuses is what
 * mongod 6.0 does. */
#include "protocol/cursor.h"

#include <math.h>

#define BEYOND_INT64 9223372036854775808.0

#define SHORTEST_DOCUMENT 5

must_check bool cursor_open_prefix(struct cursor *cursor, struct bytes prefix, size_t limit)
{
	int32_t claim;
	size_t length;
	bool whole;

	if (prefix.length < 4)
		return false;
	claim = load_int32(prefix.data);
	length = (size_t)claim;
	if (claim < SHORTEST_DOCUMENT || length > limit)
		return false;
	whole = prefix.length >= length;
	if (whole && prefix.data[length - 1] != 0)
		return false;
	cursor->at = prefix.data + 4;
	cursor->end = prefix.data + (whole ? length - 1 : prefix.length);
	cursor->missing = whole ? 0 : length - prefix.length;
	return true;
}

must_check bool cursor_open(struct cursor *cursor, struct bytes document)
{
	if (document.length < SHORTEST_DOCUMENT ||
	    (size_t)load_int32(document.data) != document.length ||
	    document.data[document.length - 1] != 0)
		return false;
	cursor->at = document.data + 4;
	cursor->end = document.data + document.length - 1;
	cursor->missing = 0;
	return true;
}

/* What a type says of its value. A length is read and checked without asking which type it is. */
struct value_shape {
	uint32_t counted; /* all bits where the value begins with a length, none where that is fixed
			   */
	uint8_t length;   /* the fixed length, or what the length in the value does not count */
	uint8_t least;    /* the shortest value there can be */
	uint8_t nul;      /* how far from the value's end a byte is checked ... */
	uint8_t wrong;    /* ... and which of its bits must not be set */
};

#define UNUSUAL \
	{ \
		0, 0, UINT8_MAX, 0, 0 \
	} /* too long for what it is: see take_unusual */
#define FIXED(length) \
	{ \
		0, length, 0, 1, 0 \
	}
#define STRING(behind) \
	{ \
		UINT32_MAX, 4 + (behind), 5 + (behind), 1 + (behind), 0xff \
	}
#define DOCUMENT(least) \
	{ \
		UINT32_MAX, 0, least, 1, 0xff \
	}

static const struct value_shape shapes[256] = {
	[0x00] = UNUSUAL,
	[BSON_BYTE_DOUBLE] = FIXED(8),
	[BSON_BYTE_STRING] = STRING(0),
	[BSON_BYTE_DOCUMENT] = DOCUMENT(SHORTEST_DOCUMENT),
	[BSON_BYTE_ARRAY] = DOCUMENT(SHORTEST_DOCUMENT),
	[BSON_BYTE_BINARY] = {UINT32_MAX, 5, 5, 1, 0},
	[BSON_BYTE_UNDEFINED] = FIXED(0),
	[BSON_BYTE_OBJECT_ID] = FIXED(12),
	[BSON_BYTE_BOOL] = {0, 1, 1, 1, 0xfe},
	[BSON_BYTE_DATE] = FIXED(8),
	[BSON_BYTE_NULL] = FIXED(0),
	[BSON_BYTE_REGEX] = UNUSUAL,
	[BSON_BYTE_DB_POINTER] = STRING(12),
	[BSON_BYTE_CODE] = STRING(0),
	[BSON_BYTE_SYMBOL] = STRING(0),
	[BSON_BYTE_CODE_WITH_SCOPE] = DOCUMENT(14),
	[BSON_BYTE_INT32] = FIXED(4),
	[BSON_BYTE_TIMESTAMP] = FIXED(8),
	[BSON_BYTE_INT64] = FIXED(8),
	[BSON_BYTE_DECIMAL] = FIXED(16),
	[0x14 ... 0x7e] = UNUSUAL,
	[BSON_BYTE_MIN_KEY] = FIXED(0),
	[BSON_BYTE_MAX_KEY] = FIXED(0),
	[0x80 ... 0xfe] = UNUSUAL,
};

/* The bytes end before the element does: of its value, `length` bytes long at least, `there` are
 * there. */
static enum cursor_step cursor_shortage(const struct cursor *cursor, size_t there, size_t length)
{
	return length < there + cursor->missing ? CURSOR_PARTIAL : CURSOR_INVALID;
}

static inline enum cursor_step take_value(struct cursor *cursor, struct element *element,
					  const uint8_t *value, size_t length)
{
	const uint8_t *start = cursor->at;

	cursor->at = value + length;
	element->type = *start;
	element->name = (struct bytes){start + 1, (size_t)(value - start - 2)};
	element->value = (struct bytes){value, length};
	return CURSOR_ELEMENT;
}

/* A regular expression, whose length is in its two NULs, and what is no type at all. */
static __attribute__((noinline)) enum cursor_step take_unusual(struct cursor *cursor,
							       struct element *element,
							       const uint8_t *value)
{
	size_t there = (size_t)(cursor->end - value);
	const uint8_t *nul;

	if (*cursor->at != BSON_BYTE_REGEX)
		return CURSOR_INVALID;
	nul = there > 0 ? memchr(value, 0, there) : NULL;
	if (nul)
		nul = memchr(nul + 1, 0, there - (size_t)(nul + 1 - value));
	if (!nul)
		return cursor_shortage(cursor, there, there);
	return take_value(cursor, element, value, (size_t)(nul + 1 - value));
}

static inline enum cursor_step take_named(struct cursor *cursor, struct element *element,
					  const uint8_t *value)
{
	const struct value_shape *shape = &shapes[*cursor->at];
	size_t there = (size_t)(cursor->end - value);
	size_t length = shape->length;

	if (there >= 4)
		length += (uint32_t)load_int32(value) & shape->counted;
	else if (shape->counted)
		return cursor_shortage(cursor, there, 4);
	if (length < shape->least)
		return shape->counted ? CURSOR_INVALID : take_unusual(cursor, element, value);
	if (length > there)
		return cursor_shortage(cursor, there, length);
	if (value[(ptrdiff_t)length - shape->nul] & shape->wrong)
		return CURSOR_INVALID;
	return take_value(cursor, element, value, length);
}

static __attribute__((noinline)) enum cursor_step take_long_named(struct cursor *cursor,
								  struct element *element)
{
	const uint8_t *name = cursor->at + 1;
	const uint8_t *nul = NULL;

	if (name < cursor->end)
		nul = memchr(name, 0, (size_t)(cursor->end - name));
	if (!nul)
		return cursor_shortage(cursor, 0, 0);
	return take_named(cursor, element, nul + 1);
}

/* Of eight bytes the first that is 0 gets its highest bit set; those behind it may be wrong. */
static inline uint64_t mark_zeros(uint64_t word)
{
	return (word - 0x0101010101010101u) & ~word & 0x8080808080808080u;
}

static inline unsigned first_mark(uint64_t marks)
{
	return (unsigned)__builtin_ctzll(marks) / 8;
}

must_check enum cursor_step cursor_next(struct cursor *cursor, struct element *element)
{
	const uint8_t *name;

	if (cursor->at == cursor->end)
		return cursor->missing > 0 ? CURSOR_PARTIAL : CURSOR_END;
	name = cursor->at + 1;
	/* Most names are short: a call of memchr would cost more than all the rest. */
	for (int i = 0; i < 2 && cursor->end - name >= 8; i++, name += 8) {
		uint64_t zeros = mark_zeros((uint64_t)load_int64(name));

		if (zeros)
			return take_named(cursor, element, name + first_mark(zeros) + 1);
	}
	return take_long_named(cursor, element);
}

/* The end of an element with a short name, other than `name_length` bytes long, and a value of the
 * usual kind; NULL where only cursor_next can tell. */
static inline const uint8_t *skip_quickly(const struct cursor *cursor, size_t name_length)
{
	const uint8_t *name = cursor->at + 1, *value;
	const struct value_shape *shape = &shapes[*cursor->at];
	uint64_t zeros;
	size_t there, length = shape->length;

	if (cursor->end - name < 20)
		return NULL;
	zeros = mark_zeros((uint64_t)load_int64(name));
	if (zeros) {
		value = name + first_mark(zeros) + 1;
	} else {
		zeros = mark_zeros((uint64_t)load_int64(name + 8));
		value = name + 8 + first_mark(zeros | (UINT64_C(1) << 63)) + 1;
	}
	there = (size_t)(cursor->end - value);
	length += (uint32_t)load_int32(value) & shape->counted;
	if (!zeros || (size_t)(value - name - 1) == name_length || length < shape->least ||
	    length > there || (value[(ptrdiff_t)length - shape->nul] & shape->wrong))
		return NULL;
	return value + length;
}

must_check bool cursor_length(const struct cursor *cursor, size_t *length)
{
	const uint8_t *nul = memchr(cursor->at, 0, (size_t)(cursor->end - cursor->at));
	const struct value_shape *shape = &shapes[*cursor->at];

	if (!nul || !shape->counted || cursor->end - nul < 5)
		return false;
	*length = (size_t)(nul + 1 - cursor->at) + shape->length + (uint32_t)load_int32(nul + 1);
	return true;
}

must_check bool cursor_find(struct cursor *cursor, struct bytes name, struct element *element)
{
	struct element here = {0};

	while (cursor->at < cursor->end) {
		const uint8_t *next = skip_quickly(cursor, name.length);

		if (next) {
			cursor->at = next;
			continue;
		}
		if (cursor_next(cursor, &here) != CURSOR_ELEMENT)
			return false;
		if (bytes_equal(here.name, name)) {
			*element = here;
			return true;
		}
	}
	return false;
}

static bool find_named(struct bytes document, struct bytes name, struct element *element)
{
	struct cursor cursor;

	return cursor_open(&cursor, document) && cursor_find(&cursor, name, element);
}

must_check bool document_find(struct bytes document, const char *name, struct element *element)
{
	return find_named(document, bytes_of(name), element);
}

must_check bool document_first(struct bytes document, struct element *first)
{
	struct cursor cursor;

	return cursor_open(&cursor, document) && cursor_next(&cursor, first) == CURSOR_ELEMENT;
}

bool document_begins_with_operator(struct bytes document)
{
	struct element first;

	return document_first(document, &first) && bytes_begin_with(first.name, "$");
}

bool element_names_operator(const struct element *element)
{
	return bytes_begin_with(element->name, "$") && !element_is(element, "$ref") &&
	       !element_is(element, "$id") && !element_is(element, "$db");
}

bool document_truth(struct bytes document, const char *name)
{
	struct element element;

	return document_find(document, name, &element) && element_truth(&element);
}

must_check bool document_find_path(struct bytes document, const char *path, struct element *element)
{
	const char *dot;

	while ((dot = strchr(path, '.'))) {
		struct bytes part = {(const uint8_t *)path, (size_t)(dot - path)};
		struct element parent;

		if (!find_named(document, part, &parent) || parent.type != BSON_BYTE_DOCUMENT)
			return false;
		document = parent.value;
		path = dot + 1;
	}
	return document_find(document, path, element);
}

/* The document inside an element, without data where there is none; false where the code before a
 * scope is broken. */
static bool element_nested(const struct element *element, struct bytes *nested)
{
	struct bytes value = element->value;
	int32_t code;

	*nested = (struct bytes){0};
	if (element_document(element, nested) || element->type != BSON_BYTE_CODE_WITH_SCOPE)
		return true;
	code = load_int32(value.data + 4);
	if (code < 1 || (size_t)code > value.length - 8 || value.data[8 + code - 1] != 0)
		return false;
	*nested = (struct bytes){value.data + 8 + code, value.length - 8 - (size_t)code};
	return true;
}

must_check bool document_valid(struct bytes document)
{
	struct cursor stack[CURSOR_MAX_DEPTH];
	struct element element = {0};
	size_t depth = 1;

	if (!cursor_open(&stack[0], document))
		return false;
	while (depth > 0) {
		struct bytes nested;
		enum cursor_step step = cursor_next(&stack[depth - 1], &element);

		if (step == CURSOR_END) {
			depth--;
			continue;
		}
		if (step != CURSOR_ELEMENT || !element_nested(&element, &nested))
			return false;
		if (!nested.data)
			continue;
		if (depth == CURSOR_MAX_DEPTH || !cursor_open(&stack[depth], nested))
			return false;
		depth++;
	}
	return true;
}

must_check size_t document_length(struct bytes bytes)
{
	int32_t length;

	if (bytes.length < SHORTEST_DOCUMENT)
		return 0;
	length = load_int32(bytes.data);
	return length < SHORTEST_DOCUMENT || (size_t)length > bytes.length ? 0 : (size_t)length;
}

must_check bool element_string(const struct element *element, struct bytes *text)
{
	if (element->type != BSON_BYTE_STRING)
		return false;
	*text = (struct bytes){element->value.data + 4, element->value.length - 5};
	return true;
}

must_check bool element_only_field(const struct element *document, struct element *field)
{
	struct element more;
	struct cursor cursor;

	return document->type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, document->value) &&
	       cursor_next(&cursor, field) == CURSOR_ELEMENT &&
	       cursor_next(&cursor, &more) == CURSOR_END;
}

must_check bool element_document(const struct element *element, struct bytes *document)
{
	if (element->type != BSON_BYTE_DOCUMENT && element->type != BSON_BYTE_ARRAY)
		return false;
	*document = element->value;
	return true;
}

static bool element_double(const struct element *element, double *value)
{
	if (element->type != BSON_BYTE_DOUBLE)
		return false;
	memcpy(value, element->value.data, sizeof(*value));
	return true;
}

must_check bool element_integer(const struct element *element, int64_t *value)
{
	double number;

	if (element->type == BSON_BYTE_INT32) {
		*value = load_int32(element->value.data);
		return true;
	}
	if (element->type == BSON_BYTE_INT64) {
		*value = load_int64(element->value.data);
		return true;
	}
	if (!element_double(element, &number) || number != floor(number) || fabs(number) > 9e15)
		return false;
	*value = (int64_t)number;
	return true;
}

/* IEEE 754-2008, binary integer decimal: what is not written canonically counts as zero. */
static bool decimal_truth(const uint8_t *value)
{
	const uint64_t largest_high = 0x1ed09bead87c0,
		       largest_low = 0x378d8e63ffffffff; /* 10^34 - 1 */
	uint64_t low = (uint64_t)load_int64(value);
	uint64_t high = (uint64_t)load_int64(value + 8);
	uint64_t digits_high = high & 0x1ffffffffffff;

	if ((high >> 59 & 0xf) == 0xf) /* infinity, not a number */
		return true;
	if ((high >> 61 & 0x3) == 0x3 || digits_high > largest_high)
		return false;
	if (digits_high == largest_high && low > largest_low)
		return false;
	return digits_high != 0 || low != 0;
}

must_check bool element_cut_integer(const struct element *element, int64_t *value)
{
	double number;

	if (element->type == BSON_BYTE_INT32 || element->type == BSON_BYTE_INT64)
		return element_integer(element, value);
	if (element->type != BSON_BYTE_DOUBLE)
		return false;
	memcpy(&number, element->value.data, sizeof(number));
	if (isnan(number))
		*value = 0;
	else if (number >= BEYOND_INT64)
		*value = INT64_MAX;
	else
		*value = number <= -BEYOND_INT64 ? INT64_MIN : (int64_t)number;
	return true;
}

bool element_is_nothing(const struct element *element)
{
	return element->type == BSON_BYTE_NULL || element->type == BSON_BYTE_UNDEFINED;
}

bool element_truth(const struct element *element)
{
	double number = 0;
	int64_t integer;

	if (element->type == BSON_BYTE_BOOL)
		return element->value.data[0] != 0;
	if (element->type == BSON_BYTE_DECIMAL)
		return decimal_truth(element->value.data);
	if (element_double(element, &number))
		return number != 0;
	return element_integer(element, &integer) && integer != 0;
}

must_check bool document_find_string(struct bytes document, const char *path, struct bytes *text)
{
	struct element element;

	return document_find_path(document, path, &element) && element_string(&element, text);
}

must_check bool document_find_integer(struct bytes document, const char *path, int64_t *value)
{
	struct element element;

	return document_find_path(document, path, &element) && element_integer(&element, value);
}

must_check bool document_find_document(struct bytes document, const char *path, struct bytes *found)
{
	struct element element;

	return document_find_path(document, path, &element) && element_document(&element, found);
}
