/* The fields that Spillway writes into an outlier beside its array. */
#include "rules/rule/own_fields.h"

#include "rules/rule/names.h"

const char *own_field_name(const struct rule *rule, enum own_field field)
{
	switch (field) {
	case OWN_FLAG:
		return rule->flag.field;
	case OWN_TOTAL:
		return rule->counters.owned_by_app ? NULL : rule->counters.total;
	case OWN_DOCUMENTS:
		return rule->counters.documents;
	case OWN_REFERENCE:
		return rule->reference.field;
	case OWN_FIELDS:
		break;
	}
	require(!"a field of ours without a name");
}

const char *own_field_key(enum own_field field)
{
	static const char *const keys[OWN_FIELDS] = {
		[OWN_FLAG] = "f", [OWN_TOTAL] = "t", [OWN_DOCUMENTS] = "d", [OWN_REFERENCE] = "r"};

	require(keys[field]);
	return keys[field];
}

bool own_fields_any(const struct rule *rule)
{
	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++)
		if (own_field_name(rule, field))
			return true;
	return false;
}

/* S.a names it. */
static bool flag_was_added(const struct element *state, const char *field)
{
	struct element names, each;
	struct cursor cursor;
	struct bytes text;

	if (!document_find(state->value, "a", &names) || names.type != BSON_BYTE_ARRAY ||
	    !cursor_open(&cursor, names.value))
		return false;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (element_string(&each, &text) && bytes_are(text, field))
			return true;
	return false;
}

/* It is written together with the first elements that count. */
static bool holds_nothing(const struct element *state)
{
	struct element moved;
	int64_t count;

	return document_find(state->value, "n", &moved) && element_integer(&moved, &count) &&
	       count == 0;
}

bool own_fields_stand_already(const struct element *state)
{
	struct element added;

	return state->type == BSON_BYTE_DOCUMENT && holds_nothing(state) &&
	       document_find(state->value, "a", &added);
}

/* What stood there before the array was moved; without data where the state doesn't say. */
static struct bytes found_before(const struct element *state)
{
	struct element before;

	return document_find(state->value, "b", &before) && before.type == BSON_BYTE_DOCUMENT
		       ? before.value
		       : (struct bytes){0};
}

static enum own_field_end flag_end(const struct rule *rule, const struct element *state,
				   struct bytes before, struct element *value)
{
	const struct rule_value *otherwise = &rule->flag.otherwise;

	if (holds_nothing(state) && !own_fields_stand_already(state))
		return OWN_FIELD_STAYS;
	if (document_find(before, own_field_key(OWN_FLAG), value))
		return OWN_FIELD_RETURNS;
	if (otherwise->type == 0 || flag_was_added(state, rule->flag.field))
		return OWN_FIELD_GOES;
	*value = (struct element){.type = otherwise->type, .value = otherwise->value};
	return OWN_FIELD_RETURNS;
}

/* The number of overflow documents is none again, whatever a document said that was written back as
 * the application had read it. */
static void count_no_documents(struct element *value)
{
	static const uint8_t zero[4];

	if (element_truth(value))
		*value = (struct element){.type = BSON_BYTE_INT32, .value = {zero, sizeof(zero)}};
}

enum own_field_end own_field_end(const struct rule *rule, enum own_field field,
				 const struct element *state, struct element *value)
{
	struct bytes before = found_before(state);

	if (field == OWN_FLAG)
		return flag_end(rule, state, before, value);
	if (!before.data)
		return OWN_FIELD_STAYS;
	if (!document_find(before, own_field_key(field), value))
		return OWN_FIELD_GOES;
	if (field == OWN_DOCUMENTS)
		count_no_documents(value);
	return OWN_FIELD_RETURNS;
}

/* As mongod's own types grow: int32, and int64 where that is too small. */
static void write_count(struct buffer *out, const char *name, int64_t count)
{
	if (count <= INT32_MAX)
		writer_int32(out, name, (int32_t)count);
	else
		writer_int64(out, name, count);
}

/* Appends each field that has this end. */
static void write_ends(struct buffer *out, const struct own_fields_back *back,
		       enum own_field_end wanted)
{
	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++) {
		const char *name = own_field_name(back->rule, field);
		struct element value;

		if (!name || (field == OWN_TOTAL && back->total >= 0) ||
		    own_field_end(back->rule, field, back->state, &value) != wanted)
			continue;
		if (wanted == OWN_FIELD_RETURNS)
			writer_renamed(out, name, &value);
		else
			writer_string(out, name, "");
	}
}

void own_fields_write_returning(struct buffer *out, const char *name, const void *context)
{
	const struct own_fields_back *back = context;
	size_t before = out->length, set = writer_open_document(out, name), empty = out->length;

	write_ends(out, back, OWN_FIELD_RETURNS);
	if (back->total >= 0)
		write_count(out, own_field_name(back->rule, OWN_TOTAL), back->total);
	if (back->staying.length > 0)
		writer_document(out, NAME_STATE, back->staying);
	if (out->length == empty)
		out->length = before;
	else
		writer_close(out, set);
}

void own_fields_splice_going(struct buffer *out, size_t *place, const void *context)
{
	(void)place;
	write_ends(out, context, OWN_FIELD_GOES);
}

bool own_total_is_kept(const struct rule *rule, const struct element *state)
{
	struct element kept;

	return own_field_name(rule, OWN_TOTAL) && state->type == BSON_BYTE_DOCUMENT &&
	       document_find(found_before(state), OWN_TOTAL_KEPT, &kept);
}

bool own_field_may_be(enum own_field field, uint8_t type)
{
	switch (type) {
	case BSON_BYTE_NULL:
		return true;
	case BSON_BYTE_INT32:
	case BSON_BYTE_INT64:
	case BSON_BYTE_DOUBLE:
	case BSON_BYTE_DECIMAL:
		return field != OWN_REFERENCE;
	case BSON_BYTE_STRING:
	case BSON_BYTE_OBJECT_ID:
		return field == OWN_REFERENCE || field == OWN_FLAG;
	default:
		return field == OWN_FLAG;
	}
}

bool own_reference_has_text(const struct element *id)
{
	switch (id->type) {
	case BSON_BYTE_STRING:
	case BSON_BYTE_OBJECT_ID:
	case BSON_BYTE_INT32:
	case BSON_BYTE_INT64:
	case BSON_BYTE_DOUBLE:
	case BSON_BYTE_DECIMAL:
	case BSON_BYTE_BOOL:
	case BSON_BYTE_DATE:
		return true;
	default:
		return false;
	}
}

struct bytes own_reference_head(const struct rule *rule)
{
	const char *format = rule->reference.format;

	return (struct bytes){(const uint8_t *)format,
			      (size_t)(strstr(format, RULE_ID_MARK) - format)};
}

struct bytes own_reference_tail(const struct rule *rule)
{
	return bytes_of(strstr(rule->reference.format, RULE_ID_MARK) + strlen(RULE_ID_MARK));
}
