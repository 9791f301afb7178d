/* Writes the few MongoDB messages that the benchmark's programs need, into memory of the caller. */
#ifndef TESTS_BENCH_WIRE_H
#define TESTS_BENCH_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	HEADER_SIZE = 16,
	OP_REPLY = 1,
	OP_QUERY = 2004,
	OP_MSG = 2013,
	MORE_TO_COME = 2,
	BODY_OFFSET = 21, /* of OP_MSG's first document: header, flags, section kind */
};

/* The caller sizes `bytes`: all messages here have a known greatest length. */
struct writer {
	uint8_t *bytes;
	size_t length;
};

static inline int32_t read_int32(const uint8_t *at)
{
	int32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline void write_int32(uint8_t *at, int32_t value)
{
	memcpy(at, &value, sizeof(value));
}

static inline void put_bytes(struct writer *w, const void *bytes, size_t length)
{
	memcpy(w->bytes + w->length, bytes, length);
	w->length += length;
}

static inline void put_byte(struct writer *w, uint8_t value)
{
	w->bytes[w->length++] = value;
}

static inline void put_int32(struct writer *w, int32_t value)
{
	put_bytes(w, &value, sizeof(value));
}

static inline void put_name(struct writer *w, uint8_t type, const char *name)
{
	put_byte(w, type);
	put_bytes(w, name, strlen(name) + 1);
}

static inline void put_double_field(struct writer *w, const char *name, double value)
{
	put_name(w, 0x01, name);
	put_bytes(w, &value, sizeof(value));
}

static inline void put_string_field(struct writer *w, const char *name, const char *value)
{
	size_t size = strlen(value) + 1;

	put_name(w, 0x02, name);
	put_int32(w, (int32_t)size);
	put_bytes(w, value, size);
}

static inline void put_bool_field(struct writer *w, const char *name, bool value)
{
	put_name(w, 0x08, name);
	put_byte(w, value);
}

static inline void put_int32_field(struct writer *w, const char *name, int32_t value)
{
	put_name(w, 0x10, name);
	put_int32(w, value);
}

static inline void put_int64_field(struct writer *w, const char *name, int64_t value)
{
	put_name(w, 0x12, name);
	put_bytes(w, &value, sizeof(value));
}

/* A length that is not known yet: begin_length says where it stands, end_length fills it in. */
static inline size_t begin_length(struct writer *w)
{
	put_int32(w, 0);
	return w->length - 4;
}

static inline void end_length(struct writer *w, size_t start)
{
	write_int32(w->bytes + start, (int32_t)(w->length - start));
}

static inline size_t begin_document_field(struct writer *w, const char *name)
{
	put_name(w, 0x03, name);
	return begin_length(w);
}

static inline size_t begin_array_field(struct writer *w, const char *name)
{
	put_name(w, 0x04, name);
	return begin_length(w);
}

static inline void end_document(struct writer *w, size_t start)
{
	put_byte(w, 0);
	end_length(w, start);
}

static inline void begin_message(struct writer *w, int32_t opcode)
{
	w->length = 0;
	put_int32(w, 0);
	put_int32(w, 1);
	put_int32(w, 0);
	put_int32(w, opcode);
}

/* OP_MSG with its body opened; returns the body's start for end_document. */
static inline size_t begin_command(struct writer *w)
{
	begin_message(w, OP_MSG);
	put_int32(w, 0);
	put_byte(w, 0);
	return begin_length(w);
}

#endif
