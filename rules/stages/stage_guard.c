/* Keeps computed and merged documents away from names that are not theirs to write. */
#include "rules/stages/stage_guard.h"

#include "protocol/repeats.h"
#include "rules/reassembly/raised.h"
#include "rules/rule/own_fields.h"

void stage_guard_write(struct buffer *out, const char *name, const struct element *u)
{
	template_write(out, name,
		       "[..@stages, {$set: {_spill: {$cond: [@our_name, @error, '$$REMOVE']}}}]",
		       fill_array("stages", u->value), /* it has been classified */
		       fill_template("our_name", EXPRESSION_HAS_OUR_NAME),
		       fill_template("error", RAISE(RAISED_FORGED)));
}

/* ---- $merge ---- */

/* {db, coll}, or a name */
static bool read_name(const struct element *value, struct bytes *database, struct bytes *collection)
{
	struct element name;

	if (element_string(value, collection))
		return true;
	if (value->type != BSON_BYTE_DOCUMENT || !document_find(value->value, "coll", &name) ||
	    !element_string(&name, collection))
		return false;
	return !document_find(value->value, "db", &name) || element_string(&name, database);
}

bool stage_guard_target(const struct element *value, const char *key, struct bytes *database,
			struct bytes *collection)
{
	struct element name;

	if (element_string(value, collection))
		return true;
	if (value->type != BSON_BYTE_DOCUMENT || !document_find(value->value, key, &name))
		return false;
	if (name.type == BSON_BYTE_DOCUMENT)
		return read_name(&name, database, collection);
	return read_name(&name, database, collection) &&
	       (!document_find(value->value, "db", &name) || element_string(&name, database));
}

enum stage_guard_mode stage_guard_mode(const struct element *merge)
{
	static const char *const whole[] = {"replace", "keepExisting", "fail"};
	struct element matched;
	struct bytes word;

	if (merge->type != BSON_BYTE_DOCUMENT || document_has_twice(merge->value, "into"))
		return merge->type == BSON_BYTE_STRING ? STAGE_GUARD_FIELDS : STAGE_GUARD_OTHER;
	if (!document_find(merge->value, "whenMatched", &matched))
		return STAGE_GUARD_FIELDS;
	if (document_has_twice(merge->value, "whenMatched") || !element_string(&matched, &word))
		return STAGE_GUARD_OTHER;
	for (size_t i = 0; i < ARRAY_LENGTH(whole); i++)
		if (bytes_are(word, whole[i]))
			return STAGE_GUARD_WHOLE;
	return bytes_are(word, "merge") ? STAGE_GUARD_FIELDS : STAGE_GUARD_OTHER;
}

/* Appends a test: the document has the first part of the path. */
static void write_named(struct buffer *tests, const char *path)
{
	const struct bytes first = {(const uint8_t *)path, strcspn(path, ".")};

	template_write_document(tests, "{$ne: [{$type: '$@first'}, 'missing']}",
				fill("first", first));
}

static void write_names_of_rule(struct buffer *tests, const struct rule *rule)
{
	write_named(tests, rule->array);
	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++)
		if (own_field_name(rule, field))
			write_named(tests, own_field_name(rule, field));
}

/* A merge of fields takes a name with a dot for a path, into an array or a state perhaps. */
static const char has_dot[] = "{$anyElementTrue: [{$map: {"
			      "input: {$objectToArray: '$$ROOT'}, "
			      "in: {$gte: [{$indexOfBytes: ['$$this.k', '.']}, 0]}}}]}";

void stage_guard_write_merge(struct buffer *out, size_t *place,
			     const struct ruled_namespace *namespace, const struct element *merge)
{
	bool by_field = stage_guard_mode(merge) == STAGE_GUARD_FIELDS;
	auto_buffer struct buffer names = {0};

	for (size_t i = 0; i < namespace->target_count; i++)
		write_names_of_rule(&names, namespace->targets[i].rule);
	template_append(out, place,
			"{$set: {_spill: {$cond: [{$or: [@our_name, ..@of_fields]}, @error, "
			"'$$REMOVE']}}}",
			fill_template("our_name", EXPRESSION_HAS_OUR_NAME),
			fill_template("of_fields", by_field ? "[@has_dot, ..@names]" : "[]"),
			fill_template("has_dot", has_dot),
			fill_documents("names", buffer_view(&names)),
			fill_template("error", RAISE(RAISED_UNSAFE)));
}
