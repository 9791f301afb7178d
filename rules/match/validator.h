/* What a validator sees of a ruled array.
 *
 * mongod validates a document as it is stored, without the tail, with each write. A document whose
 * tail has moved keeps its array, as an array, and all that is around it: what a validator says of
 * presence and type it says of the whole document, too. What it says of elements, of their number
 * or of the document's size it says of a part. */
#pragma once

#include "protocol/cursor.h"
#include "rules/rule/rules.h"

enum validator_sees {
	VALIDATOR_SEES_WHOLE,     /* it refuses what is stored if it refuses the whole document */
	VALIDATOR_SEES_PART,      /* of the array: elements, or how many there are */
	VALIDATOR_SEES_DOCUMENTS, /* judges documents by all that they have; {$bsonSize: '$$ROOT'}
				     at most a number is let pass: a fence for what is stored */
	VALIDATOR_SEES_FIELDS,    /* somewhere inside allOf and the like: which fields documents
				     have, or how many, so that it may refuse '_spill' */
};

/* By one rule. In doubt it sees a part. */
must_check enum validator_sees validator_sees(struct bytes validator, const struct rule *rule);
