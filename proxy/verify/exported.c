/* Reads documents that were exported. */
#include "proxy/verify/exported.h"

#include "protocol/cursor.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_MOST (48 << 20)
#define LENGTH_LEAST 5
#define LENGTH_HIGH_BYTE 3 /* of a BSON document it is small, of a line of JSON it is a letter */
#define LETTERS_FROM 0x09
#define BINARY_HEAD 5 /* length and subtype */

struct exported {
	FILE *file;
	bool lines;
	bool broken; /* behind a length that can be none nothing more is found */
	char *line;
	size_t room;
	bson_json_reader_t *reader; /* of the line, as long as more may stand in it */
	bool untyped;               /* the line has bare whole numbers */
	struct buffer whole;
};

static bool holds_lines(FILE *file)
{
	uint8_t first[LENGTH_HIGH_BYTE + 1];
	bool lines = fread(first, 1, sizeof(first), file) == sizeof(first) &&
		     first[LENGTH_HIGH_BYTE] >= LETTERS_FROM;

	rewind(file);
	return lines;
}

struct exported *exported_open(const char *path)
{
	FILE *file = fopen(path, "re");
	struct exported *exported;

	if (!file)
		return NULL;
	exported = must_calloc(1, sizeof(*exported));
	exported->file = file;
	exported->lines = holds_lines(file);
	return exported;
}

static void end_line(struct exported *exported)
{
	if (exported->reader)
		bson_json_reader_destroy(exported->reader);
	exported->reader = NULL;
}

void exported_rewind(struct exported *exported)
{
	end_line(exported);
	rewind(exported->file);
	exported->broken = false;
}

void exported_close(struct exported *exported)
{
	if (!exported)
		return;
	end_line(exported);
	(void)fclose(exported->file);
	free(exported->line);
	buffer_fini(&exported->whole);
	free(exported);
}

/* Nothing more came. What can't be read to its end is told once. */
static enum exported_step end(struct exported *exported)
{
	exported->broken = ferror(exported->file);
	return exported->broken ? EXPORTED_BROKEN : EXPORTED_END;
}

/* Behind the number: digits, sign, point and exponent. */
static const char *pass_number(const char *at, const char *end, bool *whole)
{
	for (*whole = true; at < end && strchr("+-.eE0123456789", *at); at++)
		*whole = *whole && !strchr(".eE", *at);
	return at;
}

/* The types whose parts are bare in each format, as {"$minKey": 1}. */
static const char *pass_bare_types(const char *at, const char *end)
{
	static const char *const keys[] = {"\"$timestamp\"", "\"$minKey\"", "\"$maxKey\""};

	for (size_t i = 0; i < ARRAY_LENGTH(keys); i++) {
		size_t length = strlen(keys[i]);
		const char *next = at + length;

		if ((size_t)(end - at) <= length || memcmp(at, keys[i], length) != 0)
			continue;
		next += strspn(next, " \t");
		return *next == ':' ? next + strcspn(next, "}") : at;
	}
	return at;
}

/* Canonical extended JSON has numbers in quotes alone, with their types. A relaxed one writes 7 for
 * int32 and int64. */
static bool has_whole_numbers(const char *at, size_t length)
{
	const char *end = at + length;
	bool quoted = false, whole;

	while (at < end) {
		if (!quoted)
			at = pass_bare_types(at, end);
		if (*at == '"')
			quoted = !quoted;
		if (quoted || !strchr("-0123456789", *at)) {
			at += quoted && *at == '\\' ? 2 : 1;
			continue;
		}
		at = pass_number(at, end, &whole);
		if (whole)
			return true;
	}
	return false;
}

/* The next document of the line. */
static enum exported_step read_document(struct exported *exported)
{
	bson_t bson = BSON_INITIALIZER;
	int found = bson_json_reader_read(exported->reader, &bson, NULL);

	exported->whole.length = 0;
	if (found > 0)
		buffer_append(&exported->whole, bson_get_data(&bson), bson.len);
	else
		end_line(exported);
	bson_destroy(&bson);
	if (found > 0)
		return EXPORTED_DOCUMENT;
	return found < 0 ? EXPORTED_BROKEN : EXPORTED_END;
}

static enum exported_step read_line(struct exported *exported)
{
	enum exported_step step = EXPORTED_END;
	ssize_t length;
	size_t blank;

	if (exported->reader)
		step = read_document(exported);
	while (step == EXPORTED_END) {
		length = getline(&exported->line, &exported->room, exported->file);
		if (length <= 0)
			return end(exported);
		blank = strspn(exported->line, " \t\r\n");
		if (blank == (size_t)length)
			continue;
		if (exported->line[blank] == '[') /* it would be taken for one document */
			return EXPORTED_BROKEN;
		exported->untyped = has_whole_numbers(exported->line, (size_t)length);
		exported->reader = bson_json_data_reader_new(true, 0);
		bson_json_data_reader_ingest(exported->reader, (const uint8_t *)exported->line,
					     (size_t)length);
		step = read_document(exported);
	}
	return step;
}

static enum exported_step read_bson(struct exported *exported)
{
	uint8_t head[4];
	size_t rest, got = fread(head, 1, sizeof(head), exported->file);
	int32_t length;

	if (got == 0)
		return end(exported);
	length = got == sizeof(head) ? load_int32(head) : 0;
	exported->broken = length < LENGTH_LEAST || length > LENGTH_MOST;
	if (exported->broken)
		return EXPORTED_BROKEN;
	rest = (size_t)length - sizeof(head);
	exported->whole.length = 0;
	buffer_append(&exported->whole, head, sizeof(head));
	buffer_reserve(&exported->whole, rest);
	exported->broken =
		fread(exported->whole.data + sizeof(head), 1, rest, exported->file) != rest;
	exported->whole.length += rest;
	return exported->broken ? EXPORTED_BROKEN : EXPORTED_DOCUMENT;
}

/* {namespace, document}, or {namespace, bson} of what JSON can't hold. */
static bool unwrap(struct bytes whole, bool untyped, struct exported_document *next)
{
	struct element bson;

	*next = (struct exported_document){.document = whole, .untyped = untyped};
	if (!document_find_string(whole, "namespace", &next->namespace))
		return true;
	if (document_find_document(whole, "document", &next->document))
		return true;
	if (!document_find(whole, "bson", &bson)) {
		next->namespace = (struct bytes){0}; /* an application's own field */
		return true;
	}
	if (bson.type != BSON_BYTE_BINARY || bson.value.length <= BINARY_HEAD)
		return false;
	next->document =
		(struct bytes){bson.value.data + BINARY_HEAD, bson.value.length - BINARY_HEAD};
	return true;
}

enum exported_step exported_next(struct exported *exported, struct exported_document *next)
{
	enum exported_step step = EXPORTED_END;

	if (!exported->broken)
		step = exported->lines ? read_line(exported) : read_bson(exported);
	if (step != EXPORTED_DOCUMENT)
		return step;
	return document_valid(buffer_view(&exported->whole)) &&
			       unwrap(buffer_view(&exported->whole), exported->untyped, next) &&
			       document_valid(next->document)
		       ? EXPORTED_DOCUMENT
		       : EXPORTED_BROKEN;
}
