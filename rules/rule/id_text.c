/* Names a document by its `_id`. */
#include "rules/rule/id_text.h"

#include "rules/rule/text.h"

#include <stdio.h>

#define TEXT_MOST 120

static const char *type_name(uint8_t type)
{
	static const char *const names[] = {
		[BSON_BYTE_DOUBLE] = "double",       [BSON_BYTE_STRING] = "string",
		[BSON_BYTE_DOCUMENT] = "object",     [BSON_BYTE_BINARY] = "binData",
		[BSON_BYTE_OBJECT_ID] = "objectId",  [BSON_BYTE_BOOL] = "bool",
		[BSON_BYTE_DATE] = "date",           [BSON_BYTE_NULL] = "null",
		[BSON_BYTE_INT32] = "int",           [BSON_BYTE_INT64] = "long",
		[BSON_BYTE_TIMESTAMP] = "timestamp", [BSON_BYTE_DECIMAL] = "decimal",
	};

	return type < ARRAY_LENGTH(names) && names[type] ? names[type] : "another type";
}

/* Not in the middle of a character. */
static void write_string(struct id_text *text, struct bytes value)
{
	size_t length = value.length < TEXT_MOST ? value.length : TEXT_MOST;
	auto_free char *copy = NULL, *valid = NULL;

	while (length < value.length && length > 0 && (value.data[length] & 0xc0) == 0x80)
		length--;
	copy = must_strndup((const char *)value.data, length);
	valid = text_valid(copy);
	snprintf(text->text, sizeof(text->text), "_id '%s' (string)", valid);
}

static void write_object_id(struct id_text *text, const uint8_t *id)
{
	char digits[25];

	for (size_t i = 0; i < 12; i++)
		snprintf(digits + 2 * i, 3, "%02x", id[i]);
	snprintf(text->text, sizeof(text->text), "_id '%s' (objectId)", digits);
}

struct id_text id_text(const struct element *id)
{
	struct id_text text;
	struct bytes string;
	int64_t number;

	if (element_string(id, &string))
		write_string(&text, string);
	else if (id->type == BSON_BYTE_OBJECT_ID)
		write_object_id(&text, id->value.data);
	else if (element_integer(id, &number))
		snprintf(text.text, sizeof(text.text), "_id '%lld' (%s)", (long long)number,
			 type_name(id->type));
	else
		snprintf(text.text, sizeof(text.text), "_id '?' (%s)", type_name(id->type));
	return text;
}
