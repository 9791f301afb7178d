/* Says what a pipeline update does to the ruled arrays: nothing only where every stage sets, unsets
 * or excludes other paths and reads none of them. */
#include "protocol/writer.h"
#include "rules/rule/names.h"
#include "rules/query/reads.h"
#include "rules/query/update.h"
#include "rules/rule/walk.h"

static void note_path(struct update *update, const struct ruled_namespace *namespace,
		      struct bytes path, const struct element *stage)
{
	const struct rule *rule = name_rule(path, namespace);

	update_note_reserved(update, namespace, path);
	if (rule)
		update_note(update, UPDATE_EDIT, rule, stage->name, "a pipeline");
}

static void note_expression(struct update *update, const struct ruled_namespace *namespace,
			    const struct element *expression)
{
	static const enum update_kind kinds[] = {
		[READS_NOTHING] = UPDATE_PLAIN,
		[READS_ARRAY] = UPDATE_EDIT,
		[READS_RESERVED] = UPDATE_RESERVED,
		[READS_BROKEN] = UPDATE_BROKEN,
	};
	struct reads reads = reads_of_expression(expression, namespace);

	update_note(update, kinds[reads.kind], reads.rule, bytes_of(""), reads.what);
}

/* {$set: {path: expression}} */
static void classify_set(const struct element *stage, const struct element *field,
			 const struct ruled_namespace *namespace, struct update *update)
{
	note_path(update, namespace, field->name, stage);
	note_expression(update, namespace, field);
}

/* {$project: {path: 0}}; one that includes or computes drops all other paths. */
static void classify_exclusion(const struct element *stage, const struct element *field,
			       const struct ruled_namespace *namespace, struct update *update)
{
	int64_t number;
	bool excludes = (field->type == BSON_BYTE_BOOL || element_integer(field, &number)) &&
			!element_truth(field);

	note_path(update, namespace, field->name, stage);
	if (!excludes)
		update_note(update, UPDATE_EDIT, namespace->targets[0].rule, stage->name,
			    "a pipeline");
}

/* {$unset: [path]} */
static void classify_unset(const struct element *stage, const struct element *field,
			   const struct ruled_namespace *namespace, struct update *update)
{
	struct bytes path;

	if (element_string(field, &path))
		note_path(update, namespace, path, stage);
}

typedef void classify_field(const struct element *stage, const struct element *field,
			    const struct ruled_namespace *namespace, struct update *update);

/* Every element of the stage's document or array. */
static void classify_fields(const struct element *stage, classify_field *classify,
			    const struct ruled_namespace *namespace, struct update *update)
{
	struct cursor cursor;
	struct element field;
	enum cursor_step step = CURSOR_INVALID;

	if (cursor_open(&cursor, stage->value))
		step = cursor_next(&cursor, &field);
	while (step == CURSOR_ELEMENT) {
		classify(stage, &field, namespace, update);
		step = cursor_next(&cursor, &field);
	}
	if (step != CURSOR_END)
		update_note(update, UPDATE_BROKEN, NULL, bytes_of(""), "broken BSON");
}

static void classify_stage(const struct element *stage, const struct ruled_namespace *namespace,
			   struct update *update)
{
	bool document = stage->type == BSON_BYTE_DOCUMENT;

	if (element_is(stage, "$unset") && stage->type == BSON_BYTE_STRING)
		classify_unset(stage, stage, namespace, update);
	else if (element_is(stage, "$unset") && stage->type == BSON_BYTE_ARRAY)
		classify_fields(stage, classify_unset, namespace, update);
	else if ((element_is(stage, "$set") || element_is(stage, "$addFields")) && document)
		classify_fields(stage, classify_set, namespace, update);
	else if (element_is(stage, "$project") && document)
		classify_fields(stage, classify_exclusion, namespace, update);
	else
		update_note(update, UPDATE_EDIT, namespace->targets[0].rule, stage->name,
			    "an unknown stage");
}

void update_classify_pipeline(struct bytes stages, const struct ruled_namespace *namespace,
			      struct update *update)
{
	struct walk walk;
	struct element element;
	enum cursor_step step = CURSOR_INVALID;

	step = walk_first(&walk, BSON_BYTE_ARRAY, stages, &element);
	while (step == CURSOR_ELEMENT) {
		bool sound = true;

		if (!walk_in_array(&walk))
			classify_stage(&element, namespace, update);
		else if (element.type == BSON_BYTE_DOCUMENT)
			sound = walk_into(&walk, element.type, element.value);
		step = sound ? walk_next(&walk, &element) : CURSOR_INVALID;
	}
	if (step != CURSOR_END)
		update_note(update, UPDATE_BROKEN, NULL, bytes_of(""), "broken BSON");
}

/* ---- pipelines that compute names ---- */

/* Stages that write only to the paths that they spell out. */
static bool stage_spells_names(const struct element *stage)
{
	static const char *const verbs[] = {"$set", "$addFields", "$unset", "$project"};

	for (size_t i = 0; i < ARRAY_LENGTH(verbs); i++)
		if (element_is(stage, verbs[i]))
			return true;
	return false;
}

bool update_computes_names(const struct element *u)
{
	struct cursor stages, fields;
	struct element stage, verb;

	if (u->type != BSON_BYTE_ARRAY || !cursor_open(&stages, u->value))
		return false;
	while (cursor_next(&stages, &stage) == CURSOR_ELEMENT) {
		if (stage.type != BSON_BYTE_DOCUMENT || !cursor_open(&fields, stage.value))
			continue;
		while (cursor_next(&fields, &verb) == CURSOR_ELEMENT)
			if (!stage_spells_names(&verb))
				return true;
	}
	return false;
}

size_t update_stage_count(const struct element *u)
{
	struct cursor stages;
	struct element stage;
	size_t count = 0;

	if (u->type != BSON_BYTE_ARRAY || !cursor_open(&stages, u->value))
		return 0;
	while (cursor_next(&stages, &stage) == CURSOR_ELEMENT)
		count++;
	return count;
}
