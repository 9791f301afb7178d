/* What a whole document of the client's holds: long arrays, our own names. */
#include "rules/rule/names.h"
#include "rules/query/update.h"

bool array_is_long(const struct element *array, const struct rule *rule)
{
	struct cursor cursor;
	struct element element;
	int64_t count = 0;

	if (array->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, array->value))
		return false;
	if (array->value.length > (size_t)rule->max_bytes)
		return true;
	while (count <= rule->threshold && cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		count++;
	return count > rule->threshold;
}

bool document_is_outlier(struct bytes document, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;
		struct element array;

		if (document_find_path(document, rule->array, &array) &&
		    array_is_long(&array, rule))
			return true;
	}
	return false;
}

bool document_names_state(struct bytes document)
{
	struct cursor cursor;
	struct element field;

	if (!cursor_open(&cursor, document))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (name_is_state(field.name))
			return true;
	return false;
}
