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

void exported_rewind(struct exported *exported)
{
	rewind(exported->file);
	exported->broken = false;
}

void exported_close(struct exported *exported)
{
	if (!exported)
		return;
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

static enum exported_step read_line(struct exported *exported)
{
	ssize_t length;
	bson_t *bson;

	do {
		length = getline(&exported->line, &exported->room, exported->file);
	} while (length == 1 && exported->line[0] == '\n');
	if (length <= 0)
		return end(exported);
	bson = bson_new_from_json((const uint8_t *)exported->line, length, NULL);
	exported->whole.length = 0;
	if (!bson)
		return EXPORTED_BROKEN;
	buffer_append(&exported->whole, bson_get_data(bson), bson->len);
	bson_destroy(bson);
	return EXPORTED_DOCUMENT;
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
static bool unwrap(struct bytes whole, struct exported_document *next)
{
	struct element bson;

	*next = (struct exported_document){.document = whole};
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
			       unwrap(buffer_view(&exported->whole), next) &&
			       document_valid(next->document)
		       ? EXPORTED_DOCUMENT
		       : EXPORTED_BROKEN;
}
