/* Where mongod's own find closes its cursor. */
#include "rules/stages/find_end.h"

#include "rules/rule/known_indexes.h"
#include "rules/stages/membership.h"
#include "rules/query/read_options.h"

/* Values whose equality mongod looks up in the index on `_id` without a plan. */
static bool is_exact_value(const struct element *value)
{
	struct cursor cursor;
	struct element first;

	if (value->type != BSON_BYTE_DOCUMENT)
		return membership_is_scalar(value);
	return cursor_open(&cursor, value->value) &&
	       (cursor_next(&cursor, &first) != CURSOR_ELEMENT || first.name.length == 0 ||
		first.name.data[0] != '$');
}

/* mongod's plan IDHACK, which knows that nothing comes behind its one document. */
static bool names_one_by_id(const struct command *command)
{
	static const enum command_field planned[] = {FIELD_HINT, FIELD_MIN, FIELD_MAX,
						     FIELD_COLLATION};
	const struct element *filter = &command->fields[FIELD_FILTER];
	struct cursor cursor;
	struct element id, more;

	for (size_t i = 0; i < ARRAY_LENGTH(planned); i++)
		if (command_has(command, planned[i]))
			return false;
	return filter->type == BSON_BYTE_DOCUMENT && options_number(command, "skip") == 0 &&
	       !document_find(command->body, "showRecordId", &more) &&
	       cursor_open(&cursor, filter->value) && cursor_next(&cursor, &id) == CURSOR_ELEMENT &&
	       element_is(&id, "_id") && is_exact_value(&id) &&
	       cursor_next(&cursor, &more) == CURSOR_END;
}

/* mongod sorts in memory where no index has the order. Such a sort takes the limit into itself, and
 * tells of its end only when it is asked once more. */
static bool sorts_in_memory(const struct command *command, const struct ruled_namespace *namespace)
{
	const struct element *sort = &command->fields[FIELD_SORT];
	struct cursor cursor;
	struct element first, more;

	if (sort->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, sort->value) ||
	    cursor_next(&cursor, &first) != CURSOR_ELEMENT || element_is(&first, "$natural"))
		return false;
	if (element_is(&first, "_id") && cursor_next(&cursor, &more) == CURSOR_END)
		return false;
	return !known_indexes_sort(namespace->indexes, sort->value);
}

static int64_t one_more(int64_t number)
{
	return number < INT64_MAX ? number + 1 : number;
}

int64_t find_end_batch(const struct command *command, const struct ruled_namespace *namespace,
		       int64_t limit, int64_t size)
{
	if (size > 0 && names_one_by_id(command))
		return one_more(size);
	if (limit == 0 || size < limit)
		return size;
	if (size == limit && !options_single_batch(command) && sorts_in_memory(command, namespace))
		return size;
	return one_more(limit);
}
