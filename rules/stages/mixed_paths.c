/* Tells where a path below a ruled array is included, by the client or by mongod, and writes the
 * stage before it. */
#include "rules/stages/mixed_paths.h"

#include "rules/query/projection_leaves.h"
#include "rules/rule/names.h"
#include "rules/reassembly/raised.h"

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

/* What stages behind may tell of an array. */
enum telling {
	TELLS_NOTHING,
	TELLS_OTHERS,   /* whether it has elements that are no documents */
	TELLS_ELEMENTS, /* whether it has elements */
};

static enum telling worse(enum telling one, enum telling other)
{
	return one > other ? one : other;
}

/* What a path tells where mongod has projected it before it is followed: an inclusion leaves out
 * what is no document, and takes a position for a field of the elements. */
static enum telling path_tells(struct bytes path, const char *array)
{
	if (name_relate(path, array) != PATH_BELOW)
		return TELLS_NOTHING;
	return path_has_position(path) ? TELLS_ELEMENTS : TELLS_OTHERS;
}

static enum telling sort_tells(struct bytes keys, const char *array)
{
	enum telling telling = TELLS_NOTHING;
	struct cursor cursor;
	struct element key;

	if (!cursor_open(&cursor, keys))
		return telling;
	while (cursor_next(&cursor, &key) == CURSOR_ELEMENT)
		telling = worse(telling, path_tells(key.name, array));
	return telling;
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

/* The stages behind one, which are the same for each array. */
struct behind {
	struct cursor stages;
	enum unmixed_at at;
	bool known; /* whether any of them narrows */
	bool narrowed;
};

static bool any_narrows(struct behind *behind)
{
	struct cursor stages = behind->stages;
	struct element next;

	while (!behind->known && !behind->narrowed && cursor_next(&stages, &next) == CURSOR_ELEMENT)
		behind->narrowed = narrows(&next);
	behind->known = true;
	return behind->narrowed;
}

static bool any_includes_below(struct cursor stages, const char *array)
{
	struct element value, next;

	while (cursor_next(&stages, &next) == CURSOR_ELEMENT)
		if (is_stage(&next, "$project", &value) && includes_below(value.value, array))
			return true;
	return false;
}

/* A $sort at the front belongs to the query, which is projected behind it. A projection behind a
 * $unionWith goes into its pipeline. */
static bool sort_is_told(struct behind *behind, const char *array)
{
	return behind->at == UNMIXED_INNER ||
	       (behind->at == UNMIXED_LATER ? any_narrows(behind)
					    : any_includes_below(behind->stages, array));
}

/* What other stages read by a path, and not by an expression. An expression knows no positions, and
 * passes over what is no document. */
static enum telling paths_tell(const struct element *stage, const char *array)
{
	struct element value, sort;
	struct bytes path;

	if ((is_stage(stage, "$setWindowFields", &value) || is_stage(stage, "$fill", &value)) &&
	    document_find(value.value, "sortBy", &sort) && sort.type == BSON_BYTE_DOCUMENT)
		return sort_tells(sort.value, array);
	if (is_stage(stage, "$densify", &value) && document_find(value.value, "field", &sort) &&
	    element_string(&sort, &path))
		return path_tells(path, array);
	if (is_stage(stage, "$lookup", &value) && document_find(value.value, "localField", &sort) &&
	    element_string(&sort, &path) && path_tells(path, array) == TELLS_ELEMENTS)
		return TELLS_ELEMENTS;
	return TELLS_NOTHING;
}

/* Does what stands behind see what the stage makes of elements that are no documents, or of
 * positions? mongod sorts by what a later projection leaves; and where it takes a pipeline's first
 * stages for a query and the stage is not among them, by what that query leaves, which projects
 * what the stages want. */
static enum telling stage_tells(const struct element *stage, struct behind *behind,
				const char *array)
{
	struct cursor stages = behind->stages;
	struct element value, next;
	enum telling telling;
	bool told;

	if (is_stage(stage, "$project", &value) && includes_below(value.value, array))
		return behind->at == UNMIXED_INNER || cursor_next(&stages, &next) == CURSOR_ELEMENT
			       ? TELLS_OTHERS
			       : TELLS_NOTHING;
	if (is_stage(stage, "$sort", &value)) {
		telling = sort_tells(value.value, array);
		told = telling != TELLS_NOTHING && sort_is_told(behind, array);
	} else {
		telling = paths_tell(stage, array);
		told = telling != TELLS_NOTHING &&
		       (behind->at == UNMIXED_INNER || any_narrows(behind));
	}
	return told ? telling : TELLS_NOTHING;
}

/* ---- the stage ---- */

/* An error, if the array has elements that are no documents, or of a position any elements. */
static void write_stage(struct buffer *out, size_t *place, const struct rule *rule,
			enum telling telling)
{
	bool others = telling == TELLS_OTHERS;

	template_append(
		out, place,
		"{$replaceWith: {$cond: [{$and: [{$isArray: '$@array'}, {$ne: [@elements, []]}]}, "
		"@error, '$$ROOT']}}",
		fill("array", rule->array),
		fill_template("elements", others ? "{$filter: {input: '$@array', cond: "
						   "{$ne: [{$type: '$$this'}, 'object']}}}"
						 : "'$@array'"),
		fill_template("error", others ? RAISE(RAISED_MIXED) : RAISE(RAISED_NUMBERED)));
}

void unmixed_write(struct buffer *out, size_t *place, const struct element *stage,
		   struct cursor behind, enum unmixed_at at,
		   const struct ruled_namespace *namespace)
{
	struct behind stages = {.stages = behind, .at = at};

	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;
		enum telling telling = stage_tells(stage, &stages, rule->array);

		if (telling != TELLS_NOTHING)
			write_stage(out, place, rule, telling);
	}
}

void unmixed_write_find(struct buffer *out, size_t *place, const struct element *sort,
			const struct element *projection, const struct ruled_namespace *namespace)
{
	if (sort->type != BSON_BYTE_DOCUMENT || projection->type != BSON_BYTE_DOCUMENT)
		return;
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;
		enum telling telling = sort_tells(sort->value, rule->array);

		if (telling != TELLS_NOTHING && includes_below(projection->value, rule->array))
			write_stage(out, place, rule, telling);
	}
}
