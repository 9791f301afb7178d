/* What an overflow document holds of an array.
 *
 *   batches    {<link>, <array>: [...], _spill: {g, p, ...}}
 *   elements   {<link>, <the element's own fields>, _spill: {g, p, v?}}
 *
 * An element that its fields would not give back byte for byte is kept whole in `_spill.v`, which
 * is then what counts. */
#pragma once

#include "protocol/writer.h"
#include "rules/rule/rules.h"

/* The field that overflow documents with one link are in order by. */
const char *overflow_order_path(const struct rule *rule);
/* These are the keys, in their order, of the unique index that every overflow has: {<link>: 1,
 * <order>: 1}. */
bool overflow_is_unique_key(const struct rule *rule, struct bytes keys);

/* Appends the path, with its NUL, by which overflow documents have what lies in the array: `rest`
 * is what stands behind the array's own ("" or ".isbn"). False where they have no such. */
must_check bool overflow_path(const struct rule *rule, const char *rest, struct buffer *out);

/* Layout `elements`: the path's first name is one of ours, so that an element with it is kept
 * whole. */
bool overflow_names_ours(const struct rule *rule, const char *path);
/* Layout `elements`: appends the element's own fields to the open overflow document, as far as they
 * can stand there. True where these are not all of it: it has to be kept whole, too. */
bool overflow_write_fields(const struct rule *rule, const struct element *element,
			   struct buffer *out);
/* Appends as a document what is left of it less our names. False where it is no BSON. */
must_check bool overflow_write_own(const struct rule *rule, struct bytes document,
				   struct buffer *out);
/* Its elements as an array: a view into the document, or into `scratch`, which is written anew.
 * False where it holds none; a batch is no element. */
must_check bool overflow_elements(const struct rule *rule, struct bytes document,
				  struct buffer *scratch, struct bytes *array);
/* The 16 bytes that name its generation; no data if the document is none of Spillway's. */
struct bytes overflow_generation(struct bytes document);
/* Its number, and the position of its first element; false if it lacks one. An element's own
 * document has the number that a batch of it would have. */
must_check bool overflow_place(const struct rule *rule, struct bytes document, int64_t *number,
			       int64_t *position);
