/* Judges what a validator sees of a ruled array: through its conditions, JSON schemas and
 * expressions. */
#include "rules/match/validator.h"

#include "rules/match/partial_filter.h"
#include "rules/query/reads.h"
#include "rules/rule/walk.h"

/* What the elements of a level are. */
enum place {
	PLACE_CONDITIONS,  /* of a filter, by fields */
	PLACE_SCHEMA,      /* keywords about the value from which `rest` leads to the array */
	PLACE_PROPERTIES,  /* schemas of its fields */
	PLACE_DEPENDENTS,  /* schemas of itself, by fields */
	PLACE_EXPRESSIONS, /* all of them, or one of them, must hold */
};

struct level {
	enum place place;
	const char *rest; /* of the array's path; "": the value is the array itself */
	bool negated;
	bool joined; /* of several conditions or schemas, by $and, allOf and the like */
};

struct judging {
	const struct rule *rule;
	struct ruled_namespace namespace; /* of this rule alone, all of its fields shown */
	enum validator_sees sees;
	struct walk walk;
	struct level levels[CURSOR_MAX_DEPTH + 1]; /* by the walk's depth */
};

static void see(struct judging *judging, enum validator_sees sees)
{
	if (judging->sees == VALIDATOR_SEES_WHOLE)
		judging->sees = sees;
}

static bool is_one_of(const struct element *element, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (element_is(element, names[i]))
			return true;
	return false;
}
#define IS_ONE_OF(element, names) is_one_of(element, names, ARRAY_LENGTH(names))

/* The elements of what comes are those of `level`; a document in a list is of the list's. */
static void enter(struct judging *judging, const struct element *element, struct level level)
{
	size_t depth = judging->walk.depth;

	if (!walk_within(&judging->walk, element)) {
		see(judging, VALIDATOR_SEES_DOCUMENTS);
		judging->walk.depth = 0;
		return;
	}
	if (judging->walk.depth > depth)
		judging->levels[judging->walk.depth] = level;
}

/* ---- expressions ---- */

static struct element only_argument(const struct element *argument)
{
	struct cursor cursor;
	struct element only, more;

	if (argument->type == BSON_BYTE_ARRAY && cursor_open(&cursor, argument->value) &&
	    cursor_next(&cursor, &only) == CURSOR_ELEMENT &&
	    cursor_next(&cursor, &more) == CURSOR_END)
		return only;
	return *argument;
}

/* {$isArray: "$f"}, {$type: "$f"}: a path that is no document. */
static bool is_of_path(const struct element *expression, const char *operation)
{
	struct element field, argument;
	struct bytes text;

	if (!element_only_field(expression, &field) || !element_is(&field, operation))
		return false;
	argument = only_argument(&field);
	return element_string(&argument, &text) && text.length > 1 && text.data[0] == '$' &&
	       text.data[1] != '$';
}

static bool is_plain_value(const struct element *value)
{
	struct bytes text;

	return value->type != BSON_BYTE_DOCUMENT && value->type != BSON_BYTE_ARRAY &&
	       !(element_string(value, &text) && text.length > 0 && text.data[0] == '$');
}

/* The two arguments of the operator. */
static bool two_arguments(const struct element *operation, struct element *first,
			  struct element *second)
{
	struct cursor cursor;
	struct element more;

	return operation->type == BSON_BYTE_ARRAY && cursor_open(&cursor, operation->value) &&
	       cursor_next(&cursor, first) == CURSOR_ELEMENT &&
	       cursor_next(&cursor, second) == CURSOR_ELEMENT &&
	       cursor_next(&cursor, &more) == CURSOR_END;
}

/* The array, or what holds it, by its type alone. A path below the array has the types of its
 * elements. */
static bool tells_type(const struct judging *judging, const struct element *expression)
{
	struct element field, first, second, argument;
	struct bytes text;
	bool compares = element_only_field(expression, &field) &&
			(element_is(&field, "$eq") || element_is(&field, "$ne")) &&
			two_arguments(&field, &first, &second) && is_plain_value(&second);
	const struct element *asked = compares ? &first : expression;

	if (!(compares && is_of_path(asked, "$type")) && !is_of_path(asked, "$isArray"))
		return false;
	if (!element_only_field(asked, &field))
		return false;
	argument = only_argument(&field);
	return element_string(&argument, &text) &&
	       path_covers((struct bytes){text.data + 1, text.length - 1}, judging->rule->array);
}

static bool is_size_of_all(const struct element *expression)
{
	struct element field;
	struct bytes text;

	return element_only_field(expression, &field) && element_is(&field, "$bsonSize") &&
	       element_string(&field, &text) && bytes_are(text, "$$ROOT");
}

/* {$lte: [{$bsonSize: "$$ROOT"}, 40000]} */
static bool is_fence(const struct element *expression)
{
	static const char *const most[] = {"$lt", "$lte"}, *const least[] = {"$gt", "$gte"};
	struct element field, first, second;

	if (!element_only_field(expression, &field) || !two_arguments(&field, &first, &second))
		return false;
	return (IS_ONE_OF(&field, most) && is_size_of_all(&first) && is_plain_value(&second)) ||
	       (IS_ONE_OF(&field, least) && is_plain_value(&first) && is_size_of_all(&second));
}

/* Names the document as a whole. */
static bool names_document(const struct element *expression)
{
	struct bytes text;
	struct walk walk;
	struct element element = *expression;
	enum cursor_step step = CURSOR_ELEMENT;

	walk_start(&walk);
	while (step == CURSOR_ELEMENT) {
		if (element_is(&element, "$function") ||
		    (element_string(&element, &text) &&
		     (bytes_begin_with(text, "$$ROOT") || bytes_begin_with(text, "$$CURRENT"))))
			return true;
		if (!walk_within(&walk, &element))
			return true;
		step = walk_next(&walk, &element);
	}
	return step != CURSOR_END;
}

static void judge_expression(struct judging *judging, const struct element *expression,
			     bool negated)
{
	static const char *const lists[] = {"$and", "$or"};
	struct element field;

	if (element_only_field(expression, &field) && IS_ONE_OF(&field, lists) &&
	    field.type == BSON_BYTE_ARRAY) {
		enter(judging, &field,
		      (struct level){.place = PLACE_EXPRESSIONS, .negated = negated});
		return;
	}
	if (tells_type(judging, expression) || (!negated && is_fence(expression)))
		return;
	switch (reads_of_expression(expression, &judging->namespace).kind) {
	case READS_NOTHING:
	case READS_RESERVED: /* others judge that */
		return;
	case READS_ARRAY:
		see(judging,
		    names_document(expression) ? VALIDATOR_SEES_DOCUMENTS : VALIDATOR_SEES_PART);
		return;
	case READS_BROKEN:
		see(judging, VALIDATOR_SEES_DOCUMENTS);
		return;
	}
}

/* ---- JSON schemas ---- */

/* What says nothing of an array or a document but its type, or nothing of these at all. */
static bool is_plain_keyword(const struct element *keyword)
{
	static const char *const plain[] = {
		"bsonType",  "type",       "title",   "description",      "required",
		"minLength", "maxLength",  "pattern", "exclusiveMinimum", "exclusiveMaximum",
		"minimum",   "multipleOf", "maximum", "minProperties",    "maxProperties"};

	return IS_ONE_OF(keyword, plain);
}

/* Of the array itself nothing in a document's keywords counts. */
static bool passes_array(const struct element *keyword)
{
	static const char *const of_documents[] = {"properties", "additionalProperties",
						   "patternProperties", "dependencies"};

	return IS_ONE_OF(keyword, of_documents);
}

static bool is_false_or_true(const struct element *keyword)
{
	return element_is(keyword, "additionalProperties") && keyword->type == BSON_BYTE_BOOL;
}

/* Of the document as a whole: which fields it has, or how many. */
static bool judges_fields(const struct element *keyword)
{
	static const char *const counting[] = {"minProperties", "maxProperties",
					       "patternProperties"};

	return IS_ONE_OF(keyword, counting) ||
	       (is_false_or_true(keyword) && !element_truth(keyword));
}

static void judge_keyword(struct judging *judging, const struct element *keyword,
			  struct level level)
{
	static const char *const joining[] = {"allOf", "anyOf", "oneOf", "not"};
	bool array = level.rest[0] == '\0', root = level.rest == judging->rule->array;

	if (root && judges_fields(keyword)) {
		if (level.joined) /* else the caller has a closer look */
			see(judging, VALIDATOR_SEES_FIELDS);
		return;
	}
	if (is_plain_keyword(keyword) || is_false_or_true(keyword) ||
	    (array && passes_array(keyword)))
		return;
	if (IS_ONE_OF(keyword, joining)) {
		level.joined = true;
		enter(judging, keyword, level);
	} else if (!array && element_is(keyword, "properties")) {
		level.place = PLACE_PROPERTIES;
		enter(judging, keyword, level);
	} else if (!array && element_is(keyword, "dependencies")) {
		level.place = PLACE_DEPENDENTS;
		enter(judging, keyword, level);
	} else {
		see(judging, VALIDATOR_SEES_PART);
	}
}

/* The field is on the way to the array: the schema is of what it holds. */
static void judge_property(struct judging *judging, const struct element *property,
			   struct level level)
{
	size_t length = strcspn(level.rest, ".");

	if (path_relate(property->name, level.rest) == PATH_APART)
		return;
	if (property->name.length != length || property->type != BSON_BYTE_DOCUMENT) {
		see(judging, VALIDATOR_SEES_PART);
		return;
	}
	level.place = PLACE_SCHEMA;
	level.rest += length + (level.rest[length] == '.');
	enter(judging, property, level);
}

/* ---- conditions ---- */

static void judge_condition(struct judging *judging, const struct element *condition,
			    struct level level)
{
	static const char *const lists[] = {"$and", "$or", "$nor"};

	if (condition->name.length == 0 || condition->name.data[0] != '$') {
		if (!partial_condition_holds(condition, judging->rule->array))
			see(judging, VALIDATOR_SEES_PART);
	} else if (IS_ONE_OF(condition, lists) && condition->type == BSON_BYTE_ARRAY) {
		level.negated = level.negated || element_is(condition, "$nor");
		level.joined = true;
		enter(judging, condition, level);
	} else if (element_is(condition, "$jsonSchema") && condition->type == BSON_BYTE_DOCUMENT) {
		level.place = PLACE_SCHEMA;
		level.rest = judging->rule->array;
		enter(judging, condition, level);
	} else if (element_is(condition, "$expr")) {
		judge_expression(judging, condition, level.negated);
	} else if (element_is(condition, "$where")) {
		see(judging, VALIDATOR_SEES_DOCUMENTS);
	}
}

/* A document in a list: its elements are of the list's level. */
static void judge_listed(struct judging *judging, const struct element *element, struct level level)
{
	if (level.place == PLACE_EXPRESSIONS)
		judge_expression(judging, element, level.negated);
	else if (element->type == BSON_BYTE_DOCUMENT)
		enter(judging, element, level);
}

static void judge_element(struct judging *judging, const struct element *element)
{
	struct level level = judging->levels[judging->walk.depth];

	if (walk_in_array(&judging->walk)) {
		judge_listed(judging, element, level);
		return;
	}
	switch (level.place) {
	case PLACE_CONDITIONS:
		judge_condition(judging, element, level);
		break;
	case PLACE_SCHEMA:
		judge_keyword(judging, element, level);
		break;
	case PLACE_PROPERTIES:
		judge_property(judging, element, level);
		break;
	case PLACE_DEPENDENTS:
		level.joined = true;
		level.place = PLACE_SCHEMA;
		if (element->type == BSON_BYTE_DOCUMENT)
			enter(judging, element, level);
		break;
	case PLACE_EXPRESSIONS:
		require(!"expressions stand in lists");
	}
}

must_check enum validator_sees validator_sees(struct bytes validator, const struct rule *rule)
{
	struct rule shown = *rule;
	struct target target = {.rule = &shown};
	struct judging judging = {.rule = rule,
				  .namespace = {.target_count = 1, .targets = &target}};
	struct element element;
	enum cursor_step step = walk_first(&judging.walk, BSON_BYTE_DOCUMENT, validator, &element);

	rule_show_all(&shown);
	judging.levels[1] = (struct level){.place = PLACE_CONDITIONS};
	for (; step == CURSOR_ELEMENT; step = walk_next(&judging.walk, &element))
		judge_element(&judging, &element);
	if (step != CURSOR_END)
		see(&judging, VALIDATOR_SEES_DOCUMENTS);
	return judging.sees;
}
