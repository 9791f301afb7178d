/* Tells which filters mongod answers otherwise by an index. */
#include "rules/index_bounds.h"

#include "rules/known_indexes.h"
#include "rules/names.h"
#include "rules/reads.h"
#include "rules/walk.h"

struct traits {
	bool ranges; /* {$gte: MinKey}, {$lte: MaxKey}, {$gt: [[...]]} or {$gte: [[...]]} */
	bool nulls;
};

static bool begins_with_array(const struct element *array)
{
	struct cursor cursor;
	struct element first;

	return array->type == BSON_BYTE_ARRAY && cursor_open(&cursor, array->value) &&
	       cursor_next(&cursor, &first) == CURSOR_ELEMENT && first.type == BSON_BYTE_ARRAY;
}

static bool is_such_range(const struct element *element)
{
	if (element_is(element, "$lte"))
		return element->type == BSON_BYTE_MAX_KEY;
	return (element_is(element, "$gte") &&
		(element->type == BSON_BYTE_MIN_KEY || begins_with_array(element))) ||
	       (element_is(element, "$gt") && begins_with_array(element));
}

static struct traits traits_of(struct bytes filter)
{
	struct traits traits = {0};
	struct element element;
	struct walk walk;
	enum cursor_step step = walk_first(&walk, BSON_BYTE_DOCUMENT, filter, &element);

	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		traits.ranges = traits.ranges || is_such_range(&element);
		traits.nulls = traits.nulls || element.type == BSON_BYTE_NULL;
		if (!walk_within(&walk, &element))
			break;
	}
	return traits;
}

/* What is asked of each index. */
struct question {
	struct traits traits;
	const struct ruled_namespace *namespace;
};

static bool is_answered_otherwise(const void *context, struct bytes index)
{
	const struct question *question = context;
	struct element keys, key;
	struct cursor cursor;

	if (!document_find(index, "key", &keys) || keys.type != BSON_BYTE_DOCUMENT ||
	    reads_of_keys(keys.value, question->namespace).kind != READS_ARRAY ||
	    !cursor_open(&cursor, keys.value))
		return false;
	if (question->traits.ranges)
		return true;
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT)
		if (path_has_position(key.name))
			return true;
	return false;
}

bool index_bounds_differ(struct bytes filter, const struct ruled_namespace *namespace)
{
	struct question question = {traits_of(filter), namespace};

	return (question.traits.ranges || question.traits.nulls) &&
	       known_indexes_any(namespace->indexes, is_answered_otherwise, &question);
}
