/* Writes that ask of an array's elements only whether some value is among them: a guarded push
 * ({tags: {$ne: x}}), $addToSet. Main's part of the array is judged by mongod with the write; of
 * the overflow a query tells. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

struct membership {
	bool known;             /* it is such a write */
	struct buffer overflow; /* conditions that an overflow document with such a value meets:
				   documents, one behind the other */
	struct buffer without;  /* $addToSet: the update as it is to be where the value is there
				   already, a field "u"; else empty */
};

/* `filter` reads the rule's array by $ne and $nin of scalars alone. `namespace` has one target. */
void membership_of_filter(struct bytes filter, const struct ruled_namespace *namespace,
			  struct membership *membership);
/* `update` touches the rule's array by one $addToSet of one scalar or document alone. */
void membership_of_update(const struct element *update, const struct ruled_namespace *namespace,
			  struct membership *membership);
void membership_fini(struct membership *membership);

/* An element equals it, or doesn't: nothing that stands for several values or for none. */
bool membership_is_scalar(const struct element *value);
/* `path`, which is the array's or lies in it, as it is in an overflow document's array (or below
 * it, where that is one element), with a NUL; false where a number counts elements. */
bool membership_overflow_path(struct bytes path, const struct rule *rule, struct buffer *out);
