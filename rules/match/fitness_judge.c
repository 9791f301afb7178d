/* Where a rule can't hold, judged by what listCollections and listIndexes say. */
#include "rules/match/fitness_judge.h"

#include "rules/match/partial_filter.h"
#include "rules/match/validator.h"
#include "rules/rule/names.h"
#include "rules/rule/own_fields.h"
#include "rules/rule/overflow_document.h"
#include "rules/rule/walk.h"

#include <stdarg.h>
#include <stdio.h>

static bool refuse(struct unfit *why, enum unfit_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool refuse(struct unfit *why, enum unfit_code code, const char *format, ...)
{
	va_list arguments;

	why->code = code;
	va_start(arguments, format);
	vsnprintf(why->reason, sizeof(why->reason), format, arguments);
	va_end(arguments);
	return false;
}

static bool touches(struct bytes path, const char *array)
{
	return path_relate(path, array) != PATH_APART;
}

static bool truth_at(struct bytes document, const char *path)
{
	struct element element;

	return document_find_path(document, path, &element) && element_truth(&element);
}

static bool text_at(struct bytes document, const char *path, const char *text)
{
	struct element element;
	struct bytes found;

	return document_find_path(document, path, &element) && element_string(&element, &found) &&
	       bytes_are(found, text);
}

static bool document_at(struct bytes document, const char *path, struct bytes *found)
{
	struct element element;

	return document_find_path(document, path, &element) && element_document(&element, found);
}

/* What $jsonSchema calls the type. */
static const char *type_alias(uint8_t type)
{
	switch (type) {
	case BSON_BYTE_DOUBLE:
		return "double";
	case BSON_BYTE_STRING:
		return "string";
	case BSON_BYTE_DOCUMENT:
		return "object";
	case BSON_BYTE_BOOL:
		return "bool";
	case BSON_BYTE_INT32:
		return "int";
	case BSON_BYTE_INT64:
		return "long";
	default:
		return "";
	}
}

static bool type_is_number(uint8_t type)
{
	return type == BSON_BYTE_DOUBLE || type == BSON_BYTE_INT32 || type == BSON_BYTE_INT64;
}

/* A property's schema that says no more than which type it has: {bsonType: "bool", description:
 * ...}. */
static bool allows_type(struct bytes schema, uint8_t type)
{
	struct cursor cursor;
	struct element element;
	struct bytes text;

	if (!cursor_open(&cursor, schema))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (element_is(&element, "title") || element_is(&element, "description"))
			continue;
		if (!element_is(&element, "bsonType") || !element_string(&element, &text) ||
		    !(bytes_are(text, type_alias(type)) ||
		      (type_is_number(type) && bytes_are(text, "number"))))
			return false;
	}
	return true;
}

/* It tells how many fields there are, or may mean any by a pattern: those of ours, too. */
static bool counts_fields(struct bytes schema)
{
	static const char *const counting[] = {"maxProperties", "minProperties",
					       "patternProperties"};
	static const char *const joining[] = {"allOf", "anyOf", "oneOf", "not"};
	struct element element;
	struct bytes parts;

	for (size_t i = 0; i < ARRAY_LENGTH(counting); i++) {
		if (document_find(schema, counting[i], &element))
			return true;
		for (size_t j = 0; j < ARRAY_LENGTH(joining); j++)
			if (document_at(schema, joining[j], &parts) &&
			    name_occurs(parts, counting[i]))
				return true;
	}
	return false;
}

/* Whether documents may have a field of ours, of this type, under the validator. */
static bool allows_field(struct bytes validator, const char *name, uint8_t type)
{
	struct bytes schema, properties, own;
	struct element more;

	if (!document_at(validator, "$jsonSchema", &schema))
		return !name_occurs(validator, name);
	if (counts_fields(schema))
		return false;
	if (document_at(schema, "properties", &properties) && document_at(properties, name, &own))
		return allows_type(own, type);
	if (document_find(schema, "additionalProperties", &more) &&
	    (more.type != BSON_BYTE_BOOL || !element_truth(&more)))
		return false;
	return !name_occurs(validator, name);
}

/* A counter is an int until it passes 31 bits. */
static bool judge_fields(const struct rule *rule, struct bytes validator, struct unfit *why)
{
	static const struct {
		const char *words;
		uint8_t type;
	} fields[OWN_FIELDS] = {[OWN_FLAG] = {"flag", 0},
				[OWN_TOTAL] = {"counter", BSON_BYTE_INT32},
				[OWN_DOCUMENTS] = {"counter", BSON_BYTE_INT32},
				[OWN_REFERENCE] = {"reference", BSON_BYTE_STRING}};

	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);
		uint8_t type = field == OWN_FLAG ? rule->flag.value.type : fields[field].type;

		if (name && !allows_field(validator, name, type))
			return refuse(why, UNFIT_VALIDATOR_FIELD,
				      "its validator may refuse the %s '%s'", fields[field].words,
				      name);
	}
	return true;
}

must_check bool judge_validator(const struct rule *rule, struct bytes options, struct unfit *why)
{
	struct bytes validator;

	if (!document_at(options, "validator", &validator) ||
	    text_at(options, "validationAction", "warn") ||
	    text_at(options, "validationLevel", "off"))
		return true;
	switch (validator_sees(validator, rule)) {
	case VALIDATOR_SEES_WHOLE:
		break;
	case VALIDATOR_SEES_PART:
		return refuse(why, UNFIT_VALIDATOR_ARRAY,
			      "its validator looks at '%s', of which it would see a part only",
			      rule->array);
	case VALIDATOR_SEES_FIELDS:
		return refuse(why, UNFIT_VALIDATOR_STATE,
			      "its validator refuses the field '_spill', or may do so");
	case VALIDATOR_SEES_DOCUMENTS:
		return refuse(why, UNFIT_VALIDATOR_DOCUMENTS,
			      "its validator looks at whole documents, of which it would see a "
			      "part only");
	}
	if (!allows_field(validator, "_spill", BSON_BYTE_DOCUMENT))
		return refuse(why, UNFIT_VALIDATOR_STATE,
			      "its validator refuses the field '_spill'");
	return judge_fields(rule, validator, why);
}

bool judge_has_validator(struct bytes entry, struct bytes *validator)
{
	struct bytes options;
	struct element first;
	struct cursor cursor;

	return document_at(entry, "options", &options) &&
	       document_at(options, "validator", validator) &&
	       !text_at(options, "validationAction", "warn") &&
	       !text_at(options, "validationLevel", "off") && cursor_open(&cursor, *validator) &&
	       cursor_next(&cursor, &first) == CURSOR_ELEMENT;
}

static bool judge_kind(struct bytes entry, struct unfit *why)
{
	if (text_at(entry, "type", "view"))
		return refuse(why, UNFIT_VIEW, "it is a view");
	if (text_at(entry, "type", "timeseries"))
		return refuse(why, UNFIT_TIME_SERIES, "it is a time series collection");
	if (truth_at(entry, "options.capped"))
		return refuse(why, UNFIT_CAPPED, "it is a capped collection");
	return true;
}

must_check bool judge_main_collection(const struct rule *rule, struct bytes entry,
				      struct unfit *why)
{
	struct bytes options;

	return judge_kind(entry, why) &&
	       (!document_at(entry, "options", &options) || judge_validator(rule, options, why));
}

must_check bool judge_overflow_collection(struct bytes entry, struct unfit *why)
{
	struct bytes found;

	if (!judge_kind(entry, why))
		return false;
	if (document_at(entry, "options.clusteredIndex", &found))
		return refuse(why, UNFIT_CLUSTERED, "it is a clustered collection");
	if (document_at(entry, "options.collation", &found))
		return refuse(why, UNFIT_COLLATION,
			      "it has a collation; links are compared byte for byte");
	if (document_at(entry, "options.validator", &found) &&
	    !allows_field(found, "_spill", BSON_BYTE_DOCUMENT))
		return refuse(why, UNFIT_VALIDATOR_STATE,
			      "its validator refuses the field '_spill'");
	return true;
}

static bool keys_touch(struct bytes keys, const char *array)
{
	struct cursor cursor;
	struct element element;

	if (!cursor_open(&cursor, keys))
		return true;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (touches(element.name, array) || element_is(&element, "$**"))
			return true;
	}
	return false;
}

/* The key's kind where it is one that needs the whole array: NULL for plain ones. */
static const char *special_kind(struct bytes keys)
{
	static const char *const kinds[] = {"text", "2d", "2dsphere"};
	struct cursor cursor;
	struct element element;
	struct bytes text;

	if (!cursor_open(&cursor, keys))
		return "broken";
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
			if (element_string(&element, &text) && bytes_are(text, kinds[i]))
				return kinds[i];
		}
	}
	return NULL;
}

static struct bytes name_of(struct bytes index)
{
	struct element element;
	struct bytes name;

	if (document_find(index, "name", &element) && element_string(&element, &name))
		return name;
	return bytes_of("?");
}

bool judge_is_unique(struct bytes index)
{
	return truth_at(index, "unique") || truth_at(index, "prepareUnique");
}

/* A field of the rule's that a unique index is about: what stands in it changes as tails move. */
static const char *own_unique_field(const struct rule *rule, struct bytes index)
{
	struct bytes keys, filter;

	if (!judge_is_unique(index) || !document_at(index, "key", &keys))
		return NULL;
	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);

		if (name && (name_occurs(keys, name) ||
			     (document_at(index, "partialFilterExpression", &filter) &&
			      name_occurs(filter, name))))
			return name;
	}
	return NULL;
}

/* Into a key of this kind only a place goes. */
static bool is_geo_key(struct bytes keys, const char *field)
{
	struct cursor cursor;
	struct element element;
	struct bytes kind;

	if (!cursor_open(&cursor, keys))
		return true;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		if (touches(element.name, field) && element_string(&element, &kind) &&
		    bytes_begin_with(kind, "2d"))
			return true;
	return false;
}

/* A text index asks a field of this name, in any document of the path, for its language. */
static bool is_language(struct bytes index, const char *field)
{
	const char *last = strrchr(field, '.');

	return text_at(index, "language_override", last ? last + 1 : field);
}

/* What Spillway writes into the field is of no type that the index takes. */
static bool judge_own_field(struct bytes index, struct bytes keys, const char *field,
			    struct unfit *why)
{
	struct bytes name = name_of(index);
	const char *kind = is_geo_key(keys, field)     ? "geospatial"
			   : is_language(index, field) ? "text"
						       : NULL;

	if (!kind)
		return true;
	return refuse(why, UNFIT_INDEX_TYPED_FIELD,
		      "its %s index '%.*s' refuses what Spillway writes into '%s'", kind,
		      (int)name.length, (const char *)name.data, field);
}

static bool judge_own_fields(const struct rule *rule, struct bytes index, struct bytes keys,
			     struct unfit *why)
{
	bool good = judge_own_field(index, keys, "_spill", why);

	for (enum own_field field = OWN_FLAG; good && field < OWN_FIELDS; field++) {
		const char *name = own_field_name(rule, field);

		good = !name || judge_own_field(index, keys, name, why);
	}
	return good;
}

must_check bool judge_main_index(const struct rule *rule, struct bytes index, struct unfit *why)
{
	struct bytes keys, weights, filter, name = name_of(index);
	struct element element;
	const char *kind, *own, *needs = NULL;
	bool over, chosen;

	if (!document_at(index, "key", &keys))
		return refuse(why, UNFIT_INDEX_UNREADABLE, "an index can't be read");
	over = keys_touch(keys, rule->array);
	kind = special_kind(keys);
	if (document_at(index, "weights", &weights))
		over = over || keys_touch(weights, rule->array);
	chosen = document_at(index, "partialFilterExpression", &filter) &&
		 !partial_filter_holds(filter, rule->array);
	if ((over || chosen) && judge_is_unique(index))
		needs = "unique";
	else if ((over || chosen) && document_find(index, "expireAfterSeconds", &element))
		needs = "TTL";
	else if ((over || chosen) && kind)
		needs = kind;
	own = own_unique_field(rule, index);
	if (!needs && own)
		return refuse(why, UNFIT_INDEX_UNIQUE_FIELD,
			      "its unique index '%.*s' may refuse what Spillway writes into '%s'",
			      (int)name.length, (const char *)name.data, own);
	if (!needs)
		return judge_own_fields(rule, index, keys, why);
	return refuse(why, UNFIT_INDEX_OVER_ARRAY, "its %s index '%.*s' needs the whole of '%s'",
		      needs, (int)name.length, (const char *)name.data, rule->array);
}

static bool is_unique_over(struct bytes index, const char *first, const char *second)
{
	struct bytes keys;
	struct cursor cursor;
	struct element one, other, more;

	return truth_at(index, "unique") && document_at(index, "key", &keys) &&
	       cursor_open(&cursor, keys) && cursor_next(&cursor, &one) == CURSOR_ELEMENT &&
	       element_is(&one, first) && cursor_next(&cursor, &other) == CURSOR_ELEMENT &&
	       element_is(&other, second) && cursor_next(&cursor, &more) == CURSOR_END;
}

bool judge_is_batch_index(const struct rule *rule, struct bytes index)
{
	struct bytes filter;

	return is_unique_over(index, rule->overflow.link, overflow_order_path(rule)) &&
	       !document_at(index, "partialFilterExpression", &filter);
}

bool judge_is_place_index(const struct rule *rule, struct bytes index)
{
	const char *place = overflow_order_path(rule);
	struct bytes filter, condition;
	struct cursor cursor;
	struct element only, more;

	return rule->overflow.layout == RULE_ELEMENTS &&
	       is_unique_over(index, place, rule->overflow.link) &&
	       document_at(index, "partialFilterExpression", &filter) &&
	       cursor_open(&cursor, filter) && cursor_next(&cursor, &only) == CURSOR_ELEMENT &&
	       element_is(&only, place) && cursor_next(&cursor, &more) == CURSOR_END &&
	       element_document(&only, &condition) && truth_at(condition, "$exists") &&
	       cursor_open(&cursor, condition) && cursor_next(&cursor, &only) == CURSOR_ELEMENT &&
	       cursor_next(&cursor, &more) == CURSOR_END;
}

bool judge_orders_overflow(const struct rule *rule, struct bytes index)
{
	struct bytes keys, option;

	return document_at(index, "key", &keys) && overflow_is_unique_key(rule, keys) &&
	       !truth_at(index, "sparse") && !document_at(index, "collation", &option) &&
	       !document_at(index, "partialFilterExpression", &option);
}

must_check bool judge_overflow_index(const struct rule *rule, struct bytes index, struct unfit *why)
{
	struct bytes name = name_of(index);
	struct element element;

	if (document_find(index, "expireAfterSeconds", &element))
		return refuse(why, UNFIT_OVERFLOW_INDEX_TTL,
			      "its TTL index '%.*s' would take elements away", (int)name.length,
			      (const char *)name.data);
	if (judge_is_unique(index) && !judge_is_batch_index(rule, index) &&
	    !judge_is_place_index(rule, index))
		return refuse(why, UNFIT_OVERFLOW_INDEX_UNIQUE,
			      "its unique index '%.*s' could refuse elements", (int)name.length,
			      (const char *)name.data);
	return true;
}
