/* Says which element a positional projection means. */
#include "rules/stages/positional.h"

#include "rules/query/filter_split.h"
#include "rules/rule/names.h"
#include "rules/reassembly/raised.h"

#include <stdlib.h>

/* ---- conditions that one element satisfies ---- */

/* Equal to an element, or less, and never to an array as a whole. */
static bool is_single(const struct element *value)
{
	return value->type != BSON_BYTE_ARRAY && value->type != BSON_BYTE_UNDEFINED &&
	       value->type != BSON_BYTE_MIN_KEY && value->type != BSON_BYTE_MAX_KEY;
}

static bool all_single(const struct element *list)
{
	struct cursor cursor;
	struct element value;

	if (list->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, list->value))
		return false;
	while (cursor_next(&cursor, &value) == CURSOR_ELEMENT)
		if (!is_single(&value))
			return false;
	return true;
}

/* mongod records no position for a condition that is met because elements are not there, nor for
 * one on the array as a whole. */
static bool operator_silent(const struct element *operation, bool on_array)
{
	return element_is(operation, "$ne") || element_is(operation, "$nin") ||
	       element_is(operation, "$not") || (on_array && element_is(operation, "$size"));
}

static bool operator_single(const struct element *operation, bool on_array)
{
	static const char *const compared[] = {"$eq", "$gt", "$gte", "$lt", "$lte", "$mod"};

	if (element_is(operation, "$in"))
		return all_single(operation);
	if (element_is(operation, "$elemMatch"))
		return on_array;
	if (element_is(operation, "$regex"))
		return true;
	for (size_t i = 0; i < ARRAY_LENGTH(compared); i++)
		if (element_is(operation, compared[i]))
			return is_single(operation) || element_is(operation, "$mod");
	return false;
}

static bool add_condition(struct positional *positional,
			  const struct positional_condition *condition)
{
	if (positional->count == POSITIONAL_MOST)
		return false;
	positional->conditions[positional->count++] = *condition;
	return true;
}

/* Each operator is a condition by itself. */
static bool add_operators(struct positional *positional, const struct element *field, bool on_array)
{
	struct positional_condition condition = {.field = *field};
	struct cursor cursor;
	enum cursor_step step;

	if (document_find(field->value, "$options", &condition.options) &&
	    !document_find(field->value, "$regex", &condition.operation))
		return false;
	if (!cursor_open(&cursor, field->value))
		return false;
	while ((step = cursor_next(&cursor, &condition.operation)) == CURSOR_ELEMENT) {
		if (element_is(&condition.operation, "$options") ||
		    operator_silent(&condition.operation, on_array))
			continue;
		if (!operator_single(&condition.operation, on_array) ||
		    !add_condition(positional, &condition))
			return false;
	}
	return step == CURSOR_END;
}

static bool add_conditions(struct positional *positional, const struct element *field,
			   bool on_array)
{
	struct positional_condition whole = {.field = *field};
	struct cursor cursor;
	struct element operation;

	if (field->type != BSON_BYTE_DOCUMENT)
		return is_single(field) && add_condition(positional, &whole);
	if (!cursor_open(&cursor, field->value))
		return false;
	if (cursor_next(&cursor, &operation) != CURSOR_ELEMENT || operation.name.length == 0 ||
	    operation.name.data[0] != '$')
		return add_condition(positional, &whole); /* equality to a document */
	return add_operators(positional, field, on_array);
}

void positional_splice_condition(struct buffer *out, size_t *place, const void *context)
{
	const struct positional_condition *condition = context;
	bool options = element_is(&condition->operation, "$regex");

	(void)place;
	if (condition->operation.type == 0)
		writer_element(out, &condition->field);
	else
		template_write_fields(out, "{@path: {@verb: @operand, $options: @options}}",
				      fill("path", condition->field.name),
				      fill("verb", condition->operation.name),
				      fill("operand", &condition->operation),
				      fill("options", options ? &condition->options
							      : &(const struct element){0}));
}

/* ---- the filter's conditions ---- */

/* No part is a number, empty or an operator. */
static bool is_plain(struct bytes path)
{
	bool digits = true, begun = false;

	for (size_t i = 0; i <= path.length; i++) {
		if (i == path.length || path.data[i] == '.') {
			if (digits)
				return false; /* or empty */
			digits = true;
			begun = false;
			continue;
		}
		if (!begun && path.data[i] == '$')
			return false;
		begun = true;
		digits = digits && path.data[i] >= '0' && path.data[i] <= '9';
	}
	return true;
}

enum part {
	PART_NONE, /* it can't say which element */
	PART_SAYS,
	PART_MAY, /* where the document has arrays on its way */
	PART_UNCLEAR,
};

static enum part part_of(const struct element *condition, struct bytes path,
			 const struct ruled_namespace *namespace, struct positional *positional)
{
	auto_free char *array = must_strndup((const char *)path.data, path.length);
	enum path_relation relation = path_relate(condition->name, array);

	if (element_is(condition, "$comment") || element_is(condition, "_id") ||
	    element_is(condition, "$nor"))
		return PART_NONE;
	if (!is_plain(condition->name))
		return PART_UNCLEAR;
	if (relation == PATH_SAME || relation == PATH_BELOW)
		return add_conditions(positional, condition, relation == PATH_SAME) ? PART_SAYS
										    : PART_UNCLEAR;
	if (relation != PATH_APART || name_rule(condition->name, namespace))
		return PART_UNCLEAR;
	return PART_MAY;
}

static bool is_ruled(struct bytes path, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++)
		if (bytes_are(path, namespace->targets[i].rule->array))
			return true;
	return false;
}

bool positional_of(const struct element *filter, struct bytes path,
		   const struct ruled_namespace *namespace, struct positional *positional)
{
	enum cursor_step step;
	struct element condition;
	struct walk walk;

	positional->count = 0;
	if (!is_ruled(path, namespace))
		return false;
	if (filter->type != BSON_BYTE_DOCUMENT)
		return filter->type == 0;
	step = filter_first_conjunct(&walk, filter->value, &condition);
	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &condition))
		if (part_of(&condition, path, namespace, positional) == PART_UNCLEAR)
			return false;
	return step == CURSOR_END;
}

/* ---- the stage ---- */

static void write_is_array(struct buffer *tests, struct bytes path)
{
	template_write_document(tests, "{$isArray: '$@path'}", fill("path", path));
}

/* Is what another condition is about an array? */
static void write_others(struct buffer *tests, const struct element *filter, const char *path)
{
	struct element condition;
	enum cursor_step step = CURSOR_END;
	struct walk walk;

	if (filter->type == BSON_BYTE_DOCUMENT)
		step = filter_first_conjunct(&walk, filter->value, &condition);
	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &condition))
		if (is_plain(condition.name) && !element_is(&condition, "_id") &&
		    path_relate(condition.name, path) == PATH_APART)
			write_is_array(tests, condition.name);
}

/* Is what the array's path leads through an array? */
static void write_prefixes(struct buffer *tests, const char *path)
{
	for (const char *dot = strchr(path, '.'); dot; dot = strchr(dot + 1, '.'))
		write_is_array(tests, (struct bytes){(const uint8_t *)path, (size_t)(dot - path)});
}

/* Do the first condition and another one mean other elements? */
static void write_numbers(struct buffer *tests, const char *found, size_t count)
{
	char other[12];

	for (size_t i = 1; i < count; i++)
		template_write_document(tests,
					"{$ne: ['$@found0." POSITIONAL_NUMBER
					"', '$@found@other." POSITIONAL_NUMBER "']}",
					fill("found", found),
					fill("other", writer_index(other, i)));
}

void positional_write(struct buffer *out, size_t *place, const struct element *filter,
		      const char *path, const char *found, size_t count)
{
	auto_buffer struct buffer others = {0}, prefixes = {0}, numbers = {0};

	write_others(&others, filter, path);
	write_prefixes(&prefixes, path);
	write_numbers(&numbers, found, count);
	template_append(
		out, place,
		"{$set: {@found: {$cond: [{$isArray: '$@path'}, "
		"{$cond: [{$or: [{$or: [..@others]}, {$or: [..@prefixes]}, ..@numbers]}, "
		"@unclear, @element]}, '$$REMOVE']}}}",
		fill("found", found), fill("path", path),
		fill_documents("others", buffer_view(&others)),
		fill_documents("prefixes", buffer_view(&prefixes)),
		fill_documents("numbers", buffer_view(&numbers)),
		fill_template("unclear", RAISE(RAISED_UNCLEAR)),
		fill_template(
			"element",
			count > 0 ? "{$ifNull: [{$arrayElemAt: ['$@found0.@path', 0]}, @unclear]}"
				  : RAISE(RAISED_MISSED)));
}
