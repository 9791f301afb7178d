/* Writes that ask only whether some value is among an array's elements. */
#include "rules/stages/membership.h"

#include "protocol/template.h"
#include "rules/query/update_operators.h"
#include "rules/rule/names.h"
#include "rules/rule/overflow_document.h"
#include "rules/query/reads.h"

#define FIELDS_MAX 8 /* of a document that is looked for */

bool membership_is_scalar(const struct element *value)
{
	switch (value->type) {
	case BSON_BYTE_DOUBLE:
	case BSON_BYTE_STRING:
	case BSON_BYTE_BINARY:
	case BSON_BYTE_OBJECT_ID:
	case BSON_BYTE_BOOL:
	case BSON_BYTE_DATE:
	case BSON_BYTE_INT32:
	case BSON_BYTE_INT64:
	case BSON_BYTE_TIMESTAMP:
	case BSON_BYTE_DECIMAL:
		return true;
	default:
		return false;
	}
}

void membership_fini(struct membership *membership)
{
	buffer_fini(&membership->overflow);
	buffer_fini(&membership->without);
	*membership = (struct membership){0};
}

bool membership_overflow_path(struct bytes path, const struct rule *rule, struct buffer *out)
{
	size_t array = strlen(rule->array);
	struct bytes rest = {path.data + array, path.length - array};

	if (rest.length > 0 && (rest.length < 2 || rest.data[0] != '.'))
		return false;
	for (size_t i = 1; i < rest.length; i++) {
		bool begins = rest.data[i - 1] == '.';

		if (begins && (rest.data[i] == '$' || (rest.data[i] >= '0' && rest.data[i] <= '9')))
			return false;
	}
	if (rule->overflow.layout == RULE_BATCHES)
		buffer_append(out, rule->overflow.array, strlen(rule->overflow.array));
	else if (rest.length > 0)
		rest = (struct bytes){rest.data + 1, rest.length - 1};
	buffer_append(out, rest.data, rest.length);
	buffer_append(out, "", 1);
	return true;
}

/* Of an element that is kept whole, at a path into `_spill.v`: in an array, equality would find
 * what filters don't. */
static void add_kept(struct membership *membership, const char *path, const struct element *value)
{
	template_write_document(
		&membership->overflow,
		*path ? "{_spill.v.@path: {$eq: @value}, _spill.v: {$not: {$type: 'array'}}}"
		      : "{_spill.v: {$eq: @value, $not: {$type: 'array'}}}",
		fill("path", path), fill("value", value));
}

/* `path` as membership_overflow_path gives it. */
static void add_value(struct membership *membership, const struct rule *rule, const char *path,
		      const struct element *value)
{
	struct buffer *out = &membership->overflow;

	if (rule->overflow.layout == RULE_BATCHES) {
		template_write_document(out, "{@path: {$eq: @value}}", fill("path", path),
					fill("value", value));
		return;
	}
	/* If an element's own fields are all of it, they tell; else what is kept. */
	if (*path && !overflow_names_ours(rule, path))
		template_write_document(out, "{@path: {$eq: @value}, _spill.v: {$exists: false}}",
					fill("path", path), fill("value", value));
	add_kept(membership, path, value);
}

/* {$ne: x} or {$nin: [x, ...]}, and nothing beside it. */
static bool add_condition(const struct element *condition, const struct rule *rule,
			  struct membership *membership)
{
	auto_buffer struct buffer path = {0};
	struct element verb, value;
	struct cursor cursor, list;

	if (condition->type != BSON_BYTE_DOCUMENT ||
	    !membership_overflow_path(condition->name, rule, &path) ||
	    !cursor_open(&cursor, condition->value) ||
	    cursor_next(&cursor, &verb) != CURSOR_ELEMENT)
		return false;
	if (element_is(&verb, "$ne") && membership_is_scalar(&verb)) {
		add_value(membership, rule, (const char *)path.data, &verb);
	} else if (element_is(&verb, "$nin") && verb.type == BSON_BYTE_ARRAY &&
		   cursor_open(&list, verb.value)) {
		while (cursor_next(&list, &value) == CURSOR_ELEMENT) {
			if (!membership_is_scalar(&value))
				return false;
			add_value(membership, rule, (const char *)path.data, &value);
		}
	} else {
		return false;
	}
	return cursor_next(&cursor, &verb) == CURSOR_END;
}

void membership_of_filter(struct bytes filter, const struct ruled_namespace *namespace,
			  struct membership *membership)
{
	const struct rule *rule = namespace->targets[0].rule;
	struct cursor cursor;
	struct element condition;

	*membership = (struct membership){0};
	if (!cursor_open(&cursor, filter))
		return;
	while (cursor_next(&cursor, &condition) == CURSOR_ELEMENT) {
		enum path_relation relation = path_relate(condition.name, rule->array);

		if (reads_nothing_of(&condition, namespace))
			continue;
		if ((relation != PATH_SAME && relation != PATH_BELOW) ||
		    !add_condition(&condition, rule, membership))
			return;
	}
	membership->known = membership->overflow.length > 0;
}

/* The value of {$addToSet: {f: x}}, or of {f: {$each: [x]}}. */
static bool added_value(const struct element *value, struct element *added)
{
	struct cursor cursor, list;
	struct element each, second;

	*added = *value;
	if (value->type != BSON_BYTE_DOCUMENT)
		return membership_is_scalar(value);
	if (!cursor_open(&cursor, value->value) || cursor_next(&cursor, &each) != CURSOR_ELEMENT)
		return false;
	if (!element_is(&each, "$each"))
		return each.name.length == 0 || each.name.data[0] != '$';
	return each.type == BSON_BYTE_ARRAY && cursor_next(&cursor, &second) == CURSOR_END &&
	       cursor_open(&list, each.value) && cursor_next(&list, added) == CURSOR_ELEMENT &&
	       cursor_next(&list, &second) == CURSOR_END &&
	       (membership_is_scalar(added) || added->type == BSON_BYTE_DOCUMENT);
}

/* What an element equal to this document has, field by field: an index on one of them helps. */
static void write_fields(struct buffer *out, const struct rule *rule, struct bytes document)
{
	struct cursor cursor;
	struct element field;

	if (!cursor_open(&cursor, document))
		return;
	for (size_t i = 0; i < FIELDS_MAX && cursor_next(&cursor, &field) == CURSOR_ELEMENT; i++) {
		uint8_t first = field.name.length > 0 ? field.name.data[0] : '$';

		if (membership_is_scalar(&field) && first != '$' && (first < '0' || first > '9') &&
		    !memchr(field.name.data, '.', field.name.length))
			template_write_fields(out, "{@array.@name: {$eq: @value}}",
					      fill("array", rule->overflow.array),
					      fill("name", field.name), fill("value", &field));
	}
}

/* Plain equality would look into elements that are arrays. */
static void add_element(struct membership *membership, const struct rule *rule,
			const struct element *value)
{
	struct buffer *out = &membership->overflow;
	size_t document = writer_open(out);

	template_write_fields(out, "{@array: {$elemMatch: {$eq: @value}}}",
			      fill("array", rule->overflow.array), fill("value", value));
	if (value->type == BSON_BYTE_DOCUMENT)
		write_fields(out, rule, value->value);
	writer_close(out, document);
}

/* The operator with {$each: []} for what is there already: it changes nothing, and mongod says
 * so. */
static void write_without(struct buffer *out, const struct element *verb, const struct rule *rule)
{
	size_t start = writer_open_document(out, "$addToSet");
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, verb->value));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, rule->array))
			template_write(out, rule->array, "{$each: []}");
		else
			writer_element(out, &field);
	writer_close(out, start);
}

static void write_update_without(struct membership *membership, const struct element *update,
				 const struct rule *rule)
{
	struct buffer *out = &membership->without;
	size_t document = writer_open(out), u = writer_open_document(out, "u");
	struct cursor cursor;
	struct element verb;

	require(cursor_open(&cursor, update->value));
	while (cursor_next(&cursor, &verb) == CURSOR_ELEMENT) {
		if (element_is(&verb, "$addToSet") && verb.type == BSON_BYTE_DOCUMENT)
			write_without(out, &verb, rule);
		else
			writer_element(out, &verb);
	}
	writer_close(out, u);
	writer_close(out, document);
}

void membership_of_update(const struct element *update, const struct ruled_namespace *namespace,
			  struct membership *membership)
{
	const struct rule *rule = namespace->targets[0].rule;
	struct changes changes;
	struct change change;
	struct element added = {0};
	size_t touching = 0;

	*membership = (struct membership){0};
	if (update->type != BSON_BYTE_DOCUMENT || !changes_open(&changes, update->value))
		return;
	while (changes_next(&changes, &change) == CURSOR_ELEMENT) {
		if (name_relate(change.path, rule->array) == PATH_APART)
			continue;
		touching++;
		if (!bytes_are(change.verb, "$addToSet") || !bytes_are(change.path, rule->array) ||
		    !added_value(&change.value, &added))
			return;
	}
	if (touching != 1)
		return;
	if (rule->overflow.layout == RULE_BATCHES)
		add_element(membership, rule, &added);
	else if (membership_is_scalar(&added))
		add_kept(membership, "", &added);
	else
		return; /* a document's own fields don't tell the order that they stand in */
	write_update_without(membership, update, rule);
	membership->known = true;
}
