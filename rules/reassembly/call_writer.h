/* Aggregation expressions, written operand by operand. */
#pragma once

#include "protocol/writer.h"

/* A name or a path made of parts. */
struct text {
	char *bytes;
};

struct text text_join(const char *first, const char *second, const char *third);
void text_free(struct text *text);
#define auto_text __attribute__((cleanup(text_free))) struct text

/* {verb: [first, ...]}: opens, for operands that are written behind. */
struct call {
	struct buffer *out;
	size_t document, list, place;
};

struct call call_open(struct buffer *out, const char *name, const char *verb);
void call_close(struct call *call);
/* Operands: a string (a path, a variable), a number, null, [], another call (to be closed), and
 * {verb: text}. */
void call_text(struct call *call, const char *text);
void call_number(struct call *call, int32_t number);
void call_null(struct call *call);
void call_nothing(struct call *call);
struct call call_call(struct call *call, const char *verb);
void call_unary(struct call *call, const char *verb, const char *text);
/* {$eq: [{$type: path}, type]} */
void call_type_is(struct call *call, const char *path, const char *type);
