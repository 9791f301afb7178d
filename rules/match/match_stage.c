/* What the stages of an aggregate make of documents that may carry a ruled array. */
#include "rules/match/match_stage.h"

#include "rules/query/filter_split.h"
#include "rules/query/projection.h"
#include "rules/query/projection_leaves.h"
#include "rules/rule/names.h"

#include <stdio.h>

static enum stage_kind kind_of_reads(const struct matching *matching, const struct reads *reads,
				     const char *role, enum stage_kind otherwise)
{
	bool array = false;

	if (match_judge_reads(matching->match, reads, role, &array))
		return STAGE_REFUSED;
	return array ? STAGE_OTHER : otherwise;
}

static enum stage_kind classify_match(const struct matching *matching, const struct element *stage)
{
	struct reads reads;
	enum stage_kind kind;

	if (stage->type != BSON_BYTE_DOCUMENT)
		return STAGE_KEEPS;
	reads = reads_of_filter(stage->value, matching->match->namespace);
	kind = kind_of_reads(matching, &reads, "$match", STAGE_KEEPS);
	if (kind == STAGE_OTHER &&
	    match_refuse_by_index(matching->match, stage,
				  &matching->command->fields[FIELD_COLLATION]))
		return STAGE_REFUSED;
	if (kind != STAGE_OTHER || filter_fits_pipeline(stage->value))
		return kind;
	match_reassemble(matching->match, "a $match that reads the ruled array",
			 aggregate_unserved_filter(stage, matching->match->namespace));
	return STAGE_REFUSED;
}

static enum stage_kind classify_sort(const struct matching *matching, const struct element *stage)
{
	struct reads reads;

	if (stage->type != BSON_BYTE_DOCUMENT)
		return STAGE_KEEPS;
	reads = reads_of_sort(stage->value, matching->match->namespace);
	return kind_of_reads(matching, &reads, "$sort", STAGE_KEEPS);
}

static enum stage_kind classify_expression(const struct matching *matching,
					   const struct element *stage, enum stage_kind otherwise)
{
	struct reads reads = reads_of_expression(stage, matching->match->namespace);
	char role[64];

	snprintf(role, sizeof(role), "%.*s", (int)stage->name.length,
		 (const char *)stage->name.data);
	return kind_of_reads(matching, &reads, role, otherwise);
}

/* The array, or a field that it lies in. */
static bool excludes(struct bytes projection, const char *array)
{
	enum cursor_step step = CURSOR_INVALID;
	struct leaves leaves;
	struct leaf leaf;
	bool found = false;

	if (leaves_open(&leaves, projection))
		step = leaves_next(&leaves, &leaf);
	for (; !found && step == CURSOR_ELEMENT; step = leaves_next(&leaves, &leaf))
		found = leaf.kind == LEAF_EXCLUDED && path_covers(leaf.path, array);
	leaves_close(&leaves);
	return found;
}

static bool unsets(const struct element *stage, const char *array)
{
	struct cursor names;
	struct element name;
	struct bytes path;

	if (element_string(stage, &path))
		return path_covers(path, array);
	if (stage->type != BSON_BYTE_ARRAY || !cursor_open(&names, stage->value))
		return false;
	while (cursor_next(&names, &name) == CURSOR_ELEMENT)
		if (element_string(&name, &path) && path_covers(path, array))
			return true;
	return false;
}

/* $project or $unset: takes all the arrays away. */
static bool takes_arrays(const struct matching *matching, const struct element *stage)
{
	const struct ruled_namespace *namespace = matching->match->namespace;

	for (size_t i = 0; i < namespace->target_count; i++) {
		const char *array = namespace->targets[i].rule->array;

		if (stage->type == BSON_BYTE_DOCUMENT ? !excludes(stage->value, array)
						      : !unsets(stage, array))
			return false;
	}
	return !match_lost_meta(matching->command);
}

static enum stage_kind classify_project(const struct matching *matching,
					const struct element *stage)
{
	struct projection projection;

	if (stage->type != BSON_BYTE_DOCUMENT)
		return STAGE_OTHER;
	projection = projection_classify(stage->value, matching->match->namespace);
	if (projection.kind == PROJECTION_FORWARD)
		return STAGE_DROPS;
	return takes_arrays(matching, stage) ? STAGE_BARES : STAGE_OTHER;
}

static bool is_source(const struct element *stage)
{
	static const char *const sources[] = {
		"$changeStream", "$search",       "$searchMeta",        "$vectorSearch",
		"$currentOp",    "$listSessions", "$listLocalSessions", "$listSearchIndexes",
		"$queryStats",   "$documents",    "$backupCursor",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(sources); i++)
		if (element_is(stage, sources[i]))
			return true;
	return false;
}

/* A path to the arrays, or of a field that belongs to a rule. */
static bool is_ours(const struct matching *matching, struct bytes path)
{
	const struct ruled_namespace *namespace = matching->match->namespace;

	return name_is_other(path, namespace) || name_find_reserved(path, namespace);
}

/* Of $geoNear: a filter, names of fields to read or to write, and expressions. */
static enum stage_kind classify_near_option(const struct matching *matching,
					    const struct element *option)
{
	static const char *const names[] = {"distanceField", "includeLocs", "key"};
	struct bytes name;

	if (element_is(option, "query"))
		return classify_match(matching, option);
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (element_is(option, names[i]) && element_string(option, &name) &&
		    is_ours(matching, name))
			return STAGE_OTHER;
	return classify_expression(matching, option, STAGE_KEEPS);
}

static enum stage_kind classify_near(const struct matching *matching, const struct element *stage)
{
	enum stage_kind kind = STAGE_KEEPS;
	struct cursor cursor;
	struct element option;

	if (stage->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, stage->value))
		return STAGE_KEEPS;
	while (kind == STAGE_KEEPS && cursor_next(&cursor, &option) == CURSOR_ELEMENT)
		kind = classify_near_option(matching, &option);
	return kind == STAGE_OTHER ? STAGE_SOURCE : kind;
}

/* A path of the documents' own that is apart from the arrays, from what is hidden and from `_id`.
 */
static bool is_apart(const struct matching *matching, struct bytes path)
{
	return !is_ours(matching, path) && path_relate(path, "_id") == PATH_APART;
}

/* {"f": <value>} puts the value in the array's place: a document would go into its elements, if it
 * is no expression. */
static bool replaces(const struct element *field, const char *array)
{
	struct element first;
	struct cursor cursor;

	return path_covers(field->name, array) &&
	       (field->type != BSON_BYTE_DOCUMENT ||
		(cursor_open(&cursor, field->value) &&
		 cursor_next(&cursor, &first) == CURSOR_ELEMENT && first.name.length > 0 &&
		 first.name.data[0] == '$'));
}

/* $set puts other values in the place of all the arrays, and sets nothing of a rule's. */
static bool replaces_arrays(const struct matching *matching, const struct element *stage)
{
	const struct ruled_namespace *namespace = matching->match->namespace;
	size_t replaced = 0;
	struct cursor fields;
	struct element field;

	if (stage->type != BSON_BYTE_DOCUMENT || !cursor_open(&fields, stage->value))
		return false;
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT) {
		bool replaces_one = false;

		for (size_t i = 0; i < namespace->target_count; i++)
			if (replaces(&field, namespace->targets[i].rule->array)) {
				replaces_one = true;
				replaced++;
			}
		if (!replaces_one && !is_apart(matching, field.name))
			return false;
	}
	return replaced == namespace->target_count && !match_lost_meta(matching->command);
}

static enum stage_kind classify_set(const struct matching *matching, const struct element *stage)
{
	struct cursor fields;
	struct element field;

	if (replaces_arrays(matching, stage))
		return classify_expression(matching, stage, STAGE_BARES);
	if (stage->type != BSON_BYTE_DOCUMENT || !cursor_open(&fields, stage->value))
		return STAGE_OTHER;
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT)
		if (!is_apart(matching, field.name))
			return STAGE_OTHER;
	return classify_expression(matching, stage, STAGE_KEEPS);
}

static enum stage_kind classify_unset(const struct matching *matching, const struct element *stage)
{
	struct cursor names;
	struct element name;
	struct bytes path;

	if (element_string(stage, &path))
		return is_apart(matching, path) ? STAGE_KEEPS : STAGE_OTHER;
	if (stage->type != BSON_BYTE_ARRAY || !cursor_open(&names, stage->value))
		return STAGE_OTHER;
	while (cursor_next(&names, &name) == CURSOR_ELEMENT)
		if (!element_string(&name, &path) || !is_apart(matching, path))
			return STAGE_OTHER;
	return STAGE_KEEPS;
}

/* One that stands twice is judged twice: mongod takes the last. */
static enum stage_kind classify_lookup_option(const struct matching *matching,
					      const struct element *option)
{
	struct bytes path;

	if (element_is(option, "let"))
		return classify_expression(matching, option, STAGE_KEEPS);
	if (element_is(option, "as"))
		return element_string(option, &path) && is_apart(matching, path) ? STAGE_KEEPS
										 : STAGE_OTHER;
	if (!element_is(option, "localField"))
		return STAGE_KEEPS;
	return element_string(option, &path) && !name_is_other(path, matching->match->namespace)
		       ? STAGE_KEEPS
		       : STAGE_OTHER;
}

/* `joins`: some stage reads a ruled namespace, and is written anew. */
static enum stage_kind classify_lookup(const struct matching *matching, const struct element *stage,
				       bool joins)
{
	enum stage_kind kind = STAGE_KEEPS;
	struct cursor options;
	struct element option;

	if (joins || stage->type != BSON_BYTE_DOCUMENT || !cursor_open(&options, stage->value) ||
	    !document_find(stage->value, "as", &option))
		return STAGE_OTHER;
	while (kind == STAGE_KEEPS && cursor_next(&options, &option) == CURSOR_ELEMENT)
		kind = classify_lookup_option(matching, &option);
	return kind;
}

/* ---- stages that carry the array along ---- */

/* A list of names, none of which is an array's. */
static bool are_apart(const struct matching *matching, const struct element *list)
{
	struct cursor cursor;
	struct element name;
	struct bytes path;

	if (list->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, list->value))
		return false;
	while (cursor_next(&cursor, &name) == CURSOR_ELEMENT)
		if (!element_string(&name, &path) || !is_apart(matching, path))
			return false;
	return true;
}

/* {<field>: <what is written there>, ...} */
static bool writes_apart(const struct matching *matching, const struct element *output)
{
	struct cursor cursor;
	struct element field;

	if (output->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, output->value))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!is_apart(matching, field.name))
			return false;
	return true;
}

/* Of $setWindowFields, $fill and $densify. */
static bool option_is_apart(const struct matching *matching, const struct element *option)
{
	struct bytes path;

	if (element_is(option, "sortBy"))
		return option->type == BSON_BYTE_DOCUMENT &&
		       reads_of_sort(option->value, matching->match->namespace).kind ==
			       READS_NOTHING;
	if (element_is(option, "partitionByFields"))
		return are_apart(matching, option);
	if (element_is(option, "field"))
		return element_string(option, &path) && is_apart(matching, path);
	if (element_is(option, "output") && !writes_apart(matching, option))
		return false;
	return element_is(option, "partitionBy") || element_is(option, "output") ||
	       element_is(option, "range");
}

static enum stage_kind classify_window(const struct matching *matching, const struct element *stage)
{
	struct cursor options;
	struct element option;

	if (stage->type != BSON_BYTE_DOCUMENT || !cursor_open(&options, stage->value))
		return STAGE_OTHER;
	while (cursor_next(&options, &option) == CURSOR_ELEMENT)
		if (!option_is_apart(matching, &option))
			return STAGE_OTHER;
	return classify_expression(matching, stage, STAGE_CARRIES);
}

static enum stage_kind classify_unwind(const struct matching *matching, const struct element *stage)
{
	struct element path = *stage, index;
	struct bytes name, text;

	if (stage->type == BSON_BYTE_DOCUMENT) {
		if (!document_find(stage->value, "path", &path))
			return STAGE_OTHER;
		if (document_find(stage->value, "includeArrayIndex", &index) &&
		    (!element_string(&index, &name) || !is_apart(matching, name)))
			return STAGE_OTHER;
	}
	if (!element_string(&path, &text) || text.length < 2 || text.data[0] != '$')
		return STAGE_OTHER;
	text = (struct bytes){text.data + 1, text.length - 1};
	return is_apart(matching, text) ? STAGE_CARRIES : STAGE_OTHER;
}

/* $$DESCEND goes through the array's elements, whose expressions may fail. */
static enum stage_kind classify_redact(const struct matching *matching, const struct element *stage)
{
	return bytes_contain(stage->value, "$$DESCEND")
		       ? STAGE_OTHER
		       : classify_expression(matching, stage, STAGE_CARRIES);
}

/* Each of its pipelines has to drop the array. */
static enum stage_kind classify_facet(const struct matching *matching, const struct element *stage,
				      bool joins)
{
	struct cursor pipelines, stages;
	struct element pipeline;
	size_t at;

	if (joins || stage->type != BSON_BYTE_DOCUMENT || !cursor_open(&pipelines, stage->value))
		return STAGE_OTHER;
	while (cursor_next(&pipelines, &pipeline) == CURSOR_ELEMENT)
		if (pipeline.type != BSON_BYTE_ARRAY || !cursor_open(&stages, pipeline.value) ||
		    match_follow_stages(matching, stages, joins, true, &at) != STAGE_DROPS)
			return STAGE_OTHER;
	return STAGE_DROPS;
}

static enum stage_kind classify_carrier(const struct matching *matching,
					const struct element *stage, bool joins)
{
	if (element_is(stage, "$unwind"))
		return classify_unwind(matching, stage);
	if (element_is(stage, "$redact"))
		return classify_redact(matching, stage);
	if (element_is(stage, "$setWindowFields") || element_is(stage, "$fill") ||
	    element_is(stage, "$densify"))
		return classify_window(matching, stage);
	if (element_is(stage, "$unionWith"))
		return joins ? STAGE_OTHER : STAGE_MIXES;
	return element_is(stage, "$facet") ? classify_facet(matching, stage, joins) : STAGE_OTHER;
}

static bool drops_documents(const struct element *stage)
{
	static const char *const verbs[] = {"$group",      "$sortByCount", "$bucket",
					    "$bucketAuto", "$replaceRoot", "$replaceWith"};

	for (size_t i = 0; i < ARRAY_LENGTH(verbs); i++)
		if (element_is(stage, verbs[i]))
			return true;
	return false;
}

enum stage_kind match_classify_stage(const struct matching *matching, const struct element *stage,
				     bool joins)
{
	if (element_is(stage, "$match"))
		return classify_match(matching, stage);
	if (element_is(stage, "$sort"))
		return classify_sort(matching, stage);
	if (element_is(stage, "$skip") || element_is(stage, "$limit") ||
	    element_is(stage, "$sample"))
		return STAGE_KEEPS;
	if (drops_documents(stage))
		return classify_expression(matching, stage, STAGE_DROPS);
	if (element_is(stage, "$project"))
		return classify_project(matching, stage);
	if (element_is(stage, "$count") || element_is(stage, "$collStats") ||
	    element_is(stage, "$indexStats") || element_is(stage, "$planCacheStats") ||
	    element_is(stage, "$listCatalog"))
		return STAGE_DROPS;
	if (element_is(stage, "$geoNear"))
		return classify_near(matching, stage);
	if (element_is(stage, "$lookup"))
		return classify_lookup(matching, stage, joins);
	if (element_is(stage, "$set") || element_is(stage, "$addFields"))
		return classify_set(matching, stage);
	if (element_is(stage, "$unset"))
		return takes_arrays(matching, stage) ? STAGE_BARES
						     : classify_unset(matching, stage);
	return is_source(stage) ? STAGE_SOURCE : classify_carrier(matching, stage, joins);
}

/* Of one that is judged as if it came alone. */
static enum stage_kind follow(const struct matching *matching, struct cursor *stages, bool joins,
			      bool mixed, size_t *at)
{
	struct element document, stage;
	enum stage_kind kind;

	for (*at = 0; cursor_next(stages, &document) == CURSOR_ELEMENT; ++*at) {
		if (!element_only_field(&document, &stage))
			return STAGE_OTHER;
		kind = match_classify_stage(matching, &stage, joins);
		mixed = mixed || kind == STAGE_MIXES;
		if (kind == STAGE_DROPS || (kind == STAGE_BARES && !mixed))
			return kind;
		if (kind != STAGE_KEEPS && kind != STAGE_CARRIES && kind != STAGE_MIXES)
			return STAGE_OTHER;
	}
	return STAGE_OTHER; /* whole documents come out */
}

enum stage_kind match_follow_stages(const struct matching *matching, struct cursor stages,
				    bool joins, bool mixed, size_t *at)
{
	struct match match = *matching->match;
	struct matching scratch = *matching;
	enum stage_kind kind;

	scratch.match = &match;
	kind = follow(&scratch, &stages, joins, mixed, at);
	if (kind != STAGE_OTHER)
		*matching->match = match;
	return kind;
}
