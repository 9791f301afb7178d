/* Expressions by which mongod puts overflow documents in a row that may overlap: two Spillways with
 * another batch size each have stored the same elements, or the overflow's unique index is missing.
 * A position has one value, so any document that holds it will do. */
#pragma once

#include "rules/reassembly/call_writer.h"
#include "rules/rule/rules.h"

/* Batches of one generation, by their positions. */
struct tiling {
	const char *input; /* a path or a variable */
	const char *array; /* in each of them, behind "$$this." */
	const char *first; /* the position that the row begins with; NULL for 0 */
};

/* An operand: the position behind the last batch; null where one does not begin where the one
 * before it ends. */
void tiling_add_end(struct call *call, const struct tiling *tiling);
/* The batches, each as far as it goes on where those before it end. Where there is a hole the one
 * behind it stays as it is. */
void tiling_write_trimmed(struct buffer *out, const char *name, const struct tiling *tiling);
/* The batches as they are where they run on, else trimmed: all but a few documents have the first
 * kind, and it costs next to nothing. */
void tiling_write(struct buffer *out, const char *name, const struct tiling *tiling);
/* Of documents of one element each, one for each position. */
void tiling_write_elements(struct buffer *out, const char *name, const char *input,
			   const char *first);
