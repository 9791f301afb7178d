/* Takes a filter apart. */
#include "rules/query/filter_split.h"

#include "protocol/writer.h"
#include "rules/query/filter_words.h"
#include "rules/rule/names.h"
#include "rules/query/reads.h"

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
		if (!walk_within(&walk, &element))
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
		if (wanted == FILTER_REST_ALL || element_is(conjunct, "_id") ||
		    (wanted == FILTER_REST_QUIET && !filter_has_expression(written)))
			++*place;
		else
			out->length = mark;
		return;
	}
	out->length = mark;
	split->reads = true;
	split->alone = split->alone && conjunct_alone(conjunct, namespace);
}

/* {$sampleRate: ...} is an $expr with $rand. */
static bool is_expression(const struct element *condition)
{
	return element_is(condition, "$expr") || element_is(condition, "$sampleRate");
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

		if (!walk_in_array(&walk) && is_expression(&element))
			return true;
		if ((walk_in_array(&walk) ? element.type == BSON_BYTE_DOCUMENT
					  : joins && element.type == BSON_BYTE_ARRAY) &&
		    !walk_into(&walk, element.type, element.value))
			return false;
	}
	return false;
}

/* A condition on a field without a name, or what looks like one in a list. */
static bool names_nothing(const struct walk *walk, const struct element *element)
{
	return element->name.length == 0 && !walk_in_array(walk) &&
	       (walk->depth == 1 || walk->levels[walk->depth - 2].array);
}

/* Of a schema: a name of a field in it, or in its list of required ones. */
static bool schema_names_nothing(const struct walk *walk, const struct element *element)
{
	struct bytes text;

	return (element->name.length == 0 && !walk_in_array(walk)) ||
	       (walk_in_array(walk) && element_string(element, &text) && text.length == 0);
}

static enum filter_obstacle obstacle_of(const struct walk *walk, const struct element *element,
					bool first, bool in_schema)
{
	if (element_is(element, "$where"))
		return FILTER_WHERE;
	if (element_is(element, "$near") || element_is(element, "$nearSphere"))
		return FILTER_NEAR;
	if (first)
		return FILTER_FITS;
	if (element_is(element, "$text"))
		return FILTER_TEXT;
	return names_nothing(walk, element) || (in_schema && schema_names_nothing(walk, element))
		       ? FILTER_NAMELESS
		       : FILTER_FITS;
}

static enum filter_obstacle find_obstacle(struct bytes filter, bool first)
{
	struct walk walk;
	struct element element;
	enum cursor_step step;
	size_t schema = SIZE_MAX; /* the depth at which one stands */

	step = walk_first(&walk, BSON_BYTE_DOCUMENT, filter, &element);
	while (step == CURSOR_ELEMENT) {
		enum filter_obstacle found;

		if (walk.depth <= schema)
			schema = element_is(&element, "$jsonSchema") ? walk.depth : SIZE_MAX;
		found = obstacle_of(&walk, &element, first, walk.depth > schema);
		if (found != FILTER_FITS)
			return found;
		if (!walk_within(&walk, &element))
			return FILTER_UNREADABLE;
		step = walk_next(&walk, &element);
	}
	return step == CURSOR_END ? FILTER_FITS : FILTER_UNREADABLE;
}

enum filter_obstacle filter_obstacle(struct bytes filter, bool first)
{
	enum filter_obstacle found = find_obstacle(filter, first);

	if (found == FILTER_FITS && !first && filter_words_of(filter) == FILTER_WORDS_UNSERVED)
		return FILTER_MASK;
	return found;
}

bool filter_fits_pipeline(struct bytes filter)
{
	return filter_obstacle(filter, false) == FILTER_FITS;
}

bool filter_fits_first(struct bytes filter)
{
	return filter_obstacle(filter, true) == FILTER_FITS;
}

/* An $and of nothing joins none: mongod refuses it. */
static bool joins_conjuncts(const struct element *element)
{
	struct cursor cursor;
	struct element first;

	return element_is(element, "$and") && element->type == BSON_BYTE_ARRAY &&
	       !(cursor_open(&cursor, element->value) &&
		 cursor_next(&cursor, &first) == CURSOR_END);
}

enum cursor_step filter_next_conjunct(struct walk *walk, struct element *conjunct)
{
	enum cursor_step step;

	while ((step = walk_next(walk, conjunct)) == CURSOR_ELEMENT) {
		bool listed = walk_in_array(walk);

		if (!listed && !joins_conjuncts(conjunct))
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

/* A plan by the index of _id: mongod looks at the other conditions by their paths' order, and that
 * of $expr is empty. A plan that scans has it last. */
static bool names_id(struct bytes filter)
{
	struct walk walk;
	struct element element;
	enum cursor_step step;

	step = filter_first_conjunct(&walk, filter, &element);
	while (step == CURSOR_ELEMENT && !element_is(&element, "_id"))
		step = filter_next_conjunct(&walk, &element);
	return step == CURSOR_ELEMENT;
}

enum filter_rest filter_rest_before_expression(struct bytes filter)
{
	if (!filter_has_expression(filter))
		return FILTER_REST_ALL;
	return names_id(filter) ? FILTER_REST_ID : FILTER_REST_QUIET;
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

bool filter_of_match(const struct element *stage, struct element *filter)
{
	return element_only_field(stage, filter) && element_is(filter, "$match") &&
	       filter->type == BSON_BYTE_DOCUMENT;
}

size_t filter_join_matches(struct buffer *out, const struct element *first, struct cursor *behind,
			   struct element *filter)
{
	size_t document = writer_open(out), list = writer_open_array(out, "$and"), count = 0;
	struct cursor next = *behind;
	struct element stage = *first, own;
	enum cursor_step step = CURSOR_ELEMENT;
	char name[12];

	while (step == CURSOR_ELEMENT && filter_of_match(&stage, &own) &&
	       filter_fits_pipeline(own.value)) {
		*filter = own;
		writer_document(out, writer_index(name, count++), own.value);
		*behind = next;
		step = cursor_next(&next, &stage);
	}
	writer_close(out, list);
	writer_close(out, document);
	if (count > 1)
		filter->value = (struct bytes){out->data + document, out->length - document};
	return count;
}

/* What mongod looks at first, by a plan on _id: what has no path (a choice, a negation), what may
 * fail, and the rest. */
enum turn { TURN_PATHLESS, TURN_EXPRESSION, TURN_REST, TURN_COUNT };

static bool negates(const struct element *operator)
{
	return element_is(operator, "$not") || element_is(operator, "$ne") ||
	       element_is(operator, "$nin") ||
	       (element_is(operator, "$exists") && !element_truth(operator));
}

static enum turn turn_of(const struct element *condition)
{
	struct element operator;

	if (is_expression(condition))
		return TURN_EXPRESSION;
	return (condition->name.length > 0 && condition->name.data[0] == '$') ||
			       (element_only_field(condition, &operator) && negates(&operator))
		       ? TURN_PATHLESS
		       : TURN_REST;
}

/* Several conditions are one conjunction. */
static enum turn turn_of_choice(const struct element *choice)
{
	struct element condition;

	return element_only_field(choice, &condition) ? turn_of(&condition) : TURN_PATHLESS;
}

static void write_choices(struct buffer *out, size_t *place, struct bytes choices, enum turn turn)
{
	struct cursor cursor;
	struct element each;
	char name[12];

	if (!cursor_open(&cursor, choices))
		return;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (turn_of_choice(&each) == turn)
			writer_renamed(out, writer_index(name, (*place)++), &each);
}

/* A choice has its conditions in such an order, too. */
static void write_condition(struct buffer *out, const struct element *condition,
			    const enum turn *order)
{
	size_t list, place = 0;

	if (!element_is(condition, "$or") || condition->type != BSON_BYTE_ARRAY) {
		writer_element(out, condition);
		return;
	}
	list = writer_open_array(out, "$or");
	for (size_t i = 0; i < TURN_COUNT; i++)
		write_choices(out, &place, condition->value, order[i]);
	writer_close(out, list);
}

/* Of a field that no document has. */
static void write_never(struct buffer *out, bool there)
{
	size_t condition = writer_open_document(out, "_spill./never");

	writer_bool(out, "$exists", there);
	writer_close(out, condition);
}

/* {$and: [{$expr: ...}, <always true>]}: mongod puts what such a conjunction in another one holds
 * behind all else, in turn; among it is what several operators on one path come to. */
static void write_last(struct buffer *out, const struct element *expression)
{
	size_t list = writer_open_array(out, "$and"), each = writer_open_document(out, "0");

	writer_element(out, expression);
	writer_close(out, each);
	each = writer_open_document(out, "1");
	write_never(out, false);
	writer_close(out, each);
	writer_close(out, list);
}

static bool write_turn(struct buffer *out, size_t *place, struct bytes filter,
		       const enum turn *order, enum turn turn)
{
	struct walk walk;
	struct element element;
	enum cursor_step step;
	size_t document;
	char name[12];

	step = filter_first_conjunct(&walk, filter, &element);
	for (; step == CURSOR_ELEMENT; step = filter_next_conjunct(&walk, &element)) {
		if (turn_of(&element) != turn)
			continue;
		document = writer_open_document(out, writer_index(name, (*place)++));
		if (turn == TURN_EXPRESSION && order[TURN_COUNT - 1] == turn)
			write_last(out, &element);
		else
			write_condition(out, &element, order);
		writer_close(out, document);
	}
	return step == CURSOR_END;
}

/* In the order of a query's plan. False where the filter can't be gone through. */
static bool write_sorted(struct buffer *out, const char *index, struct bytes filter)
{
	static const enum turn scan[] = {TURN_REST, TURN_PATHLESS, TURN_EXPRESSION};
	static const enum turn by_id[] = {TURN_PATHLESS, TURN_EXPRESSION, TURN_REST};
	const enum turn *order = names_id(filter) ? by_id : scan;
	size_t place = 0, document = writer_open_document(out, index);
	size_t all = writer_open_array(out, "$and");
	bool whole = true;

	for (size_t i = 0; whole && i < TURN_COUNT; i++)
		whole = write_turn(out, &place, filter, order, order[i]);
	writer_close(out, all);
	writer_close(out, document);
	return whole;
}

/* mongod takes a conjunction apart, to look at what it can before other stages; a choice it leaves
 * in one piece. */
static void write_in_order(struct buffer *out, struct bytes filter, enum filter_at at)
{
	size_t match = writer_open_document(out, "$match"), choice = writer_open_array(out, "$or");
	size_t mark = out->length, never;

	if (at == FILTER_AT_LATER || !write_sorted(out, "0", filter)) {
		out->length = mark;
		writer_document(out, "0", filter);
	}
	never = writer_open_document(out, "1");
	write_never(out, true);
	writer_close(out, never);
	writer_close(out, choice);
	writer_close(out, match);
}

static void write_match(struct buffer *out, size_t *place, struct bytes filter, enum filter_at at)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));

	if (filter_has_expression(filter))
		write_in_order(out, filter, at);
	else
		writer_document(out, "$match", filter);
	writer_close(out, stage);
}

struct bytes filter_as_query(struct buffer *scratch, struct bytes filter)
{
	enum filter_words words = filter_words_of(filter);
	struct element written = {.value = filter};
	size_t start;

	if (words != FILTER_WORDS_WIDENED && words != FILTER_WORDS_SPREAD)
		return filter;
	start = writer_open(scratch);
	filter_words_write(scratch, "filter", filter);
	writer_close(scratch, start);
	require(document_find(buffer_view(scratch), "filter", &written)); /* ours */
	return written.value;
}

struct bytes filter_readable(struct buffer *scratch, struct bytes filter)
{
	return filter_words_of(filter) == FILTER_WORDS_SPREAD ? filter_as_query(scratch, filter)
							      : filter;
}

void filter_write_match(struct buffer *out, size_t *place, struct bytes filter, enum filter_at at)
{
	auto_buffer struct buffer scratch = {0};

	write_match(out, place, at == FILTER_AT_START ? filter_as_query(&scratch, filter) : filter,
		    at);
}
