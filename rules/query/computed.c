/* Finds out whether a pipeline makes fields under hidden names, and marks its documents. */
#include "rules/query/computed.h"

#include "protocol/writer.h"
#include "rules/rule/names.h"
#include "rules/query/projection.h"

/* What a stage does to the names on its documents' top level. */
enum effect {
	EFFECT_NONE,  /* no new ones */
	EFFECT_ADDS,  /* those that are written in it */
	EFFECT_SETS,  /* these alone are left */
	EFFECT_COUNT, /* the same, and `count` may be one that is not written */
	EFFECT_EVENT, /* those of a change event */
	EFFECT_SPLIT, /* the same documents in parts; has to be the last */
	EFFECT_SINK,  /* no documents come */
	EFFECT_ANY,
};

static const struct {
	const char *verb;
	enum effect effect;
} stage_effects[] = {
	{"$match", EFFECT_NONE},
	{"$sort", EFFECT_NONE},
	{"$skip", EFFECT_NONE},
	{"$limit", EFFECT_NONE},
	{"$sample", EFFECT_NONE},
	{"$redact", EFFECT_NONE},
	{"$unset", EFFECT_NONE},
	{"$set", EFFECT_ADDS},
	{"$addFields", EFFECT_ADDS},
	{"$lookup", EFFECT_ADDS},
	{"$graphLookup", EFFECT_ADDS},
	{"$unwind", EFFECT_ADDS},
	{"$setWindowFields", EFFECT_ADDS},
	{"$fill", EFFECT_ADDS},
	{"$densify", EFFECT_ADDS},
	{"$geoNear", EFFECT_ADDS},
	{"$project", EFFECT_ADDS},
	{"$group", EFFECT_SETS},
	{"$count", EFFECT_SETS},
	{"$facet", EFFECT_SETS},
	{"$sortByCount", EFFECT_COUNT},
	{"$bucket", EFFECT_COUNT},
	{"$bucketAuto", EFFECT_COUNT},
	{"$changeStream", EFFECT_EVENT},
	{"$out", EFFECT_SINK},
	{"$merge", EFFECT_SINK},
	{"$changeStreamSplitLargeEvent", EFFECT_SPLIT},
};

/* {<name>: <expression>, ...}, not {$operator: ...} */
static bool is_literal(const struct element *root)
{
	struct element first;
	struct cursor cursor;

	return root->type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, root->value) &&
	       cursor_next(&cursor, &first) == CURSOR_ELEMENT && !bytes_begin_with(first.name, "$");
}

/* The stage puts another document in the place of each, whose names are written in it. */
static bool writes_root(const struct element *stage)
{
	struct element root;

	if (element_is(stage, "$replaceRoot"))
		return stage->type == BSON_BYTE_DOCUMENT &&
		       document_find(stage->value, "newRoot", &root) && is_literal(&root);
	return element_is(stage, "$replaceWith") && is_literal(stage);
}

static enum effect effect_of(const struct element *stage)
{
	if (writes_root(stage))
		return EFFECT_SETS;
	if (element_is(stage, "$project") && stage->type == BSON_BYTE_DOCUMENT &&
	    projection_inclusive(stage->value))
		return EFFECT_SETS;
	for (size_t i = 0; i < ARRAY_LENGTH(stage_effects); i++)
		if (element_is(stage, stage_effects[i].verb))
			return stage_effects[i].effect;
	return EFFECT_ANY; /* of a document that is no longer the collection's, for example */
}

static bool is_hidden(struct bytes path, const struct ruled_namespace *namespace)
{
	return name_find_hidden(path, namespace) || name_is_state(path);
}

static bool is_mark(struct bytes path, const struct ruled_namespace *namespace)
{
	(void)namespace;
	return bytes_are(path, NAME_COMPUTED);
}

/* In a stage. */
static bool writes(const struct element *stage, const struct ruled_namespace *namespace,
		   bool (*means)(struct bytes path, const struct ruled_namespace *namespace))
{
	struct bytes text;

	if (stage->type != BSON_BYTE_DOCUMENT && stage->type != BSON_BYTE_ARRAY)
		return element_string(stage, &text) && means(text, namespace);
	return name_is_said(stage, namespace, means);
}

static bool writes_hidden(const struct element *stage, const struct ruled_namespace *namespace)
{
	return writes(stage, namespace, is_hidden);
}

static bool events_have_hidden(const struct ruled_namespace *namespace)
{
	static const char *const names[] = {
		"_id",
		"operationType",
		"clusterTime",
		"wallTime",
		"ns",
		"nsType",
		"to",
		"documentKey",
		"fullDocument",
		"fullDocumentBeforeChange",
		"updateDescription",
		"operationDescription",
		"stateBeforeChange",
		"collectionUUID",
		"lsid",
		"txnNumber",
		"splitEvent",
	};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (is_hidden(bytes_of(names[i]), namespace))
			return true;
	return false;
}

/* `before`: of what came to the stage. */
static enum computed behind(const struct element *stage, enum computed before,
			    const struct ruled_namespace *namespace)
{
	switch (effect_of(stage)) {
	case EFFECT_NONE:
		return before;
	case EFFECT_ADDS:
		return writes_hidden(stage, namespace) ? COMPUTED_HIDDEN : before;
	case EFFECT_SETS:
		return writes_hidden(stage, namespace) ? COMPUTED_HIDDEN : COMPUTED_APART;
	case EFFECT_COUNT:
		return writes_hidden(stage, namespace) || is_hidden(bytes_of("count"), namespace)
			       ? COMPUTED_HIDDEN
			       : COMPUTED_APART;
	case EFFECT_EVENT:
		return events_have_hidden(namespace) ? COMPUTED_HIDDEN : COMPUTED_APART;
	case EFFECT_SPLIT:
		return before == COMPUTED_APART ? COMPUTED_APART : COMPUTED_UNMARKED;
	case EFFECT_SINK:
		return COMPUTED_APART;
	case EFFECT_ANY:
		return COMPUTED_HIDDEN;
	}
	require(!"an effect without a name");
}

enum computed computed_of(struct bytes pipeline, const struct ruled_namespace *namespace)
{
	enum computed computed = COMPUTED_APART;
	struct element document, stage;
	struct cursor stages;

	if (!name_hides_any(namespace) || !cursor_open(&stages, pipeline))
		return COMPUTED_APART;
	while (cursor_next(&stages, &document) == CURSOR_ELEMENT) {
		if (!element_only_field(&document, &stage))
			return COMPUTED_APART; /* mongod refuses it */
		computed = behind(&stage, computed, namespace);
	}
	return computed;
}

bool computed_marks(struct bytes pipeline)
{
	struct element document, stage;
	struct cursor stages;

	if (!cursor_open(&stages, pipeline))
		return false;
	while (cursor_next(&stages, &document) == CURSOR_ELEMENT)
		if (element_only_field(&document, &stage) && writes(&stage, NULL, is_mark))
			return true;
	return false;
}

void computed_write_mark(struct buffer *out, size_t *place)
{
	char name[12];
	size_t stage = writer_open_document(out, writer_index(name, (*place)++));
	size_t set = writer_open_document(out, "$set");

	writer_bool(out, NAME_COMPUTED, true);
	writer_close(out, set);
	writer_close(out, stage);
}
