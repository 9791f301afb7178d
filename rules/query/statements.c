/* The statements of a write command, and what each one is. */
#include "rules/query/statements.h"

#include "protocol/writer.h"

static const char *sequence_name(enum command_field field)
{
	switch (field) {
	case FIELD_DOCUMENTS:
		return "documents";
	case FIELD_UPDATES:
		return "updates";
	case FIELD_OPS:
		return "ops";
	case FIELD_NS_INFO:
		return "nsInfo";
	default:
		return "deletes";
	}
}

must_check bool statements_open(struct statements *statements, const struct message *message,
				const struct command *command, enum command_field field)
{
	const struct element *array = &command->fields[field];
	struct statements found = {0};

	for (size_t i = 0; i < message->sequence_count; i++) {
		if (!bytes_are(message->sequences[i].identifier, sequence_name(field)))
			continue;
		found.in_sequence = true;
		found.sequence = i;
		found.documents = message->sequences[i].documents;
	}
	if (found.in_sequence == (array->type != 0))
		return false;
	if (!found.in_sequence &&
	    (array->type != BSON_BYTE_ARRAY || !cursor_open(&found.cursor, array->value)))
		return false;
	*statements = found;
	return true;
}

must_check bool statements_next(struct statements *statements, struct bytes *statement,
				bool *broken)
{
	struct element element;
	char name[12];

	*broken = false;
	if (statements->in_sequence)
		return message_next_document(&statements->documents, statement);
	switch (cursor_next(&statements->cursor, &element)) {
	case CURSOR_END:
		return false;
	case CURSOR_ELEMENT:
		/* mongod takes an array's elements by their names here, and refuses others. */
		if (element.type == BSON_BYTE_DOCUMENT &&
		    element_is(&element, writer_index(name, statements->next++))) {
			*statement = element.value;
			return true;
		}
		statements->mistyped = element.type != BSON_BYTE_DOCUMENT;
		break;
	case CURSOR_PARTIAL:
	case CURSOR_INVALID:
		break;
	}
	*broken = true;
	return false;
}

static struct element *statement_field(struct statement *statement, struct bytes name)
{
	struct {
		const char *name;
		struct element *field;
	} fields[] = {
		{"q", &statement->q},
		{"u", &statement->u},
		{"multi", &statement->multi},
		{"upsert", &statement->upsert},
		{"hint", &statement->hint},
		{"collation", &statement->collation},
		{"limit", &statement->limit},
		{"sort", &statement->sort},
		{"arrayFilters", &statement->array_filters},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(fields); i++)
		if (bytes_are(name, fields[i].name))
			return fields[i].field;
	return NULL;
}

static void drop_nothing(struct element *option)
{
	if (element_is_nothing(option))
		*option = (struct element){0};
}

/* To mongod what is no number is 0. */
must_check bool statement_limit(const struct element *limit, bool *many)
{
	int64_t number = 0;

	if (!element_integer(limit, &number) &&
	    (limit->type == BSON_BYTE_DECIMAL || limit->type == BSON_BYTE_DOUBLE))
		return false;
	*many = number == 0;
	return number == 0 || number == 1;
}

must_check bool statement_parse(struct bytes document, struct statement *statement)
{
	struct statement parsed = {0};
	struct cursor cursor;
	struct element element;
	enum cursor_step step;

	if (!cursor_open(&cursor, document))
		return false;
	while ((step = cursor_next(&cursor, &element)) == CURSOR_ELEMENT) {
		struct element *field = statement_field(&parsed, element.name);

		if (field && field->type != 0)
			return false;
		if (field)
			*field = element;
	}
	if (step != CURSOR_END)
		return false;
	drop_nothing(&parsed.multi);
	drop_nothing(&parsed.upsert);
	drop_nothing(&parsed.collation);
	*statement = parsed;
	return true;
}

/* A value that equals itself only, whatever the collation. */
static bool pins(const struct element *value, bool collated)
{
	switch (value->type) {
	case BSON_BYTE_REGEX:
	case BSON_BYTE_UNDEFINED:
	case BSON_BYTE_ARRAY:
		return false;
	case BSON_BYTE_STRING:
	case BSON_BYTE_SYMBOL:
		return !collated;
	case BSON_BYTE_DOCUMENT:
		return !collated && !document_begins_with_operator(value->value);
	default:
		return true;
	}
}

static bool pinned_value(const struct element *value, bool collated, struct element *id)
{
	struct element equal;

	if (value->type == BSON_BYTE_DOCUMENT && document_begins_with_operator(value->value) &&
	    document_find(value->value, "$eq", &equal))
		value = &equal;
	if (!pins(value, collated))
		return false;
	*id = *value;
	return true;
}

static bool pinned_by_and(struct bytes array, bool collated, struct element *id)
{
	struct cursor cursor;
	struct element part, value;

	if (!cursor_open(&cursor, array))
		return false;
	while (cursor_next(&cursor, &part) == CURSOR_ELEMENT)
		if (part.type == BSON_BYTE_DOCUMENT && document_find(part.value, "_id", &value) &&
		    pinned_value(&value, collated, id))
			return true;
	return false;
}

must_check bool statement_pinned_id(struct bytes filter, bool collated, struct element *id)
{
	struct cursor cursor;
	struct element element;

	if (!cursor_open(&cursor, filter))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (element_is(&element, "_id") && pinned_value(&element, collated, id))
			return true;
		if (element_is(&element, "$and") && element.type == BSON_BYTE_ARRAY &&
		    pinned_by_and(element.value, collated, id))
			return true;
	}
	return false;
}

bool statement_update_sound(const struct element *u)
{
	struct cursor cursor;
	struct element stage;
	enum cursor_step step = CURSOR_INVALID;

	if (u->type != BSON_BYTE_ARRAY)
		return u->type == BSON_BYTE_DOCUMENT;
	if (cursor_open(&cursor, u->value))
		do
			step = cursor_next(&cursor, &stage);
		while (step == CURSOR_ELEMENT && stage.type == BSON_BYTE_DOCUMENT);
	return step == CURSOR_END;
}

bool statement_filters_sound(const struct element *filters)
{
	struct cursor cursor;
	struct element filter;
	enum cursor_step step = CURSOR_INVALID;
	char name[12];

	if (filters->type == BSON_BYTE_ARRAY && cursor_open(&cursor, filters->value))
		step = cursor_next(&cursor, &filter);
	for (uint32_t i = 0; step == CURSOR_ELEMENT; i++, step = cursor_next(&cursor, &filter))
		if (!element_is(&filter, writer_index(name, i)) ||
		    (filter.type != BSON_BYTE_DOCUMENT && !element_is_nothing(&filter)))
			return false;
	return step == CURSOR_END;
}

/* As the server's definition of the command has it (write_ops.idl). */
static bool field_sound(const struct element *field, bool deletes)
{
	struct bytes name = field->name;
	uint8_t type = field->type;
	bool many;

	if (bytes_are(name, "q"))
		return type == BSON_BYTE_DOCUMENT;
	if (bytes_are(name, "collation"))
		return type == BSON_BYTE_DOCUMENT || element_is_nothing(field);
	if (bytes_are(name, "hint"))
		return type == BSON_BYTE_DOCUMENT || type == BSON_BYTE_STRING;
	if (deletes)
		return bytes_are(name, "limit") && statement_limit(field, &many);
	if (bytes_are(name, "u"))
		return statement_update_sound(field);
	if (bytes_are(name, "multi") || bytes_are(name, "upsert"))
		return type == BSON_BYTE_BOOL || element_is_nothing(field);
	if (bytes_are(name, "arrayFilters"))
		return statement_filters_sound(field);
	return bytes_are(name, "c") && (type == BSON_BYTE_DOCUMENT || element_is_nothing(field));
}

bool statement_is_sound(struct bytes document, bool deletes)
{
	struct cursor cursor;
	struct element field;
	enum cursor_step step = CURSOR_INVALID;
	bool q = false, second = false;

	if (cursor_open(&cursor, document))
		step = cursor_next(&cursor, &field);
	for (; step == CURSOR_ELEMENT; step = cursor_next(&cursor, &field)) {
		if (!field_sound(&field, deletes))
			return false;
		q = q || element_is(&field, "q");
		second = second || element_is(&field, deletes ? "limit" : "u");
	}
	return step == CURSOR_END && q && second;
}

/* ---- write concerns ---- */

bool concern_is_zero(const struct element *w)
{
	int64_t number;

	if (w->type == BSON_BYTE_DECIMAL)
		return !element_truth(w);
	return element_cut_integer(w, &number) && number == 0;
}

bool concern_is_unacknowledged(const struct element *concern)
{
	struct element w;

	return concern->type == BSON_BYTE_DOCUMENT && document_find(concern->value, "w", &w) &&
	       concern_is_zero(&w) && !document_truth(concern->value, "j") &&
	       !document_truth(concern->value, "fsync");
}
