/* Goes through the stages behind an aggregate's first $match. */
#include "rules/stages/first_match.h"

#include "rules/query/filter_split.h"
#include "rules/rule/names.h"
#include "rules/query/projection.h"
#include "rules/query/reads.h"

#include <string.h>

/* Whose documents have the fields that the client names or that they had, none of them `_spill`.
 */
static bool keeps_names(const struct element *document)
{
	static const char *const stages[] = {
		"$match", "$sort",      "$skip",       "$limit",  "$group",       "$project",
		"$set",   "$addFields", "$unset",      "$unwind", "$sortByCount", "$count",
		"$facet", "$bucket",    "$bucketAuto", "$lookup",
	};
	struct element stage;

	if (!element_only_field(document, &stage))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(stages); i++)
		if (element_is(&stage, stages[i]))
			return true;
	return false;
}

static bool mentions_state(struct bytes pipeline)
{
	return memmem(pipeline.data, pipeline.length, NAME_STATE, strlen(NAME_STATE));
}

size_t first_match(const struct command *command, struct buffer *joined, struct element *filter)
{
	const struct element *pipeline = &command->fields[FIELD_PIPELINE];
	struct cursor stages;
	struct element document;
	enum cursor_step step;
	size_t count;

	if (pipeline->type != BSON_BYTE_ARRAY || mentions_state(pipeline->value) ||
	    !cursor_open(&stages, pipeline->value) ||
	    cursor_next(&stages, &document) != CURSOR_ELEMENT)
		return 0;
	count = filter_join_matches(joined, &document, &stages, filter);
	while ((step = cursor_next(&stages, &document)) == CURSOR_ELEMENT)
		if (!keeps_names(&document))
			return 0;
	return step == CURSOR_END ? count : 0;
}

int64_t first_match_batch(const struct command *command, int64_t usual)
{
	struct element cursor, size;
	struct cursor options;
	int64_t number = usual;

	if (!document_find(command->body, "cursor", &cursor))
		return usual;
	if (cursor.type != BSON_BYTE_DOCUMENT || !cursor_open(&options, cursor.value))
		return 0;
	while (cursor_next(&options, &size) == CURSOR_ELEMENT)
		if (!element_is(&size, "batchSize") || !element_integer(&size, &number))
			return 0;
	return number;
}

enum then {
	THEN_ON,    /* the same documents */
	THEN_OTHER, /* others, that have no ruled array */
	THEN_ARRAY,
};

static enum then after(const struct element *stage, const struct ruled_namespace *namespace)
{
	if (element_is(stage, "$skip") || element_is(stage, "$limit"))
		return THEN_ON;
	if (element_is(stage, "$count"))
		return THEN_OTHER;
	if (element_is(stage, "$group") || element_is(stage, "$sortByCount"))
		return reads_of_expression(stage, namespace).kind == READS_NOTHING ? THEN_OTHER
										   : THEN_ARRAY;
	if (stage->type != BSON_BYTE_DOCUMENT)
		return THEN_ARRAY;
	if (element_is(stage, "$match"))
		return reads_of_filter(stage->value, namespace).kind == READS_NOTHING ? THEN_ON
										      : THEN_ARRAY;
	if (element_is(stage, "$sort"))
		return reads_of_sort(stage->value, namespace).kind == READS_NOTHING ? THEN_ON
										    : THEN_ARRAY;
	if (element_is(stage, "$project"))
		return projection_classify(stage->value, namespace).kind == PROJECTION_FORWARD
			       ? THEN_OTHER
			       : THEN_ARRAY;
	return THEN_ARRAY;
}

static bool suffice(struct cursor *stages, const struct ruled_namespace *namespace)
{
	enum then then = THEN_ON;
	struct element document, stage;

	while (then == THEN_ON && cursor_next(stages, &document) == CURSOR_ELEMENT &&
	       element_only_field(&document, &stage))
		then = after(&stage, namespace);
	return then == THEN_OTHER;
}

bool first_match_suffices(const struct command *command, const struct ruled_namespace *namespace)
{
	auto_buffer struct buffer joined = {0};
	struct element first, filter;
	struct cursor stages;

	return cursor_open(&stages, command->fields[FIELD_PIPELINE].value) &&
	       cursor_next(&stages, &first) == CURSOR_ELEMENT &&
	       filter_join_matches(&joined, &first, &stages, &filter) > 0 &&
	       suffice(&stages, namespace);
}

bool stages_suffice(struct bytes pipeline, const struct ruled_namespace *namespace)
{
	struct cursor stages;

	return cursor_open(&stages, pipeline) && suffice(&stages, namespace);
}
