/* Which updates of an array can be done batch by batch, and what of them a batch gets. */
#include "rules/edit/place_update.h"

#include "protocol/template.h"
#include "rules/edit/array_filters.h"
#include "rules/query/update_operators.h"
#include "rules/rule/names.h"

#include <stdio.h>

#define DIGITS_MOST 9 /* of an element's index */

void place_update_fini(struct place_update *place)
{
	buffer_fini(&place->concerned);
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
	if (document_first(condition->value, &first) && begins_with_dollar(first.name) &&
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

	if (!array_filter_name(filter, &subject) || !document_first(filter, &first))
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

static bool is_on_array(struct bytes path, const struct rule *rule)
{
	return name_relate(path, rule->array) != PATH_APART;
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

/* ".7" of ".7.price": how many bytes; 0: it is no such. */
static size_t index_length(struct bytes rest, int64_t *index)
{
	size_t length = 1;

	*index = 0;
	if (rest.length < 2 || rest.data[0] != '.')
		return 0;
	for (; length < rest.length && rest.data[length] != '.'; length++) {
		if (rest.data[length] < '0' || rest.data[length] > '9' || length > DIGITS_MOST)
			return 0;
		*index = *index * 10 + rest.data[length] - '0';
	}
	return length == 1 || (length > 2 && rest.data[1] == '0') ? 0 : length;
}

static bool is_matched(struct bytes rest)
{
	return bytes_are(rest, ".$") || bytes_begin_with(rest, ".$.");
}

/* Operators that give each element what it would have in the whole array, too. */
static bool changes_alone(struct bytes verb)
{
	static const char *const verbs[] = {"$set",  "$unset",   "$inc",        "$mul", "$min",
					    "$max",  "$bit",     "$addToSet",   "$pop", "$pull",
					    "$push", "$pullAll", "$currentDate"};

	return is_one_of(verb, verbs, sizeof(verbs) / sizeof(*verbs));
}

/* False where mongod refuses the value. */
static bool judge_pop(struct place_update *place, const struct element *value)
{
	int64_t end;

	if (!element_integer(value, &end) || (end != 1 && end != -1))
		return false;
	place->kind = end == 1 ? PLACE_LAST : PLACE_FIRST;
	place->removes = true;
	return true;
}

/* An operator on the array itself. */
static bool judge_array(struct place_update *place, const struct change *change,
			const struct rule *rule)
{
	if (bytes_are(change->verb, "$pop"))
		return judge_pop(place, &change->value);
	place->kind = PLACE_EACH;
	place->removes = true;
	if (bytes_are(change->verb, "$pull"))
		place->all |= !add_condition(place, rule, &change->value);
	else if (bytes_are(change->verb, "$pullAll"))
		place->all |= !add_values(place, rule, &change->value);
	else
		return false;
	return true;
}

/* A time stamp is another one each time that mongod gives it. */
static bool judge_date(struct place_update *place, const struct change *change)
{
	struct bytes type;

	if (!bytes_are(change->verb, "$currentDate"))
		return true;
	place->dated = true;
	return change->value.type == BSON_BYTE_BOOL ||
	       (change->value.type == BSON_BYTE_DOCUMENT &&
		document_find_string(change->value.value, "$type", &type) &&
		bytes_are(type, "date"));
}

static bool judge_elements(struct place_update *place, struct bytes name,
			   const struct array_filters *filters, const struct rule *rule)
{
	struct bytes filter;

	place->kind = PLACE_EACH;
	if (name.length == 0)
		place->all = true;
	else if (!array_filters_find(filters, name, &filter))
		return false; /* mongod refuses it */
	else
		place->all |= !add_filter(place, rule, filter);
	return true;
}

static bool judge_change(struct place_update *place, const struct change *change,
			 const struct array_filters *filters, const struct rule *rule)
{
	struct bytes rest, name;

	if (path_relate(change->path, rule->array) == PATH_SAME)
		return judge_array(place, change, rule);
	if (path_relate(change->path, rule->array) != PATH_BELOW || !changes_alone(change->verb))
		return false;
	rest = rest_of(change->path, rule);
	if (filter_name(rest, &name))
		return judge_date(place, change) && judge_elements(place, name, filters, rule);
	if (is_matched(rest))
		place->kind = PLACE_MATCHED;
	else if (index_length(rest, &place->at) > 0)
		place->kind = PLACE_AT;
	else
		return false;
	return true;
}

/* mongod refuses an array filter that no path names. Without its operators on the array, main's
 * update would name none. */
static bool same_kind(const struct place_update *place, const struct place_update *first,
		      const struct element *filters)
{
	return place->kind == first->kind && place->at == first->at &&
	       (place->kind == PLACE_EACH || filters->type == 0);
}

/* True if some operators are on the array, and all of these can be done batch by batch. */
static bool judge_changes(struct place_update *place, struct changes *changes,
			  const struct element *list, struct array_filters *filters,
			  const struct rule *rule)
{
	struct place_update first = {0};
	struct change change;
	size_t count = 0;

	while (changes_next(changes, &change) == CURSOR_ELEMENT) {
		if (!is_on_array(change.path, rule))
			continue;
		if (!judge_change(place, &change, filters, rule))
			return false;
		if (count++ == 0)
			first = *place;
		if (!same_kind(place, &first, list))
			return false;
		array_filters_note(filters, change.path);
	}
	return count > 0;
}

must_check bool place_update_judge(const struct element *update, const struct element *filters,
				   const struct rule *rule, struct place_update *place)
{
	struct array_filters named;
	struct changes changes;
	bool good;

	*place = (struct place_update){0};
	if (rule->overflow.layout != RULE_BATCHES || update->type != BSON_BYTE_DOCUMENT ||
	    !changes_open(&changes, update->value))
		return false;
	array_filters_open(&named, filters);
	good = judge_changes(place, &changes, filters, &named, rule);
	if (good)
		array_filters_write(&named, &place->filters);
	else
		place_update_fini(place);
	array_filters_close(&named);
	return good;
}

/* ---- what is written ---- */

/* Instead of the array's path, and of the element's index. */
struct instead {
	const char *array;
	const struct place_update *place;
	const struct rule *rule;
	int64_t at;
	bool rest; /* what is not on the array, too; else that alone */
};

static void write_path(struct buffer *path, struct bytes name, const struct instead *instead)
{
	struct bytes rest = rest_of(name, instead->rule);
	int64_t index;
	char text[32];

	buffer_append(path, instead->array, strlen(instead->array));
	if (instead->place->kind == PLACE_AT) {
		size_t length = index_length(rest, &index);

		snprintf(text, sizeof(text), ".%lld", (long long)instead->at);
		buffer_append(path, text, strlen(text));
		rest = (struct bytes){rest.data + length, rest.length - length};
	}
	buffer_append(path, rest.data, rest.length);
	buffer_append(path, "", 1);
}

/* The fields of an operator that are meant. `dated`: with the time, instead of their values. */
static bool write_fields(struct buffer *out, const struct element *verb,
			 const struct instead *instead, bool dated)
{
	struct cursor cursor;
	struct element field;
	bool any = false;

	if (verb->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, verb->value))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		bool on_array = is_on_array(field.name, instead->rule);
		auto_buffer struct buffer path = {0};

		if (on_array ? instead->at < 0 : !instead->rest || dated)
			continue;
		any = true;
		if (!on_array) {
			writer_element(out, &field);
			continue;
		}
		write_path(&path, field.name, instead);
		if (dated)
			writer_renamed(out, (const char *)path.data, &instead->place->now);
		else
			writer_renamed(out, (const char *)path.data, &field);
	}
	return any;
}

static bool is_dated(const struct instead *instead, const struct element *verb)
{
	return instead->place->dated && element_is(verb, "$currentDate");
}

/* An operator of which nothing is left stays away. `dates`: $currentDate, if $set does its work. */
static void write_operator(struct buffer *out, const struct element *verb,
			   const struct element *dates, const struct instead *instead)
{
	auto_free char *name = must_strndup((const char *)verb->name.data, verb->name.length);
	size_t mark = out->length, start = writer_open_document(out, name);
	struct instead other = *instead;
	bool any;

	if (is_dated(instead, verb))
		other.at = -1;
	any = write_fields(out, verb, &other, false);
	if (dates)
		any |= write_fields(out, dates, instead, true);
	if (any)
		writer_close(out, start);
	else
		out->length = mark;
}

static void write_update(struct buffer *out, const char *name, const struct element *update,
			 const struct instead *instead)
{
	static const uint8_t empty[] = {5, 0, 0, 0, 0};
	struct element dates = {.type = 0}, set, verb;
	size_t u = writer_open_document(out, name);
	struct cursor cursor;

	if (instead->place->dated)
		require(document_find(update->value, "$currentDate", &dates)); /* it was judged */
	if (dates.type != 0 && !document_find(update->value, "$set", &set)) {
		set = (struct element){.type = BSON_BYTE_DOCUMENT, .value = {empty, sizeof(empty)}};
		set.name = (struct bytes){(const uint8_t *)"$set", 4};
		write_operator(out, &set, &dates, instead);
	}
	require(cursor_open(&cursor, update->value)); /* it has been classified */
	while (cursor_next(&cursor, &verb) == CURSOR_ELEMENT)
		write_operator(out, &verb,
			       dates.type != 0 && element_is(&verb, "$set") ? &dates : NULL,
			       instead);
	writer_close(out, u);
}

void place_update_write_batch(struct buffer *out, const char *name, const struct element *update,
			      const struct place_update *place, const struct rule *rule, int64_t at)
{
	const struct instead instead = {rule->overflow.array, place, rule, at, false};

	write_update(out, name, update, &instead);
}

void place_update_write_main(struct buffer *out, const char *name, const struct element *update,
			     const struct place_update *place, const struct rule *rule, int64_t at)
{
	const struct instead instead = {rule->array, place, rule, at, true};

	write_update(out, name, update, &instead);
}
