/* Takes a filter apart. */
#include "rules/filter_split.h"

#include "protocol/writer.h"
#include "rules/names.h"
#include "rules/reads.h"

#include <stdlib.h>

/* The path is a ruled array, or lies in one. */
static bool in_array(struct bytes path, const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++) {
		enum path_relation relation = name_relate(path, namespace->targets[i].rule->array);

		if (relation == PATH_SAME || relation == PATH_BELOW)
			return true;
	}
	return false;
}

/* Conditions joined by $and, $or and $nor, each on an array: `value` is the joining array. */
static bool list_alone(struct bytes value, const struct ruled_namespace *namespace)
{
	struct walk walk;
	struct element element;
	enum cursor_step step;

	step = walk_first(&walk, BSON_BYTE_ARRAY, value, &element);
	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		bool joins = !walk_in_array(&walk) &&
			     (element_is(&element, "$and") || element_is(&element, "$or") ||
			      element_is(&element, "$nor"));

		if (joins || walk_in_array(&walk)) {
			if (element.type != (joins ? BSON_BYTE_ARRAY : BSON_BYTE_DOCUMENT) ||
			    !walk_into(&walk, element.type, element.value))
				return false;
		} else if (!in_array(element.name, namespace)) {
			return false;
		}
	}
	return step == CURSOR_END;
}

/* A text in an expression: "$path", a variable, or itself. */
static bool text_alone(const struct element *element, const struct ruled_namespace *namespace)
{
	struct bytes text;

	if (!element_string(element, &text) || text.length < 2 || text.data[0] != '$')
		return true;
	if (text.data[1] == '$')
		return bytes_are(text, "$$this") || bytes_are(text, "$$value");
	return in_array((struct bytes){text.data + 1, text.length - 1}, namespace);
}

static bool expression_alone(const struct element *expression,
			     const struct ruled_namespace *namespace)
{
	struct walk walk;
	struct element element;
	enum cursor_step step;

	if (expression->type != BSON_BYTE_DOCUMENT || reads_whole_document(expression, namespace))
		return false;
	step = walk_first(&walk, expression->type, expression->value, &element);
	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		if (!text_alone(&element, namespace) || element_is(&element, "$literal") ||
		    element_is(&element, "$rand") || element_is(&element, "$meta"))
			return false;
		if ((element.type == BSON_BYTE_DOCUMENT || element.type == BSON_BYTE_ARRAY) &&
		    !walk_into(&walk, element.type, element.value))
			return false;
	}
	return step == CURSOR_END;
}

static bool conjunct_alone(const struct element *conjunct, const struct ruled_namespace *namespace)
{
	if (conjunct->name.length == 0 || conjunct->name.data[0] != '$')
		return in_array(conjunct->name, namespace);
	if (element_is(conjunct, "$expr"))
		return expression_alone(conjunct, namespace);
	return (element_is(conjunct, "$or") || element_is(conjunct, "$nor")) &&
	       conjunct->type == BSON_BYTE_ARRAY && list_alone(conjunct->value, namespace);
}

/* Appends the conjunct, and takes it back where it reads an array or is not wanted. */
static void take_conjunct(struct buffer *out, size_t *place, const struct element *conjunct,
			  const struct ruled_namespace *namespace, enum filter_rest wanted,
			  struct filter_split *split)
{
	size_t mark = out->length, document;
	struct bytes written;
	char name[12];

	document = writer_open_document(out, writer_index(name, *place));
	writer_element(out, conjunct);
	writer_close(out, document);
	written = (struct bytes){out->data + document, out->length - document};
	if (reads_of_filter(written, namespace).kind == READS_NOTHING) {
		if (wanted == FILTER_REST_QUIET && filter_has_expression(written))
			out->length = mark;
		else
			++*place;
		return;
	}
	out->length = mark;
	split->reads = true;
	split->alone = split->alone && conjunct_alone(conjunct, namespace);
}

bool filter_has_expression(struct bytes filter)
{
	struct walk walk;
	struct element element;
	enum cursor_step step;

	step = walk_first(&walk, BSON_BYTE_DOCUMENT, filter, &element);
	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		bool joins = element_is(&element, "$and") || element_is(&element, "$or") ||
			     element_is(&element, "$nor");

		if (!walk_in_array(&walk) && element_is(&element, "$expr"))
			return true;
		if ((walk_in_array(&walk) ? element.type == BSON_BYTE_DOCUMENT
					  : joins && element.type == BSON_BYTE_ARRAY) &&
		    !walk_into(&walk, element.type, element.value))
			return false;
	}
	return false;
}

bool filter_fits_pipeline(struct bytes filter)
{
	static const char *const others[] = {"$where", "$text", "$near", "$nearSphere"};
	struct walk walk;
	struct element element;
	enum cursor_step step;

	step = walk_first(&walk, BSON_BYTE_DOCUMENT, filter, &element);
	while (step == CURSOR_ELEMENT) {
		for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
			if (element_is(&element, others[i]))
				return false;
		if ((element.type == BSON_BYTE_DOCUMENT || element.type == BSON_BYTE_ARRAY) &&
		    !walk_into(&walk, element.type, element.value))
			return false;
		step = walk_next(&walk, &element);
	}
	return step == CURSOR_END;
}

enum cursor_step filter_next_conjunct(struct walk *walk, struct element *conjunct)
{
	enum cursor_step step;

	while ((step = walk_next(walk, conjunct)) == CURSOR_ELEMENT) {
		bool listed = walk_in_array(walk);

		if (!listed && !(element_is(conjunct, "$and") && conjunct->type == BSON_BYTE_ARRAY))
			return step;
		if ((listed && conjunct->type != BSON_BYTE_DOCUMENT) ||
		    !walk_into(walk, conjunct->type, conjunct->value))
			return CURSOR_INVALID;
	}
	return step;
}

enum cursor_step filter_first_conjunct(struct walk *walk, struct bytes filter,
				       struct element *conjunct)
{
	walk_start(walk);
	return walk_into(walk, BSON_BYTE_DOCUMENT, filter) ? filter_next_conjunct(walk, conjunct)
							   : CURSOR_INVALID;
}

struct filter_split filter_split_write(struct buffer *out, size_t *place, struct bytes filter,
				       const struct ruled_namespace *namespace,
				       enum filter_rest wanted)
{
	struct filter_split split = {.alone = true};
	struct walk walk;
	struct element element;
	enum cursor_step step;

	step = filter_first_conjunct(&walk, filter, &element);
	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &element))
		take_conjunct(out, place, &element, namespace, wanted, &split);
	if (step != CURSOR_END)
		split = (struct filter_split){.reads = true};
	return split;
}
