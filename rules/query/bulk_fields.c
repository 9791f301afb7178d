/* What mongod's definition of bulkWrite says of each field of an op. */
#include "rules/query/bulk_fields.h"

#include "rules/query/statements.h"

#include <bson/bson.h>
#include <math.h>
#include <stdlib.h>

static const struct bulk_field insert_fields[] = {
	{"insert", NULL, BULK_FIELD_INDEX, true},
	{"document", NULL, BULK_FIELD_DOCUMENT, true},
};

static const struct bulk_field update_fields[] = {
	{"update", NULL, BULK_FIELD_INDEX, true},
	{"filter", "q", BULK_FIELD_DOCUMENT, true},
	{"updateMods", "u", BULK_FIELD_UPDATE, true},
	{"multi", "multi", BULK_FIELD_BOOL, false},
	{"upsert", "upsert", BULK_FIELD_BOOL, false},
	{"upsertSupplied", "upsertSupplied", BULK_FIELD_BOOL, false},
	{"arrayFilters", "arrayFilters", BULK_FIELD_FILTERS, false},
	{"hint", "hint", BULK_FIELD_HINT, false},
	{"collation", "collation", BULK_FIELD_DOCUMENT, false},
	{"constants", "c", BULK_FIELD_DOCUMENT, false},
	{"sort", "sort", BULK_FIELD_DOCUMENT, false},
};

static const struct bulk_field delete_fields[] = {
	{"delete", NULL, BULK_FIELD_INDEX, true},
	{"filter", "q", BULK_FIELD_DOCUMENT, true},
	{"multi", NULL, BULK_FIELD_BOOL, false},
	{"hint", "hint", BULK_FIELD_HINT, false},
	{"collation", "collation", BULK_FIELD_DOCUMENT, false},
};

const struct bulk_definition bulk_definitions[] = {
	[BULK_INSERT] = {"insert", "documents", insert_fields, ARRAY_LENGTH(insert_fields)},
	[BULK_UPDATE] = {"update", "updates", update_fields, ARRAY_LENGTH(update_fields)},
	[BULK_DELETE] = {"delete", "deletes", delete_fields, ARRAY_LENGTH(delete_fields)},
};

/* As mongod makes a whole number of a decimal. */
static int64_t decimal_number(const struct element *element)
{
	char text[BSON_DECIMAL128_STRING];
	bson_decimal128_t decimal;
	double number;

	memcpy(&decimal.low, element->value.data, sizeof(decimal.low));
	memcpy(&decimal.high, element->value.data + sizeof(decimal.low), sizeof(decimal.high));
	bson_decimal128_to_string(&decimal, text);
	number = strtod(text, NULL);
	if (isnan(number))
		return 0;
	return number > INT32_MAX ? INT32_MAX : number < INT32_MIN ? INT32_MIN : llrint(number);
}

bool bulk_read_index(const struct element *element, int64_t *number)
{
	if (element->type != BSON_BYTE_DECIMAL)
		return element_cut_integer(element, number);
	*number = decimal_number(element);
	return true;
}

bool bulk_field_fits(const struct element *field, enum bulk_field_kind kind)
{
	int64_t number;

	switch (kind) {
	case BULK_FIELD_INDEX:
		return bulk_read_index(field, &number);
	case BULK_FIELD_DOCUMENT:
		return field->type == BSON_BYTE_DOCUMENT;
	case BULK_FIELD_UPDATE:
		return statement_update_sound(field);
	case BULK_FIELD_BOOL:
		return field->type == BSON_BYTE_BOOL;
	case BULK_FIELD_FILTERS:
		return statement_filters_sound(field);
	case BULK_FIELD_HINT:
		return field->type == BSON_BYTE_DOCUMENT || field->type == BSON_BYTE_STRING;
	}
	return false;
}

const struct bulk_field *bulk_find_field(const struct bulk_definition *kind, struct bytes name)
{
	for (size_t i = 0; i < kind->count; i++)
		if (bytes_are(name, kind->fields[i].name))
			return &kind->fields[i];
	return NULL;
}

bool bulk_field_absent(const struct bulk_field *field, const struct element *element)
{
	return field->kind != BULK_FIELD_HINT && field->kind != BULK_FIELD_UPDATE &&
	       element_is_nothing(element);
}
