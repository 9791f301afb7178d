/* The fields that Spillway writes into an outlier beside its array: flag, counters, reference. What
 * they are called, and what becomes of them when the array goes back.
 *
 * The array's state remembers what stood there before the first elements moved: `a` names the flag
 * where there was none, `b` holds what it was otherwise, unless it stood for an outlier already,
 * and what counters and reference were: {f: <flag>, t: <total>, d: <documents>, r: <reference>},
 * each where the document had it. {c: true} in the place of t: it had a total when it was adopted,
 * which is Spillway's to keep from then on. */
#pragma once

#include "protocol/writer.h"
#include "rules/rule/rules.h"

enum own_field {
	OWN_FLAG,
	OWN_TOTAL,
	OWN_DOCUMENTS,
	OWN_REFERENCE,
	OWN_FIELDS,
};

/* NULL where the rule has none, or where it is the application's own affair. */
const char *own_field_name(const struct rule *rule, enum own_field field);
/* Its name in the state's `b`. */
const char *own_field_key(enum own_field field);
#define OWN_TOTAL_KEPT "c" /* in `b`, too */
/* The rule has such fields: what becomes of them the state alone tells. */
bool own_fields_any(const struct rule *rule);

enum own_field_end {
	OWN_FIELD_STAYS, /* Spillway has not written it */
	OWN_FIELD_GOES,
	OWN_FIELD_RETURNS, /* to this value */
};
/* What becomes of a field that has a name when the array goes back. */
enum own_field_end own_field_end(const struct rule *rule, enum own_field field,
				 const struct element *state, struct element *value);

/* What an update does to these fields as the array goes back. The two functions are for places of a
 * template, with this as the context. */
struct own_fields_back {
	const struct rule *rule;
	const struct element *state;
	int64_t total; /* elements of a total that Spillway has kept alone; -1: its end is as above
			*/
	struct bytes staying; /* the states of other arrays; empty: there are none */
};
/* A document of those that return, each with its value, and `_spill` as it stays; nothing if there
 * is none of these. */
void own_fields_write_returning(struct buffer *out, const char *name, const void *context);
/* Those that go, each with an empty text. */
void own_fields_splice_going(struct buffer *out, size_t *place, const void *context);
/* Nothing has been moved yet, but the fields stand: they did so before, in another generation. */
bool own_fields_stand_already(const struct element *state);
/* The total belongs to the document, and is Spillway's to keep. */
bool own_total_is_kept(const struct rule *rule, const struct element *state);

/* Types that a field of ours may have had before: others are not a counter's, or a reference's, and
 * such a document is never moved. Any for the flag. */
bool own_field_may_be(enum own_field field, uint8_t type);

/* In a reference's format: stands for the document's `_id` as $toString gives it. */
#define RULE_ID_MARK "{_id}"
/* False where $toString has nothing for it: such a document gets no reference. */
bool own_reference_has_text(const struct element *id);
/* What stands before and behind the mark. */
struct bytes own_reference_head(const struct rule *rule);
struct bytes own_reference_tail(const struct rule *rule);
