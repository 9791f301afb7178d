/* Exact change streams with stages of the client, that are open at a server. */
#include "proxy/upstream/open_streams.h"

#include "proxy/upstream/clauses.h"
#include "rules/rule/names.h"

struct looking {
	void (*take)(void *context, struct bytes database, struct bytes collection);
	void *context;
};

/* A stage of Spillway's sets a field with such a name. */
static bool is_marking(const struct element *stage)
{
	struct element set, field;
	struct cursor fields;

	if (stage->type != BSON_BYTE_DOCUMENT || !document_find(stage->value, "$set", &set) ||
	    set.type != BSON_BYTE_DOCUMENT || !cursor_open(&fields, set.value))
		return false;
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT)
		if (bytes_begin_with(field.name, NAME_STATE "/"))
			return true;
	return false;
}

static bool marks(const struct element *pipeline)
{
	struct cursor stages;
	struct element stage;

	if (pipeline->type != BSON_BYTE_ARRAY || !cursor_open(&stages, pipeline->value))
		return false;
	while (cursor_next(&stages, &stage) == CURSOR_ELEMENT)
		if (is_marking(&stage))
			return true;
	return false;
}

static void take_cursor(void *context, struct bytes document)
{
	const struct looking *looking = context;
	struct bytes name, database, collection;
	struct element pipeline;

	if (document_find(document, "pipeline", &pipeline) && marks(&pipeline) &&
	    document_find_string(document, "ns", &name) && name_split(name, &database, &collection))
		looking->take(looking->context, database, collection);
}

must_check enum link_result open_streams_each(struct link *link,
					      void (*take)(void *context, struct bytes database,
							   struct bytes collection),
					      void *context)
{
	struct looking looking = {take, context};

	return command_find(
		link, "admin", take_cursor, &looking,
		"{aggregate: 1, pipeline: [{$currentOp: {allUsers: true, idleCursors: true, "
		"idleConnections: false, idleSessions: false}}, {$match: {'cursor.tailable': "
		"true}}, {$project: {ns: 1, pipeline: '$cursor.originatingCommand.pipeline'}}], "
		"cursor: {}}");
}
