/* Tells which filters mongod answers otherwise by an index. */
#include "rules/query/index_bounds.h"

#include "rules/rule/known_indexes.h"
#include "rules/rule/names.h"
#include "rules/query/reads.h"
#include "rules/rule/walk.h"

struct traits {
	bool ranges; /* {$gte: MinKey}, {$lte: MaxKey}, {$gt: [[...]]} or {$gte: [[...]]} */
	bool nulls;
	bool inverted; /* a negated condition whose bounds mongod can't invert: it fails */
	bool symbols;  /* an index has the keys of another collation for them than for texts */
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

/* ---- conditions that mongod's index bounds can't invert ---- */

/* {$gt: <a symbol>} and the like; $geoWithin and $geoIntersects. */
static bool has_no_inverse(const struct element *element)
{
	static const char *const ranges[] = {"$gt", "$gte", "$lt", "$lte"},
				 *const shapes[] = {"$geoWithin", "$within", "$geoIntersects"};

	for (size_t i = 0; i < ARRAY_LENGTH(shapes); i++)
		if (element_is(element, shapes[i]))
			return true;
	if (element->type != BSON_BYTE_SYMBOL && element->type != BSON_BYTE_DB_POINTER)
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(ranges); i++)
		if (element_is(element, ranges[i]))
			return true;
	return false;
}

/* ---- the filter ---- */

/* What holds for all that is inside a document or an array of the filter. */
struct inside {
	bool negated;
	bool of_array; /* conditions on a ruled array, or below it */
};

static struct inside inside_of(struct inside around, const struct element *element,
			       const struct ruled_namespace *namespace)
{
	around.negated =
		around.negated || element_is(element, "$not") || element_is(element, "$nor");
	around.of_array =
		around.of_array || (element->name.length > 0 && element->name.data[0] != '$' &&
				    name_rule(element->name, namespace));
	return around;
}

static void take_traits(struct traits *traits, const struct element *element, struct inside inside)
{
	traits->ranges = traits->ranges || is_such_range(element);
	traits->nulls = traits->nulls || element->type == BSON_BYTE_NULL;
	traits->inverted =
		traits->inverted || (inside.negated && inside.of_array && has_no_inverse(element));
	traits->symbols = traits->symbols || (inside.of_array && element->type == BSON_BYTE_SYMBOL);
}

static struct traits traits_of(struct bytes filter, const struct ruled_namespace *namespace)
{
	struct inside levels[CURSOR_MAX_DEPTH + 1] = {0};
	struct traits traits = {0};
	struct element element;
	struct walk walk;
	enum cursor_step step = walk_first(&walk, BSON_BYTE_DOCUMENT, filter, &element);

	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		size_t depth = walk.depth;
		struct inside here = levels[depth];

		if (!walk_in_array(&walk))
			here = inside_of(here, &element, namespace);
		take_traits(&traits, &element, here);
		if (!walk_within(&walk, &element))
			break;
		if (walk.depth > depth)
			levels[walk.depth] = here;
	}
	return traits;
}

/* ---- the indexes ---- */

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
	if (question->traits.ranges || question->traits.inverted || question->traits.symbols)
		return true;
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT)
		if (path_has_position(key.name))
			return true;
	return false;
}

static bool has_collation(const void *context, struct bytes index)
{
	struct element collation;

	(void)context;
	return document_find(index, "collation", &collation);
}

bool index_bounds_differ(struct bytes filter, const struct element *collation,
			 const struct ruled_namespace *namespace)
{
	struct question question = {traits_of(filter, namespace), namespace};
	struct traits *traits = &question.traits;

	/* The index on _id has the collection's collation. */
	traits->symbols =
		traits->symbols && (collation_given(collation) == COLLATION_OTHER ||
				    known_indexes_any(namespace->indexes, has_collation, NULL));
	return (traits->ranges || traits->nulls || traits->inverted || traits->symbols) &&
	       known_indexes_any(namespace->indexes, is_answered_otherwise, &question);
}
