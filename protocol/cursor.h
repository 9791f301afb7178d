/* A length-checked, iterative reader of untrusted BSON (bsonspec.org): one level at a time, no
 * allocation. */
#pragma once

#include "protocol/bytes.h"

/* BSON type bytes that the code names. */
enum bson_byte {
	BSON_BYTE_DOUBLE = 0x01,
	BSON_BYTE_STRING = 0x02,
	BSON_BYTE_DOCUMENT = 0x03,
	BSON_BYTE_ARRAY = 0x04,
	BSON_BYTE_BINARY = 0x05,
	BSON_BYTE_UNDEFINED = 0x06,
	BSON_BYTE_OBJECT_ID = 0x07,
	BSON_BYTE_BOOL = 0x08,
	BSON_BYTE_DATE = 0x09,
	BSON_BYTE_NULL = 0x0a,
	BSON_BYTE_REGEX = 0x0b,
	BSON_BYTE_DB_POINTER = 0x0c,
	BSON_BYTE_CODE = 0x0d,
	BSON_BYTE_SYMBOL = 0x0e,
	BSON_BYTE_CODE_WITH_SCOPE = 0x0f,
	BSON_BYTE_INT32 = 0x10,
	BSON_BYTE_TIMESTAMP = 0x11,
	BSON_BYTE_INT64 = 0x12,
	BSON_BYTE_DECIMAL = 0x13,
	BSON_BYTE_MIN_KEY = 0xff,
	BSON_BYTE_MAX_KEY = 0x7f,
};

/* One element: views into the document. */
struct element {
	uint8_t type;
	struct bytes name; /* without its NUL, which follows it in memory */
	struct bytes value;
};

/* What stands before the value of an element that a cursor has found: type, name, NUL. */
static inline struct bytes element_head(const struct element *element)
{
	return (struct bytes){element->name.data - 1, element->name.length + 2};
}

/* The whole of an element that a cursor has found: type, name, NUL, value. */
static inline struct bytes element_raw(const struct element *element)
{
	const uint8_t *start = element->name.data - 1;

	return (struct bytes){start, (size_t)(element->value.data - start) + element->value.length};
}

enum cursor_step {
	CURSOR_ELEMENT, /* an element whose own bounds are checked; nested content is not looked at
			 */
	CURSOR_END,     /* the document's closing NUL, exactly at its end */
	CURSOR_PARTIAL, /* only for cursors of a prefix: the bytes end here, the document goes on */
	CURSOR_INVALID,
};

struct cursor {
	const uint8_t *at;
	const uint8_t *end; /* the closing NUL, or where the bytes of a prefix end */
	size_t missing; /* of a prefix: bytes of the document behind `end`; 0 where it is whole */
};

/* Opens a document whose bytes are all there: its length field must equal `document.length`. */
must_check bool cursor_open(struct cursor *cursor, struct bytes document);
/* Opens a document of which maybe only a prefix is there. `limit`: the most its length field may
 * claim. */
must_check bool cursor_open_prefix(struct cursor *cursor, struct bytes prefix, size_t limit);
must_check enum cursor_step cursor_next(struct cursor *cursor, struct element *element);
/* Where cursor_next says CURSOR_PARTIAL: how long the element claims to be, its type and name
 * counted. False where its length is not there yet, or nowhere in front. */
must_check bool cursor_length(const struct cursor *cursor, size_t *length);

/* Goes on to the next element of this name; false where none comes before the end, the prefix's end
 * or what is broken. */
must_check bool cursor_find(struct cursor *cursor, struct bytes name, struct element *element);

/* Finds the first element of this name on the top level; false also where the document is broken
 * before it. */
must_check bool document_find(struct bytes document, const char *name, struct element *element);
/* The first element; false also where there is none. */
must_check bool document_first(struct bytes document, struct element *first);
/* Its name begins with a dollar sign, as an operator's. */
bool document_begins_with_operator(struct bytes document);
/* Its name begins with a dollar sign, and is no field of a DBRef. */
bool element_names_operator(const struct element *element);
/* It is there, and element_truth. */
bool document_truth(struct bytes document, const char *name);
/* Like document_find along a dotted path through documents (not arrays). */
must_check bool document_find_path(struct bytes document, const char *path,
				   struct element *element);
/* Walks all levels, the scope of code included, BinData not: true when every length, string end,
 * bool and nesting (at most `CURSOR_MAX_DEPTH`) is right, as mongod 6.0 checks them. */
must_check bool document_valid(struct bytes document);
/* As document_valid, for the prefix of a larger text: the length of the one document that stands at
 * the start of `bytes`, 0 where there is none. Content is not looked at. */
must_check size_t document_length(struct bytes bytes);

/* The outermost and 250, the most that mongod's maxBSONDepth can be set to. */
#define CURSOR_MAX_DEPTH 251

/* Typed looks at an element. False where the type is another; out-parameters are then untouched. */
must_check bool element_string(const struct element *element, struct bytes *text);
must_check bool element_document(const struct element *element,
				 struct bytes *document); /* document or array */
/* The same of what stands at the path, if something does. */
must_check bool document_find_string(struct bytes document, const char *path, struct bytes *text);
must_check bool document_find_integer(struct bytes document, const char *path, int64_t *value);
must_check bool document_find_document(struct bytes document, const char *path,
				       struct bytes *found);
/* The one field of a document that has no other, as of {$stage: ...}. */
must_check bool element_only_field(const struct element *document, struct element *field);
must_check bool element_integer(const struct element *element,
				int64_t *value); /* int32, int64, whole double */
/* mongod's "safe long": int32, int64, doubles without their fraction and within int64; of what is
 * no number 0. */
must_check bool element_cut_integer(const struct element *element, int64_t *value);
/* null or undefined: what mongod's generated parsers take for an option that is not there. */
bool element_is_nothing(const struct element *element);
/* mongod's "safe bool": bool or number, decimals too; anything else is false. */
bool element_truth(const struct element *element);

static inline bool element_is(const struct element *element, const char *name)
{
	return bytes_are(element->name, name);
}
