/* Tells where a path below a ruled array is included, and writes the stage before it. */
#include "rules/unmixed.h"

#include "rules/call_writer.h"
#include "rules/leaves.h"
#include "rules/names.h"
#include "rules/reassemble.h"

/* ---- which stages ---- */

static bool includes_below(struct bytes projection, const char *array)
{
	enum cursor_step step = CURSOR_INVALID;
	bool includes = false;
	struct leaves leaves;
	struct leaf leaf;

	if (leaves_open(&leaves, projection))
		step = leaves_next(&leaves, &leaf);
	for (; step == CURSOR_ELEMENT; step = leaves_next(&leaves, &leaf))
		includes = includes || (leaf.kind == LEAF_INCLUDED &&
					name_relate(leaf.path, array) == PATH_BELOW);
	leaves_close(&leaves);
	return includes;
}

static bool sorts_below(struct bytes keys, const char *array)
{
	struct cursor cursor;
	struct element key;

	if (!cursor_open(&cursor, keys))
		return false;
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT)
		if (name_relate(key.name, array) == PATH_BELOW)
			return true;
	return false;
}

static bool is_stage(const struct element *stage, const char *verb, struct element *value)
{
	return stage->type == BSON_BYTE_DOCUMENT && document_find(stage->value, verb, value) &&
	       value->type == BSON_BYTE_DOCUMENT;
}

/* What stands behind it wants some fields only. */
static bool narrows(const struct element *stage)
{
	static const char *const verbs[] = {
		"$project",    "$group",       "$count",       "$sortByCount", "$bucket",
		"$bucketAuto", "$replaceWith", "$replaceRoot", "$facet",       "$setWindowFields"};
	struct element value;

	for (size_t i = 0; i < ARRAY_LENGTH(verbs); i++)
		if (stage->type == BSON_BYTE_DOCUMENT &&
		    document_find(stage->value, verbs[i], &value))
			return true;
	return false;
}

/* Does what stands behind see what the stage makes of elements that are no documents? mongod sorts
 * by what a later projection leaves; and where it takes a pipeline's first stages for a query and
 * the sort is not among them, by what that query leaves, which projects what the stages want. */
static bool needs_unmixed(const struct element *stage, struct cursor behind, enum unmixed_at at,
			  const char *array)
{
	struct element value, next;

	if (is_stage(stage, "$project", &value) && includes_below(value.value, array))
		return at == UNMIXED_INNER || cursor_next(&behind, &next) == CURSOR_ELEMENT;
	if (!is_stage(stage, "$sort", &value) || !sorts_below(value.value, array))
		return false;
	if (at == UNMIXED_INNER) /* a projection behind a $unionWith goes into its pipeline */
		return true;
	while (cursor_next(&behind, &next) == CURSOR_ELEMENT)
		if ((at == UNMIXED_LATER && narrows(&next)) ||
		    (is_stage(&next, "$project", &value) && includes_below(value.value, array)))
			return true;
	return false;
}

/* ---- the stage ---- */

/* {$filter: {input: "$f", cond: {$ne: [{$type: "$$this"}, "object"]}}} */
static void add_others(struct call *call, const char *array)
{
	char name[12];
	size_t document = writer_open_document(call->out, writer_index(name, call->place++));
	size_t filter = writer_open_document(call->out, "$filter");
	struct call differs;

	writer_string(call->out, "input", array);
	differs = call_open(call->out, "cond", "$ne");
	call_unary(&differs, "$type", "$$this");
	call_text(&differs, "object");
	call_close(&differs);
	writer_close(call->out, filter);
	writer_close(call->out, document);
}

/* {$replaceWith: {$cond: [<the array has others>, error, "$$ROOT"]}} */
static void write_stage(struct buffer *out, size_t *place, const struct rule *rule)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));
	auto_text array = text_join("$", rule->array, "");
	struct call choice = call_open(out, "$replaceWith", "$cond"), both, test;

	both = call_call(&choice, "$and");
	call_unary(&both, "$isArray", array.bytes);
	test = call_call(&both, "$ne");
	add_others(&test, array.bytes);
	call_nothing(&test);
	call_close(&test);
	call_close(&both);
	reassemble_add_mixed(&choice);
	call_text(&choice, "$$ROOT");
	call_close(&choice);
	writer_close(out, stage);
}

void unmixed_write(struct buffer *out, size_t *place, const struct element *stage,
		   struct cursor behind, enum unmixed_at at,
		   const struct ruled_namespace *namespace)
{
	for (size_t i = 0; i < namespace->target_count; i++)
		if (needs_unmixed(stage, behind, at, namespace->targets[i].rule->array))
			write_stage(out, place, namespace->targets[i].rule);
}

void unmixed_write_find(struct buffer *out, size_t *place, const struct element *sort,
			const struct element *projection, const struct ruled_namespace *namespace)
{
	if (sort->type != BSON_BYTE_DOCUMENT || projection->type != BSON_BYTE_DOCUMENT)
		return;
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;

		if (sorts_below(sort->value, rule->array) &&
		    includes_below(projection->value, rule->array))
			write_stage(out, place, rule);
	}
}
