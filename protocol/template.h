/* BSON written as text, with places to fill:
 *
 *   template_write(out, "$replaceWith",
 *                  "{$cond: [{$gt: ['$_spill.@key.n', 0]}, @whole, '$$ROOT']}",
 *                  fill("key", rule->key), fill_template("whole", WHOLE));
 *
 * The text is the JSON of the shell. Names may stand without quotes. Strings have single or double
 * quotes, and no escapes. Whole numbers are int32, with an L behind them int64. There are true,
 * false, null, undefined, MinKey, and HexData(0, '00ff').
 *
 * `@name` as a value is what fills it. Inside a string or a name it is a text, up to a NUL.
 * `..@name` puts all fields of a document, or all elements of an array, in its place. What is not
 * there (an element of type 0, a text that is NULL, a binary without data, a function that appends
 * nothing) leaves its field or element out, or is nothing inside a string.
 *
 * A text that can't be read, or a place that nothing fills, is a mistake of the program's: it ends.
 * A fill that no place names is none: several texts may share their fills. */
#pragma once

#include "protocol/writer.h"

struct fill {
	const char *name;
	enum fill_kind {
		FILL_ELEMENT, /* as it is, under the place's name */
		FILL_TEXT,
		FILL_INT32,
		FILL_INT64,
		FILL_BOOL,
		FILL_DOCUMENT,
		FILL_ARRAY,
		FILL_BINARY,    /* of subtype 0 */
		FILL_DOCUMENTS, /* several, one behind the other: only for `..@name` in an array */
		FILL_TEMPLATE,  /* a text: the same fills fill its places */
		FILL_WRITTEN,   /* by a function */
		FILL_SPLICED,   /* several, by a function: only for `..@name` */
	} kind;
	union {
		const struct element *element;
		const char *text;
		int64_t number;
		struct bytes bytes;
	};
	void (*write)(struct buffer *out, const char *name, const void *context);
	void (*splice)(struct buffer *out, size_t *place, const void *context);
	const void *context;
};

static inline struct fill fill_element(const char *name, const struct element *element)
{
	return (struct fill){.name = name, .kind = FILL_ELEMENT, .element = element};
}

static inline struct fill fill_bytes(const char *name, struct bytes text)
{
	return (struct fill){.name = name, .kind = FILL_TEXT, .bytes = text};
}

static inline struct fill fill_text(const char *name, const char *text)
{
	return fill_bytes(name, text ? bytes_of(text) : (struct bytes){0});
}

static inline struct fill fill_int32(const char *name, int32_t number)
{
	return (struct fill){.name = name, .kind = FILL_INT32, .number = number};
}

static inline struct fill fill_int64(const char *name, int64_t number)
{
	return (struct fill){.name = name, .kind = FILL_INT64, .number = number};
}

static inline struct fill fill_bool(const char *name, bool truth)
{
	return (struct fill){.name = name, .kind = FILL_BOOL, .number = truth};
}

static inline struct fill fill_document(const char *name, struct bytes document)
{
	return (struct fill){.name = name, .kind = FILL_DOCUMENT, .bytes = document};
}

static inline struct fill fill_array(const char *name, struct bytes array)
{
	return (struct fill){.name = name, .kind = FILL_ARRAY, .bytes = array};
}

static inline struct fill fill_binary(const char *name, struct bytes binary)
{
	return (struct fill){.name = name, .kind = FILL_BINARY, .bytes = binary};
}

static inline struct fill fill_documents(const char *name, struct bytes documents)
{
	return (struct fill){.name = name, .kind = FILL_DOCUMENTS, .bytes = documents};
}

/* What differs from case to case is a text by itself: `condition ? "'$$ROOT'" : "{$let: ...}"`. */
static inline struct fill fill_template(const char *name, const char *text)
{
	return (struct fill){.name = name, .kind = FILL_TEMPLATE, .text = text};
}

/* `write` appends one element, under the name that it is given. */
static inline struct fill fill_with(const char *name,
				    void (*write)(struct buffer *out, const char *name,
						  const void *context),
				    const void *context)
{
	return (struct fill){
		.name = name, .kind = FILL_WRITTEN, .write = write, .context = context};
}

/* `splice` appends elements under the names "*place" and on, and counts *place up. In a document
 * `place` is NULL, and it appends fields under names of their own. */
static inline struct fill fill_spliced(const char *name,
				       void (*splice)(struct buffer *out, size_t *place,
						      const void *context),
				       const void *context)
{
	return (struct fill){
		.name = name, .kind = FILL_SPLICED, .splice = splice, .context = context};
}

/* Of what the value's type says. */
#define fill(name, value) \
	_Generic((value), char * \
		 : fill_text, const char * \
		 : fill_text, int32_t \
		 : fill_int32, int64_t \
		 : fill_int64, bool \
		 : fill_bool, struct element * \
		 : fill_element, const struct element * \
		 : fill_element, struct bytes \
		 : fill_bytes)((name), (value))

/* The value of the text as an element of the open document. */
#define template_write(out, name, ...) \
	template_fill_element((out), (name), TEMPLATE_TEXT(__VA_ARGS__), \
			      TEMPLATE_FILLS(__VA_ARGS__))
/* The same under the name "*place": the next element of the open array. Counts *place up. */
#define template_append(out, place, ...) \
	template_fill_next((out), (place), TEMPLATE_TEXT(__VA_ARGS__), TEMPLATE_FILLS(__VA_ARGS__))
/* The fields of the text's document, in the open one. */
#define template_write_fields(out, ...) \
	template_fill_fields((out), TEMPLATE_TEXT(__VA_ARGS__), TEMPLATE_FILLS(__VA_ARGS__))
/* The text's document, alone in the buffer or behind others. */
#define template_write_document(out, ...) \
	template_fill_document((out), TEMPLATE_TEXT(__VA_ARGS__), TEMPLATE_FILLS(__VA_ARGS__))

#define TEMPLATE_TEXT(...) TEMPLATE_FIRST(__VA_ARGS__, 0)
#define TEMPLATE_FIRST(text, ...) (text)
/* The fills behind the text; one without a name ends them. */
#define TEMPLATE_FILLS(...) ((const struct fill[]){TEMPLATE_REST(__VA_ARGS__, {0})})
#define TEMPLATE_REST(text, ...) __VA_ARGS__

void template_fill_element(struct buffer *out, const char *name, const char *text,
			   const struct fill *fills);
void template_fill_next(struct buffer *out, size_t *place, const char *text,
			const struct fill *fills);
void template_fill_fields(struct buffer *out, const char *text, const struct fill *fills);
void template_fill_document(struct buffer *out, const char *text, const struct fill *fills);
