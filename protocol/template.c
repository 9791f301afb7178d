/* Reads a template and writes its BSON in one go: each byte that is read goes to its place at once.
 * An element's type is written last, when its value is known. */
#include "protocol/template.h"

#include "protocol/message.h"

#include <ctype.h>
#include <stdlib.h>

struct reading {
	struct buffer *out;
	const char *at;
	const struct fill *fills;
};

static void write_value(struct reading *reading, size_t head);

static char peek(struct reading *reading)
{
	while (*reading->at == ' ' || *reading->at == '\t' || *reading->at == '\n')
		reading->at++;
	return *reading->at;
}

static bool take(struct reading *reading, char what)
{
	if (peek(reading) != what)
		return false;
	reading->at++;
	return true;
}

static bool take_word(struct reading *reading, const char *word)
{
	size_t length = strlen(word);

	if (strncmp(reading->at, word, length) != 0)
		return false;
	reading->at += length;
	return true;
}

static bool take_splice(struct reading *reading)
{
	return peek(reading) == '.' && take_word(reading, "..@");
}

static bool is_place_byte(char byte)
{
	return (byte >= 'a' && byte <= 'z') || byte == '_';
}

static const struct fill *take_place(struct reading *reading)
{
	const char *name = reading->at;
	const struct fill *fill = reading->fills;

	while (is_place_byte(*reading->at))
		reading->at++;
	while (fill->name && (strncmp(fill->name, name, (size_t)(reading->at - name)) != 0 ||
			      fill->name[reading->at - name] != '\0'))
		fill++;
	require(fill->name != NULL);
	return fill;
}

/* ---- names and strings ---- */

static bool is_name_byte(char byte)
{
	return isalnum((unsigned char)byte) || byte == '_' || byte == '$' || byte == '.';
}

/* Up to the quote, or of a bare name (`quote` is 0) as far as it goes, with its places filled. */
static void copy_text(struct reading *reading, char quote)
{
	const char *start = reading->at;

	while (quote ? *reading->at != quote && *reading->at != '\0'
		     : is_name_byte(*reading->at) || *reading->at == '@') {
		const struct fill *fill;

		if (*reading->at++ != '@')
			continue;
		buffer_append(reading->out, start, (size_t)(reading->at - 1 - start));
		fill = take_place(reading);
		require(fill->kind == FILL_TEXT);
		if (fill->bytes.data)
			buffer_append(reading->out, fill->bytes.data,
				      strnlen((const char *)fill->bytes.data, fill->bytes.length));
		start = reading->at;
	}
	buffer_append(reading->out, start, (size_t)(reading->at - start));
	if (quote)
		require(*reading->at++ == quote);
	buffer_append(reading->out, "", 1);
}

static void copy_name(struct reading *reading)
{
	char first = peek(reading);

	if (first == '\'' || first == '"')
		reading->at++;
	copy_text(reading, first == '\'' || first == '"' ? first : '\0');
	require(take(reading, ':'));
}

/* Room for the type; the name follows. */
static size_t begin_element(struct reading *reading)
{
	buffer_append(reading->out, "", 1);
	return reading->out->length - 1;
}

static size_t begin_numbered(struct reading *reading, size_t place)
{
	size_t head = begin_element(reading);
	char name[12];

	writer_index(name, place);
	buffer_append(reading->out, name, strlen(name) + 1);
	return head;
}

static void set_type(struct reading *reading, size_t head, uint8_t type)
{
	reading->out->data[head] = type;
}

/* ---- what fills a place ---- */

static void append_value(struct reading *reading, size_t head, uint8_t type, struct bytes value)
{
	if (type == 0 || writer_full(reading->out)) {
		reading->out->length = head;
		return;
	}
	set_type(reading, head, type);
	buffer_append(reading->out, value.data, value.length);
}

static void append_text(struct reading *reading, size_t head, struct bytes text)
{
	int32_t length = (int32_t)text.length + 1;

	require(text.length < INT32_MAX);
	append_value(reading, head, text.data ? BSON_BYTE_STRING : 0,
		     (struct bytes){(const uint8_t *)&length, sizeof(length)});
	if (reading->out->length == head)
		return;
	buffer_append(reading->out, text.data, text.length);
	buffer_append(reading->out, "", 1);
}

static void append_number(struct reading *reading, size_t head, uint8_t type, int64_t number)
{
	size_t size = type == BSON_BYTE_INT64 ? 8 : type == BSON_BYTE_INT32 ? 4 : 1;

	append_value(reading, head, type, (struct bytes){(const uint8_t *)&number, size});
}

static void append_binary(struct reading *reading, size_t head, struct bytes binary)
{
	const int32_t length = (int32_t)binary.length;
	const uint8_t *start = (const uint8_t *)&length;

	require(binary.length <= INT32_MAX);
	append_value(reading, head, binary.data ? BSON_BYTE_BINARY : 0,
		     (struct bytes){start, sizeof(length)});
	if (reading->out->length == head)
		return;
	buffer_append(reading->out, "", 1); /* the subtype */
	buffer_append(reading->out, binary.data, binary.length);
}

/* The function is given the name: what was written of the element goes. */
static void append_written(struct reading *reading, size_t head, const struct fill *fill)
{
	struct buffer *out = reading->out;
	auto_free char *name =
		must_strndup((const char *)out->data + head + 1, out->length - head - 2);

	out->length = head;
	fill->write(out, name, fill->context);
}

static void append_template(struct reading *reading, size_t head, const struct fill *fill)
{
	struct reading inner = {reading->out, fill->text, reading->fills};

	write_value(&inner, head);
	require(peek(&inner) == '\0');
}

static void append_fill(struct reading *reading, size_t head, const struct fill *fill)
{
	switch (fill->kind) {
	case FILL_ELEMENT:
		append_value(reading, head, fill->element->type, fill->element->value);
		return;
	case FILL_TEXT:
		append_text(reading, head, fill->bytes);
		return;
	case FILL_INT32:
		append_number(reading, head, BSON_BYTE_INT32, fill->number);
		return;
	case FILL_INT64:
		append_number(reading, head, BSON_BYTE_INT64, fill->number);
		return;
	case FILL_BOOL:
		append_number(reading, head, BSON_BYTE_BOOL, fill->number);
		return;
	case FILL_DOCUMENT:
		append_value(reading, head, BSON_BYTE_DOCUMENT, fill->bytes);
		return;
	case FILL_ARRAY:
		append_value(reading, head, BSON_BYTE_ARRAY, fill->bytes);
		return;
	case FILL_TEMPLATE:
		append_template(reading, head, fill);
		return;
	case FILL_BINARY:
		append_binary(reading, head, fill->bytes);
		return;
	case FILL_WRITTEN:
		append_written(reading, head, fill);
		return;
	case FILL_DOCUMENTS:
	case FILL_SPLICED:
		break;
	}
	require(!"a fill that is no value");
}

/* ---- documents and arrays ---- */

static void write_fields(struct reading *reading);
static void write_elements(struct reading *reading, size_t *place);

static void splice_documents(struct reading *reading, size_t *place, struct bytes documents)
{
	struct bytes document;
	char index[12];

	require(place != NULL);
	while (message_next_document(&documents, &document))
		writer_document(reading->out, writer_index(index, (*place)++), document);
}

static void splice_elements(struct reading *reading, size_t *place, struct bytes document)
{
	struct cursor cursor;
	struct element element;
	char index[12];

	require(cursor_open(&cursor, document));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (place)
			writer_renamed(reading->out, writer_index(index, (*place)++), &element);
		else
			writer_element(reading->out, &element);
	}
}

static void splice_template(struct reading *reading, size_t *place, const char *text)
{
	struct reading inner = {reading->out, text, reading->fills};

	require(take(&inner, place ? '[' : '{'));
	if (place)
		write_elements(&inner, place);
	else
		write_fields(&inner);
	require(peek(&inner) == '\0');
}

/* ..@name: in an array the elements are numbered on. */
static void splice(struct reading *reading, size_t *place)
{
	const struct fill *fill = take_place(reading);

	if (fill->kind == FILL_SPLICED) {
		fill->splice(reading->out, place, fill->context);
	} else if (fill->kind == FILL_DOCUMENTS) {
		splice_documents(reading, place, fill->bytes);
	} else if (fill->kind == FILL_TEMPLATE) {
		splice_template(reading, place, fill->text);
	} else {
		require(fill->kind == FILL_DOCUMENT || fill->kind == FILL_ARRAY);
		splice_elements(reading, place, fill->bytes);
	}
}

/* Behind `{`, up to the end. */
static void write_fields(struct reading *reading)
{
	while (!take(reading, '}')) {
		if (take_splice(reading)) {
			splice(reading, NULL);
		} else {
			size_t head = begin_element(reading);

			copy_name(reading);
			write_value(reading, head);
		}
		if (!take(reading, ',')) {
			require(take(reading, '}'));
			return;
		}
	}
}

static void write_elements(struct reading *reading, size_t *place)
{
	while (!take(reading, ']')) {
		if (take_splice(reading)) {
			splice(reading, place);
		} else {
			size_t head = begin_numbered(reading, *place);

			write_value(reading, head);
			*place += reading->out->length > head;
		}
		if (!take(reading, ',')) {
			require(take(reading, ']'));
			return;
		}
	}
}

static size_t open_value(struct reading *reading, size_t head, uint8_t type)
{
	set_type(reading, head, type);
	buffer_append(reading->out, "\0\0\0", 4);
	return reading->out->length - 4;
}

static void write_document(struct reading *reading, size_t head)
{
	size_t start = open_value(reading, head, BSON_BYTE_DOCUMENT);

	write_fields(reading);
	writer_close(reading->out, start);
}

static void write_array(struct reading *reading, size_t head)
{
	size_t start = open_value(reading, head, BSON_BYTE_ARRAY), place = 0;

	write_elements(reading, &place);
	writer_close(reading->out, start);
}

/* ---- other values ---- */

static void write_string(struct reading *reading, size_t head, char quote)
{
	size_t start = open_value(reading, head, BSON_BYTE_STRING);

	copy_text(reading, quote);
	store_int32(reading->out->data + start, (int32_t)(reading->out->length - start - 4));
}

static void write_number(struct reading *reading, size_t head)
{
	char *end;
	long long number = strtoll(reading->at, &end, 10);

	require(end > reading->at);
	reading->at = end;
	if (*end == 'L') {
		reading->at++;
		append_number(reading, head, BSON_BYTE_INT64, number);
	} else {
		require(number >= INT32_MIN && number <= INT32_MAX);
		append_number(reading, head, BSON_BYTE_INT32, number);
	}
}

/* Behind HexData(0, ' */
static void write_binary(struct reading *reading, size_t head)
{
	size_t start = open_value(reading, head, BSON_BYTE_BINARY);

	buffer_append(reading->out, "", 1);
	while (*reading->at != '\'') {
		const char digits[] = {reading->at[0], reading->at[1], '\0'};
		char *end;
		uint8_t byte = (uint8_t)strtoul(digits, &end, 16);

		require(end == digits + 2);
		buffer_append(reading->out, &byte, 1);
		reading->at += 2;
	}
	require(take_word(reading, "')"));
	store_int32(reading->out->data + start, (int32_t)(reading->out->length - start - 5));
}

static void write_word(struct reading *reading, size_t head)
{
	if (take_word(reading, "true"))
		append_number(reading, head, BSON_BYTE_BOOL, true);
	else if (take_word(reading, "false"))
		append_number(reading, head, BSON_BYTE_BOOL, false);
	else if (take_word(reading, "null"))
		set_type(reading, head, BSON_BYTE_NULL);
	else if (take_word(reading, "undefined"))
		set_type(reading, head, BSON_BYTE_UNDEFINED);
	else if (take_word(reading, "MinKey"))
		set_type(reading, head, BSON_BYTE_MIN_KEY);
	else if (take_word(reading, "HexData(0, '"))
		write_binary(reading, head);
	else
		write_number(reading, head);
}

/* Behind the element's type and name. */
static void write_value(struct reading *reading, size_t head)
{
	char first = peek(reading);

	switch (first) {
	case '{':
		reading->at++;
		write_document(reading, head);
		return;
	case '[':
		reading->at++;
		write_array(reading, head);
		return;
	case '\'':
	case '"':
		reading->at++;
		write_string(reading, head, first);
		return;
	case '@':
		reading->at++;
		append_fill(reading, head, take_place(reading));
		return;
	default:
		write_word(reading, head);
	}
}

/* ---- the whole ---- */

void template_fill_element(struct buffer *out, const char *name, const char *text,
			   const struct fill *fills)
{
	struct reading reading = {out, text, fills};
	size_t head;

	if (writer_full(out))
		return;
	head = begin_element(&reading);
	buffer_append(out, name, strlen(name) + 1);
	write_value(&reading, head);
	require(peek(&reading) == '\0');
}

void template_fill_next(struct buffer *out, size_t *place, const char *text,
			const struct fill *fills)
{
	size_t length = out->length;
	char name[12];

	template_fill_element(out, writer_index(name, *place), text, fills);
	*place += out->length > length;
}

void template_fill_fields(struct buffer *out, const char *text, const struct fill *fills)
{
	struct reading reading = {out, text, fills};

	if (writer_full(out))
		return;
	require(take(&reading, '{'));
	write_fields(&reading);
	require(peek(&reading) == '\0');
}

void template_fill_document(struct buffer *out, const char *text, const struct fill *fills)
{
	size_t start = writer_open(out);

	template_fill_fields(out, text, fills);
	writer_close(out, start);
}
