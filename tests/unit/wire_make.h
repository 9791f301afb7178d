/*
 * Wire messages and BSON made from JSON, for the tests of what becomes of commands and replies.
 * JSON is written with ' for ".
 */
#ifndef TESTS_UNIT_WIRE_MAKE_H
#define TESTS_UNIT_WIRE_MAKE_H

#include <bson/bson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/unit.h"

#include "protocol/checksum.h"
#include "protocol/cursor.h"
#include "protocol/packet.h"

/* What was made stays until the test ends. */
static struct made_block {
	struct made_block *next;
	uint8_t bytes[];
} * made_blocks;

/* Of exactly this size, so that the address sanitizer sees each byte that is read beyond it. */
static inline struct bytes made_copy(struct bytes bytes)
{
	struct made_block *block = must_malloc(sizeof(*block) + bytes.length);

	block->next = made_blocks;
	made_blocks = block;
	if (bytes.length > 0)
		memcpy(block->bytes, bytes.data, bytes.length);
	return (struct bytes){block->bytes, bytes.length};
}

static inline void made_free(void)
{
	while (made_blocks) {
		struct made_block *block = made_blocks;

		made_blocks = block->next;
		free(block);
	}
}

/* Text as printf makes it. */
__attribute__((format(printf, 1, 2))) static inline const char *made_text(const char *format, ...)
{
	va_list arguments;
	struct bytes copy;
	char *text;

	va_start(arguments, format);
	cr_assert(vasprintf(&text, format, arguments) >= 0);
	va_end(arguments);
	copy = made_copy((struct bytes){(uint8_t *)text, strlen(text) + 1});
	free(text);
	return (const char *)copy.data;
}

static inline struct bytes made_bson(const char *json)
{
	auto_free char *text = must_strndup(json, strlen(json));
	bson_error_t error;
	struct bytes copy;
	bson_t *made;

	for (char *quote = text; (quote = strchr(quote, '\''));)
		*quote = '"';
	made = bson_new_from_json((const uint8_t *)text, -1, &error);
	cr_assert(made, "%s: %s", json, error.message);
	copy = made_copy((struct bytes){bson_get_data(made), made->len});
	bson_destroy(made);
	return copy;
}

/* For messages of failed tests. */
static inline const char *made_json(struct bytes document)
{
	const char *kept;
	bson_t view;
	char *text;

	if (!bson_init_static(&view, document.data, document.length))
		return "not BSON";
	text = bson_as_relaxed_extended_json(&view, NULL);
	kept = made_text("%s", text ? text : "broken BSON");
	bson_free(text);
	return kept;
}

#define made_expect(document, json) \
	do { \
		struct bytes made_got = (document); \
		cr_assert(bytes_equal(made_got, made_bson(json)), "is %s\nnot %s", \
			  made_json(made_got), json); \
	} while (0)

/* An OP_MSG frame. */
struct made {
	const char *body;
	const char *sequence;  /* its name; NULL: none */
	const char *documents; /* those in it: a JSON array */
	uint32_t flags;
	int32_t id;
	int32_t answers;
	bool checksum;
	bool packed; /* by `compressor` */
	enum compressor compressor;
};

static inline void made_add_body(struct buffer *frame, const char *json)
{
	struct bytes body = made_bson(json);

	message_begin_body(frame);
	buffer_append(frame, body.data, body.length);
}

static inline void made_add_sequence(struct buffer *frame, const struct made *made)
{
	struct bytes list = made_bson(made_text("{'list': %s}", made->documents));
	size_t start = message_begin_sequence(frame, bytes_of(made->sequence));
	struct cursor cursor;
	struct element element;

	cr_assert(document_find(list, "list", &element) && cursor_open(&cursor, element.value));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		buffer_append(frame, element.value.data, element.value.length);
	message_end_sequence(frame, start);
}

static inline void made_add_checksum(struct buffer *frame)
{
	uint32_t sum;

	store_int32(frame->data, (int32_t)frame->length + 4);
	sum = checksum_crc32c(buffer_view(frame));
	buffer_append(frame, &sum, sizeof(sum));
}

static inline struct buffer made_frame(const struct made *made)
{
	uint32_t flags = made->flags | (made->checksum ? MESSAGE_CHECKSUM_PRESENT : 0);
	struct buffer frame = {0}, packed = {0};

	message_begin(&frame, made->id, made->answers, flags);
	made_add_body(&frame, made->body);
	if (made->sequence)
		made_add_sequence(&frame, made);
	message_end(&frame, 0);
	if (made->checksum)
		made_add_checksum(&frame);
	if (!made->packed)
		return frame;
	compressed_pack(buffer_view(&frame), made->compressor, &packed);
	buffer_fini(&frame);
	return packed;
}

static inline struct packet made_packet(struct buffer frame)
{
	struct packet packet;

	packet_read_reply(&packet, &frame);
	return packet;
}

#endif
