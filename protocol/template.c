/* Reads a template and writes its BSON in one go: nothing is kept between the two. */
#include "protocol/template.h"

#include <stdlib.h>

#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.@"
#define PLACE_BYTES "abcdefghijklmnopqrstuvwxyz_"

struct reading {
	struct buffer *out;
	const char *at;
	const struct fill *fills;
};

static void write_value(struct reading *reading, const char *name);

static void skip_space(struct reading *reading)
{
	reading->at += strspn(reading->at, " \t\n");
}

static bool take(struct reading *reading, const char *what)
{
	size_t length = strlen(what);

	skip_space(reading);
	if (strncmp(reading->at, what, length) != 0)
		return false;
	reading->at += length;
	return true;
}

static const struct fill *take_place(struct reading *reading)
{
	size_t length = strspn(reading->at, PLACE_BYTES);
	const struct fill *fill = reading->fills;

	while (fill->name &&
	       (strlen(fill->name) != length || memcmp(fill->name, reading->at, length) != 0))
		fill++;
	require(fill->name != NULL);
	reading->at += length;
	return fill;
}

/* A string, or a name: up to `end`, with its places filled; ends with a NUL. */
static void read_text(struct reading *reading, const char *end, struct buffer *text)
{
	text->length = 0;
	while (reading->at < end) {
		const struct fill *fill;

		if (*reading->at != '@') {
			buffer_append(text, reading->at++, 1);
			continue;
		}
		reading->at++;
		fill = take_place(reading);
		require(fill->kind == FILL_TEXT);
		buffer_append(text, fill->text, strlen(fill->text));
	}
	require(reading->at == end);
	buffer_append(text, "", 1);
}

static void read_quoted(struct reading *reading, struct buffer *text)
{
	const char *end = strchr(reading->at, '\'');

	require(end != NULL);
	read_text(reading, end, text);
	reading->at++;
}

static void read_name(struct reading *reading, struct buffer *name)
{
	if (take(reading, "'"))
		read_quoted(reading, name);
	else
		read_text(reading, reading->at + strspn(reading->at, NAME_BYTES), name);
	require(take(reading, ":"));
}

static void write_fill(struct buffer *out, const char *name, const struct fill *fill)
{
	switch (fill->kind) {
	case FILL_ELEMENT:
		writer_renamed(out, name, fill->element);
		return;
	case FILL_TEXT:
		writer_string(out, name, fill->text);
		return;
	case FILL_INT32:
		writer_int32(out, name, (int32_t)fill->number);
		return;
	case FILL_INT64:
		writer_int64(out, name, fill->number);
		return;
	case FILL_BOOL:
		writer_bool(out, name, fill->number);
		return;
	case FILL_DOCUMENT:
		writer_document(out, name, fill->bytes);
		return;
	case FILL_ARRAY:
		writer_array(out, name, fill->bytes);
		return;
	case FILL_WRITTEN:
		fill->write(out, name, fill->context);
		return;
	}
	require(!"a fill without a kind");
}

/* ..@name: in an array the elements are numbered on. */
static void splice(struct reading *reading, size_t *place)
{
	const struct fill *fill = take_place(reading);
	struct cursor cursor;
	struct element element;
	char index[12];

	require(fill->kind == FILL_DOCUMENT || fill->kind == FILL_ARRAY);
	require(cursor_open(&cursor, fill->bytes));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (place)
			writer_renamed(reading->out, writer_index(index, (*place)++), &element);
		else
			writer_element(reading->out, &element);
	}
}

static void write_fields(struct reading *reading)
{
	auto_buffer struct buffer name = {0};

	while (!take(reading, "}")) {
		if (take(reading, "..@")) {
			splice(reading, NULL);
		} else {
			read_name(reading, &name);
			write_value(reading, (const char *)name.data);
		}
		if (!take(reading, ",")) {
			require(take(reading, "}"));
			return;
		}
	}
}

static void write_elements(struct reading *reading)
{
	size_t place = 0;
	char index[12];

	while (!take(reading, "]")) {
		if (take(reading, "..@"))
			splice(reading, &place);
		else
			write_value(reading, writer_index(index, place++));
		if (!take(reading, ",")) {
			require(take(reading, "]"));
			return;
		}
	}
}

static void write_number(struct reading *reading, const char *name)
{
	char *end;
	long long number = strtoll(reading->at, &end, 10);

	require(end > reading->at);
	reading->at = end;
	if (*reading->at == 'L') {
		reading->at++;
		writer_int64(reading->out, name, number);
	} else {
		require(number >= INT32_MIN && number <= INT32_MAX);
		writer_int32(reading->out, name, (int32_t)number);
	}
}

static void write_quoted(struct reading *reading, const char *name)
{
	auto_buffer struct buffer text = {0};

	read_quoted(reading, &text);
	writer_text(reading->out, name, (struct bytes){text.data, text.length - 1});
}

static void write_value(struct reading *reading, const char *name)
{
	size_t start;

	if (take(reading, "{")) {
		start = writer_open_document(reading->out, name);
		write_fields(reading);
		writer_close(reading->out, start);
	} else if (take(reading, "[")) {
		start = writer_open_array(reading->out, name);
		write_elements(reading);
		writer_close(reading->out, start);
	} else if (take(reading, "'")) {
		write_quoted(reading, name);
	} else if (take(reading, "@")) {
		write_fill(reading->out, name, take_place(reading));
	} else if (take(reading, "true")) {
		writer_bool(reading->out, name, true);
	} else if (take(reading, "false")) {
		writer_bool(reading->out, name, false);
	} else if (take(reading, "null")) {
		writer_renamed(reading->out, name, &(struct element){.type = BSON_BYTE_NULL});
	} else {
		write_number(reading, name);
	}
}

static void expect_end(struct reading *reading)
{
	skip_space(reading);
	require(*reading->at == '\0');
}

void template_fill_element(struct buffer *out, const char *name, const char *text,
			   const struct fill *fills)
{
	struct reading reading = {out, text, fills};

	write_value(&reading, name);
	expect_end(&reading);
}

void template_fill_fields(struct buffer *out, const char *text, const struct fill *fills)
{
	struct reading reading = {out, text, fills};

	require(take(&reading, "{"));
	write_fields(&reading);
	expect_end(&reading);
}

void template_fill_document(struct buffer *out, const char *text, const struct fill *fills)
{
	size_t start = writer_open(out);

	template_fill_fields(out, text, fills);
	writer_close(out, start);
}
