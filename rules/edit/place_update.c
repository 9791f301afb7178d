/* Which updates of an array can be done batch by batch, and what of them a batch gets. */
#include "rules/edit/place_update.h"

#include "protocol/template.h"
#include "rules/query/update_operators.h"
#include "rules/rule/names.h"

#define NESTED_MOST 8 /* $and, $or and $nor around an array filter's names */

void place_update_fini(struct place_update *place)
{
	buffer_fini(&place->concerned);
	buffer_fini(&place->update);
	buffer_fini(&place->filters);
	*place = (struct place_update){0};
}

/* ---- which batches ---- */

static bool begins_with_dollar(struct bytes name)
{
	return name.length > 0 && name.data[0] == '$';
}

static bool is_one_of(struct bytes name, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bytes_are(name, words[i]))
			return true;
	return false;
}

/* Conditions on one value that $elemMatch judges as the operators do. (mongod judges bit tests in
 * several ways, and shapes and expressions are left out.) */
static bool is_plain_operator(struct bytes name)
{
	static const char *const plain[] = {"$eq",        "$ne",      "$gt",  "$gte",    "$lt",
					    "$lte",       "$in",      "$nin", "$exists", "$type",
					    "$regex",     "$options", "$mod", "$size",   "$all",
					    "$elemMatch", "$not"};

	return is_one_of(name, plain, sizeof(plain) / sizeof(*plain));
}

static bool all_are(struct bytes document, bool (*is)(struct bytes name))
{
	struct cursor cursor;
	struct element each;
	enum cursor_step step = CURSOR_INVALID;

	if (cursor_open(&cursor, document))
		while ((step = cursor_next(&cursor, &each)) == CURSOR_ELEMENT)
			if (!is(each.name))
				return false;
	return step == CURSOR_END;
}

static bool is_field(struct bytes name)
{
	return !begins_with_dollar(name) || bytes_are(name, "$and") || bytes_are(name, "$or") ||
	       bytes_are(name, "$nor");
}

static bool first_of(struct bytes document, struct element *first)
{
	struct cursor cursor;

	return cursor_open(&cursor, document) && cursor_next(&cursor, first) == CURSOR_ELEMENT;
}

/* An element that is an array is looked into by the operators, and not by $elemMatch: its batch is
 * always concerned. */
#define OR_ARRAY "{@array: {$elemMatch: {$type: 'array'}}}"

static void add_operators(struct place_update *place, const struct rule *rule,
			  struct bytes operators)
{
	template_write_document(
		&place->concerned, "{$or: [{@array: {$elemMatch: @operators}}, " OR_ARRAY "]}",
		fill("array", rule->overflow.array), fill_document("operators", operators));
}

/* An element equal to the value. */
static bool add_equal(struct place_update *place, const struct rule *rule,
		      const struct element *value)
{
	if (value->type == BSON_BYTE_UNDEFINED)
		return false;
	template_write_document(&place->concerned, "{@array: {$elemMatch: {$eq: @value}}}",
				fill("array", rule->overflow.array), fill("value", value));
	return true;
}

static void add_regex(struct place_update *place, const struct rule *rule,
		      const struct element *regex)
{
	template_write_document(&place->concerned,
				"{$or: [{@array: {$elemMatch: {$regex: @regex}}}, " OR_ARRAY "]}",
				fill("array", rule->overflow.array), fill("regex", regex));
}

/* A condition on one element, as $pull takes it: a value; operators; or a filter of documents. */
static bool add_condition(struct place_update *place, const struct rule *rule,
			  const struct element *condition)
{
	struct element first;

	if (condition->type == BSON_BYTE_REGEX) {
		add_regex(place, rule, condition);
		return true;
	}
	if (condition->type != BSON_BYTE_DOCUMENT)
		return add_equal(place, rule, condition);
	if (first_of(condition->value, &first) && begins_with_dollar(first.name) &&
	    !is_field(first.name)) {
		if (!all_are(condition->value, is_plain_operator))
			return false;
		add_operators(place, rule, condition->value);
		return true;
	}
	if (!all_are(condition->value, is_field))
		return false;
	template_write_document(&place->concerned, "{@array: {$elemMatch: @filter}}",
				fill("array", rule->overflow.array),
				fill_document("filter", condition->value));
	return true;
}

/* $pullAll */
static bool add_values(struct place_update *place, const struct rule *rule,
		       const struct element *values)
{
	struct cursor cursor;
	struct element value;
	enum cursor_step step = CURSOR_INVALID;

	if (values->type == BSON_BYTE_ARRAY && cursor_open(&cursor, values->value))
		while ((step = cursor_next(&cursor, &value)) == CURSOR_ELEMENT)
			if (value.type == BSON_BYTE_REGEX || !add_equal(place, rule, &value))
				return false;
	return step == CURSOR_END;
}

/* ---- array filters ---- */

/* The name that the filter is about: "x" of {"x.price": 5}, and of {$or: [{"x.price": 5}, ...]}. */
static bool filter_subject(struct bytes filter, struct bytes *subject, int nested)
{
	struct cursor cursor;
	struct element first, branch;

	if (!first_of(filter, &first))
		return false;
	if (begins_with_dollar(first.name))
		return nested < NESTED_MOST && first.type == BSON_BYTE_ARRAY &&
		       cursor_open(&cursor, first.value) &&
		       cursor_next(&cursor, &branch) == CURSOR_ELEMENT &&
		       branch.type == BSON_BYTE_DOCUMENT &&
		       filter_subject(branch.value, subject, nested + 1);
	*subject = first.name;
	for (size_t i = 0; i < first.name.length; i++)
		if (first.name.data[i] == '.') {
			subject->length = i;
			break;
		}
	return true;
}

static bool find_filter(const struct element *filters, struct bytes name, struct bytes *filter)
{
	struct cursor cursor;
	struct element each;
	struct bytes subject;

	if (filters->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, filters->value))
		return false;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (each.type == BSON_BYTE_DOCUMENT && filter_subject(each.value, &subject, 0) &&
		    bytes_equal(subject, name)) {
			*filter = each.value;
			return true;
		}
	return false;
}

/* {"x.price": 5, "x.name": "a"} -> {price: 5, name: "a"} */
static bool write_stripped(struct buffer *out, struct bytes filter, size_t prefix)
{
	struct cursor cursor;
	struct element each;
	enum cursor_step step = CURSOR_INVALID;
	size_t document = writer_open(out);

	if (cursor_open(&cursor, filter))
		while ((step = cursor_next(&cursor, &each)) == CURSOR_ELEMENT) {
			auto_free char *name = NULL;

			if (begins_with_dollar(each.name) || each.name.length < prefix + 2)
				return false;
			name = must_strndup((const char *)each.name.data + prefix + 1,
					    each.name.length - prefix - 1);
			writer_renamed(out, name, &each);
		}
	writer_close(out, document);
	return step == CURSOR_END;
}

/* {x: ...}: of the element itself. */
static bool add_element(struct place_update *place, const struct rule *rule, struct bytes filter,
			const struct element *condition)
{
	struct cursor cursor;
	struct element each;

	if (!cursor_open(&cursor, filter) || cursor_next(&cursor, &each) != CURSOR_ELEMENT ||
	    cursor_next(&cursor, &each) != CURSOR_END || condition->type == BSON_BYTE_UNDEFINED)
		return false;
	if (condition->type == BSON_BYTE_REGEX) {
		add_regex(place, rule, condition);
	} else if (condition->type == BSON_BYTE_DOCUMENT) {
		if (!all_are(condition->value, is_plain_operator))
			return false;
		add_operators(place, rule, condition->value);
	} else {
		template_write_document(
			&place->concerned,
			"{$or: [{@array: {$elemMatch: {$eq: @value}}}, " OR_ARRAY "]}",
			fill("array", rule->overflow.array), fill("value", condition));
	}
	return true;
}

/* An element that is no document has none of the fields, which some conditions take for a match. */
static bool add_filter(struct place_update *place, const struct rule *rule, struct bytes filter)
{
	auto_buffer struct buffer stripped = {0};
	struct element first;
	struct bytes subject;

	if (!filter_subject(filter, &subject, 0) || !first_of(filter, &first))
		return false;
	if (bytes_equal(first.name, subject))
		return add_element(place, rule, filter, &first);
	if (!write_stripped(&stripped, filter, subject.length))
		return false;
	template_write_document(&place->concerned,
				"{$or: [{@array: {$elemMatch: @filter}}, "
				"{@array: {$elemMatch: {$not: {$type: 'object'}}}}]}",
				fill("array", rule->overflow.array),
				fill_document("filter", buffer_view(&stripped)));
	return true;
}

/* ---- what it changes ---- */

/* What stands behind the array's own path. */
static struct bytes rest_of(struct bytes path, const struct rule *rule)
{
	size_t array = strlen(rule->array);

	return (struct bytes){path.data + array, path.length - array};
}

/* "x" of ".$[x].price"; without bytes for ".$[]". False for any other. */
static bool filter_name(struct bytes rest, struct bytes *name)
{
	const uint8_t *end;

	if (!bytes_begin_with(rest, ".$["))
		return false;
	end = memchr(rest.data, ']', rest.length);
	if (!end)
		return false;
	*name = (struct bytes){rest.data + 3, (size_t)(end - rest.data) - 3};
	return true;
}

static bool removes(const struct change *change, const struct rule *rule)
{
	return bytes_are(change->path, rule->array) &&
	       (bytes_are(change->verb, "$pull") || bytes_are(change->verb, "$pullAll"));
}

/* Operators that give each element what it would have in the whole array, too. ($currentDate is
 * another moment in each batch.) */
static bool changes_alone(struct bytes verb)
{
	static const char *const verbs[] = {"$set", "$unset", "$inc",  "$mul",
					    "$min", "$max",   "$bit",  "$addToSet",
					    "$pop", "$pull",  "$push", "$pullAll"};

	return is_one_of(verb, verbs, sizeof(verbs) / sizeof(*verbs));
}

static bool judge_change(struct place_update *place, const struct change *change,
			 const struct element *filters, const struct rule *rule)
{
	struct bytes name, filter;

	if (removes(change, rule)) {
		place->removes = true;
		place->all |= bytes_are(change->verb, "$pull")
				      ? !add_condition(place, rule, &change->value)
				      : !add_values(place, rule, &change->value);
		return true;
	}
	if (path_relate(change->path, rule->array) != PATH_BELOW || !changes_alone(change->verb) ||
	    !filter_name(rest_of(change->path, rule), &name))
		return false;
	if (name.length == 0)
		place->all = true;
	else if (!find_filter(filters, name, &filter))
		return false; /* mongod refuses it */
	else
		place->all |= !add_filter(place, rule, filter);
	return true;
}

/* ---- what a batch gets ---- */

static bool is_on_array(struct bytes path, const struct rule *rule)
{
	return name_relate(path, rule->array) != PATH_APART;
}

static void write_operator(struct buffer *out, const struct element *verb, const struct rule *rule)
{
	auto_free char *name = must_strndup((const char *)verb->name.data, verb->name.length);
	size_t mark = out->length, start = writer_open_document(out, name);
	struct cursor cursor;
	struct element field;
	bool any = false;

	if (verb->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, verb->value)) {
		out->length = mark;
		return;
	}
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		auto_buffer struct buffer path = {0};
		struct bytes rest;

		if (!is_on_array(field.name, rule))
			continue;
		rest = rest_of(field.name, rule);
		buffer_append(&path, rule->overflow.array, strlen(rule->overflow.array));
		buffer_append(&path, rest.data, rest.length);
		buffer_append(&path, "", 1);
		writer_renamed(out, (const char *)path.data, &field);
		any = true;
	}
	if (any)
		writer_close(out, start);
	else
		out->length = mark;
}

static void write_update(struct buffer *out, const struct element *update, const struct rule *rule)
{
	size_t document = writer_open(out), u = writer_open_document(out, "u");
	struct cursor cursor;
	struct element verb;

	require(cursor_open(&cursor, update->value)); /* it has been classified */
	while (cursor_next(&cursor, &verb) == CURSOR_ELEMENT)
		write_operator(out, &verb, rule);
	writer_close(out, u);
	writer_close(out, document);
}

/* mongod refuses an array filter that no path names. */
static bool is_named(struct bytes update, struct bytes subject)
{
	auto_free char *text = must_strndup((const char *)subject.data, subject.length);
	auto_buffer struct buffer mark = {0};

	buffer_append(&mark, "$[", 2);
	buffer_append(&mark, text, subject.length);
	buffer_append(&mark, "]", 1);
	return memmem(update.data, update.length, mark.data, mark.length);
}

static void write_filters(struct place_update *place, const struct element *filters)
{
	struct cursor cursor;
	struct element each;
	struct bytes subject;

	if (filters->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, filters->value))
		return;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT)
		if (each.type == BSON_BYTE_DOCUMENT && filter_subject(each.value, &subject, 0) &&
		    is_named(buffer_view(&place->update), subject))
			buffer_append(&place->filters, each.value.data, each.value.length);
}

must_check bool place_update_judge(const struct element *update, const struct element *filters,
				   const struct rule *rule, struct place_update *place)
{
	struct changes changes;
	struct change change;
	bool any = false;

	*place = (struct place_update){0};
	if (rule->overflow.layout != RULE_BATCHES || update->type != BSON_BYTE_DOCUMENT ||
	    !changes_open(&changes, update->value))
		return false;
	while (changes_next(&changes, &change) == CURSOR_ELEMENT) {
		if (!is_on_array(change.path, rule))
			continue;
		any = true;
		if (!judge_change(place, &change, filters, rule)) {
			place_update_fini(place);
			return false;
		}
	}
	if (!any)
		return false;
	write_update(&place->update, update, rule);
	write_filters(place, filters);
	return true;
}
