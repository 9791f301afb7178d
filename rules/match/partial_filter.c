/* Which conditions of a partial filter hold of a document as it is stored, if they hold of the
 * whole. */
#include "rules/match/partial_filter.h"

#include "rules/rule/names.h"
#include "rules/rule/walk.h"

/* {$type: "array"}, {$type: 4}, or a list with one of these. */
static bool names_type(const struct element *type, const char *name, int64_t number)
{
	struct cursor cursor;
	struct element one;
	struct bytes text;
	int64_t value;

	if (type->type == BSON_BYTE_ARRAY && cursor_open(&cursor, type->value)) {
		while (cursor_next(&cursor, &one) == CURSOR_ELEMENT)
			if (one.type != BSON_BYTE_ARRAY && names_type(&one, name, number))
				return true;
		return false;
	}
	if (element_string(type, &text))
		return bytes_are(text, name);
	return element_integer(type, &value) && value == number;
}

/* The condition on the array (or on a document around it) tells that it is there, or is one. */
static bool tells_presence(const struct element *condition, bool array)
{
	struct cursor cursor;
	struct element operation;
	enum cursor_step step;

	if (condition->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, condition->value))
		return false;
	while ((step = cursor_next(&cursor, &operation)) == CURSOR_ELEMENT)
		if (!element_is(&operation, "$exists") &&
		    !(element_is(&operation, "$type") &&
		      names_type(&operation, array ? "array" : "object",
				 array ? BSON_BYTE_ARRAY : BSON_BYTE_DOCUMENT)))
			return false;
	return step == CURSOR_END && condition->value.length > 5;
}

must_check bool partial_condition_holds(const struct element *condition, const char *array)
{
	switch (name_relate(condition->name, array)) {
	case PATH_APART:
		return true;
	case PATH_SAME:
		return tells_presence(condition, true);
	case PATH_ABOVE:
		return tells_presence(condition, false);
	case PATH_BELOW:
		break;
	}
	return false;
}

static bool is_list(const struct element *condition)
{
	return condition->type == BSON_BYTE_ARRAY &&
	       (element_is(condition, "$and") || element_is(condition, "$or"));
}

must_check bool partial_filter_holds(struct bytes filter, const char *array)
{
	struct walk walk;
	struct element element;
	enum cursor_step step = walk_first(&walk, BSON_BYTE_DOCUMENT, filter, &element);

	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		bool enters = walk_in_array(&walk) ? element.type == BSON_BYTE_DOCUMENT
						   : is_list(&element);

		if (enters ? !walk_within(&walk, &element)
			   : walk_in_array(&walk) ||
				     (element.name.length > 0 && element.name.data[0] == '$') ||
				     !partial_condition_holds(&element, array))
			return false;
	}
	return step == CURSOR_END;
}
