/* Whether a batch passes as the server sent it: most do, and this is all that is looked at then. */
#include "rules/merge/merge.h"
#include "rules/rule/names.h"

/* Names that clients don't see, beside the state's. */
struct hidden_names {
	struct bytes names[4 * NAME_FIELDS];
	size_t count;
};

/* False where they are too many: then what comes is looked at more closely. */
static bool list_hidden(struct hidden_names *list, const struct ruled_namespace *namespace)
{
	list->count = 0;
	if (namespace->target_count * NAME_FIELDS > ARRAY_LENGTH(list->names))
		return false;
	for (size_t i = 0; i < namespace->target_count; i++) {
		struct name_hidden hidden = name_hidden(namespace->targets[i].rule);

		for (size_t j = 0; j < NAME_FIELDS; j++)
			if (hidden.fields[j])
				list->names[list->count++] = bytes_of(hidden.fields[j]);
	}
	return true;
}

static bool is_ours(const struct hidden_names *list, struct bytes name)
{
	if (bytes_begin_with(name, NAME_STATE))
		return true;
	for (size_t i = 0; i < list->count; i++)
		if (bytes_equal(name, list->names[i]))
			return true;
	return false;
}

static bool document_untouched(const struct hidden_names *list, struct bytes document)
{
	struct cursor cursor;
	struct element field;
	enum cursor_step step;

	if (!cursor_open(&cursor, document))
		return false;
	while ((step = cursor_next(&cursor, &field)) == CURSOR_ELEMENT)
		if (is_ours(list, field.name))
			return false;
	return step == CURSOR_END;
}

bool merge_untouched(const struct ruled_namespace *namespace, struct bytes batch)
{
	struct hidden_names hidden;
	struct cursor cursor;
	struct element document;
	enum cursor_step step;

	if (!list_hidden(&hidden, namespace) || !cursor_open(&cursor, batch))
		return false;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT)
		if (document.type != BSON_BYTE_DOCUMENT ||
		    !document_untouched(&hidden, document.value))
			return false;
	return step == CURSOR_END;
}
