/* What an overflow document holds of an array. */
#include "rules/rule/overflow_document.h"

#include "rules/rule/generation.h"
#include "rules/rule/names.h"

#define COPIED_MAX (1 << 20) /* bytes of an element that is stored twice */

const char *overflow_order_path(const struct rule *rule)
{
	if (rule->overflow.layout == RULE_ELEMENTS)
		return NAME_STATE ".p";
	return rule->overflow.batch_field ? rule->overflow.batch_field : NAME_STATE ".i";
}

bool overflow_is_unique_key(const struct rule *rule, struct bytes keys)
{
	const char *const names[] = {rule->overflow.link, overflow_order_path(rule)};
	struct cursor cursor;
	struct element element;
	int64_t way;

	if (!cursor_open(&cursor, keys))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (cursor_next(&cursor, &element) != CURSOR_ELEMENT ||
		    !element_is(&element, names[i]) || !element_integer(&element, &way) || way != 1)
			return false;
	return cursor_next(&cursor, &element) == CURSOR_END;
}

bool overflow_names_ours(const struct rule *rule, const char *path)
{
	const char *const ours[] = {"_id", NAME_STATE, rule->overflow.link};
	size_t length = strcspn(path, ".");

	for (size_t i = 0; i < ARRAY_LENGTH(ours); i++)
		if (strlen(ours[i]) == length && memcmp(ours[i], path, length) == 0)
			return true;
	return false;
}

must_check bool overflow_path(const struct rule *rule, const char *rest, struct buffer *out)
{
	if (rule->overflow.layout == RULE_BATCHES) {
		buffer_append(out, rule->overflow.array, strlen(rule->overflow.array));
	} else {
		if (*rest == '\0')
			return false;
		if (overflow_names_ours(rule, ++rest))
			buffer_append(out, NAME_STATE ".v.", strlen(NAME_STATE ".v."));
	}
	buffer_append(out, rest, strlen(rest) + 1);
	return true;
}

static bool is_ours(const struct rule *rule, const struct element *field)
{
	return element_is(field, "_id") || element_is(field, NAME_STATE) ||
	       element_is(field, rule->overflow.link);
}

/* mongod writes another time in the place of this one where it stands on the top level. */
static bool is_zero_timestamp(const struct element *field)
{
	static const uint8_t zero[8];

	return field->type == BSON_BYTE_TIMESTAMP && memcmp(field->value.data, zero, 8) == 0;
}

/* A name that mongod may take for something else than a field's, on the top level: a sort of an
 * array by `_spill.p` finds a field of just this name first. */
static bool is_special(const struct element *field)
{
	return field->name.length == 0 || field->name.data[0] == '$' ||
	       memchr(field->name.data, '.', field->name.length);
}

bool overflow_write_fields(const struct rule *rule, const struct element *element,
			   struct buffer *out)
{
	size_t before = out->length;
	struct cursor cursor;
	struct element field;
	enum cursor_step step;
	bool whole = false;

	if (element->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, element->value))
		return true;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT) {
		bool stands = !is_ours(rule, &field) && !is_special(&field);

		whole = whole || !stands || is_zero_timestamp(&field);
		if (stands)
			writer_element(out, &field);
	}
	if (step == CURSOR_END && (!whole || element->value.length <= COPIED_MAX))
		return whole;
	out->length = before;
	return true;
}

must_check bool overflow_write_own(const struct rule *rule, struct bytes document,
				   struct buffer *out)
{
	size_t start = writer_open(out);
	struct cursor cursor;
	struct element field;
	enum cursor_step step;

	if (!cursor_open(&cursor, document))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT)
		if (!is_ours(rule, &field))
			writer_element(out, &field);
	writer_close(out, start);
	return step == CURSOR_END;
}

/* [<the element>] */
static bool write_single(const struct rule *rule, struct bytes document, struct buffer *out)
{
	size_t start;
	struct element whole, own = {.type = BSON_BYTE_DOCUMENT};

	if (document_find_path(document, NAME_STATE ".i", &whole))
		return false;
	out->length = 0;
	start = writer_open(out);
	if (document_find_path(document, NAME_STATE ".v", &whole)) {
		writer_renamed(out, "0", &whole);
	} else {
		writer_renamed(out, "0", &own);
		if (!overflow_write_own(rule, document, out))
			return false;
	}
	writer_close(out, start);
	return true;
}

must_check bool overflow_elements(const struct rule *rule, struct bytes document,
				  struct buffer *scratch, struct bytes *array)
{
	struct element element;

	if (rule->overflow.layout == RULE_ELEMENTS) {
		if (!write_single(rule, document, scratch))
			return false;
		*array = buffer_view(scratch);
		return true;
	}
	if (!document_find(document, rule->overflow.array, &element) ||
	    element.type != BSON_BYTE_ARRAY)
		return false;
	*array = element.value;
	return true;
}

struct bytes overflow_generation(struct bytes document)
{
	struct bytes generation = {0};

	return generation_find(document, "_spill.g", &generation) ? generation : (struct bytes){0};
}

#define NUMBER_MOST (INT64_C(1) << 62) /* any more is no number of a batch's */

must_check bool overflow_place(const struct rule *rule, struct bytes document, int64_t *number,
			       int64_t *position)
{
	if (!document_find_integer(document, overflow_order_path(rule), number) ||
	    *number > NUMBER_MOST || !document_find_integer(document, NAME_STATE ".p", position))
		return false;
	*number += rule->overflow.layout == RULE_ELEMENTS;
	return true;
}
