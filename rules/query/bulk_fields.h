/* What mongod's definition of bulkWrite says of each field of an op, and what the field is called
 * in a statement of the older command. */
#pragma once

#include "rules/query/bulk_ops.h"

enum bulk_field_kind {
	BULK_FIELD_INDEX, /* a number, not below 0; mongod takes any kind of number */
	BULK_FIELD_DOCUMENT,
	BULK_FIELD_UPDATE, /* a document or a pipeline */
	BULK_FIELD_BOOL,
	BULK_FIELD_FILTERS,
	BULK_FIELD_HINT,
};

struct bulk_field {
	const char *name;
	const char *old; /* in a statement of the older command; NULL: not there */
	enum bulk_field_kind kind;
	bool needed;
};

/* A kind of op, by enum bulk_kind. */
struct bulk_definition {
	const char *command;
	const char *sequence;
	const struct bulk_field *fields;
	size_t count;
};

extern const struct bulk_definition bulk_definitions[BULK_DELETE + 1];

/* The number of a namespace: mongod cuts off the fraction of a double, and rounds a decimal. False
 * if the value is no number. */
must_check bool bulk_read_index(const struct element *element, int64_t *number);
bool bulk_field_fits(const struct element *field, enum bulk_field_kind kind);
/* NULL: mongod knows no field of this name. */
const struct bulk_field *bulk_find_field(const struct bulk_definition *kind, struct bytes name);
/* mongod takes null, and undefined, for a field that is not there. A hint has a parser of its own,
 * which does not. */
bool bulk_field_absent(const struct bulk_field *field, const struct element *element);
