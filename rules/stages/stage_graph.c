/* Writes a $graphLookup from a ruled namespace. */
#include "rules/stages/stage_graph.h"

#include "rules/rule/names.h"
#include "rules/query/reads.h"
#include "rules/reassembly/reassemble.h"

/* What the stage says; type 0 where it doesn't. */
enum graph_field {
	GRAPH_FROM,
	GRAPH_AS,
	GRAPH_TO,
	GRAPH_BY,
	GRAPH_DEPTH,
	GRAPH_FILTER,
	GRAPH_FIELDS
};

static const char *const field_names[GRAPH_FIELDS] = {
	[GRAPH_FROM] = "from",         [GRAPH_AS] = "as",
	[GRAPH_TO] = "connectToField", [GRAPH_BY] = "connectFromField",
	[GRAPH_DEPTH] = "depthField",  [GRAPH_FILTER] = "restrictSearchWithMatch",
};

struct graph {
	struct element verb;
	struct element fields[GRAPH_FIELDS];
	const struct ruled_namespace *namespace;
	bool clear; /* none of them stands twice */
	struct foreign *foreign;
};

static void take_field(struct graph *graph, const struct element *field)
{
	for (size_t i = 0; i < GRAPH_FIELDS; i++) {
		if (!element_is(field, field_names[i]))
			continue;
		graph->clear = graph->clear && graph->fields[i].type == 0;
		graph->fields[i] = *field;
	}
}

static bool graph_of(struct foreign *foreign, const struct element *stage, struct graph *graph)
{
	struct bytes collection;
	struct element field;
	struct cursor cursor;

	*graph = (struct graph){.clear = true, .foreign = foreign};
	if (stage->type != BSON_BYTE_DOCUMENT || !cursor_open(&cursor, stage->value) ||
	    cursor_next(&cursor, &graph->verb) != CURSOR_ELEMENT ||
	    !element_is(&graph->verb, "$graphLookup") || graph->verb.type != BSON_BYTE_DOCUMENT ||
	    !cursor_open(&cursor, graph->verb.value))
		return false;
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		take_field(graph, &field);
	if (!foreign->cache || !element_string(&graph->fields[GRAPH_FROM], &collection))
		return false;
	graph->namespace =
		namespace_cache_find(foreign->cache, foreign->database, collection, NULL);
	return graph->namespace != NULL;
}

/* ---- what stands in the way ---- */

static bool reads_ours(const struct graph *graph, enum graph_field field)
{
	struct bytes path;

	return element_string(&graph->fields[field], &path) &&
	       name_is_other(path, graph->namespace);
}

/* A field of the top level: what is deeper might be replaced in an array. */
static bool is_plain(const struct element *as)
{
	struct bytes name;

	return element_string(as, &name) && name.length > 0 && name.data[0] != '$' &&
	       !memchr(name.data, '.', name.length) && !memchr(name.data, '\0', name.length);
}

static const char *obstacle(const struct graph *graph, bool in_facet)
{
	const struct element *filter = &graph->fields[GRAPH_FILTER];

	if (!graph->clear)
		return "a field of the stage stands twice";
	if (!reassemble_possible(graph->namespace))
		return "its overflow lies in another database";
	if (in_facet)
		return "in a $facet mongod has no collection of what a $graphLookup has found";
	if (!is_plain(&graph->fields[GRAPH_AS]))
		return "'as' is no field of the top level";
	if (reads_ours(graph, GRAPH_TO) || reads_ours(graph, GRAPH_BY) ||
	    reads_ours(graph, GRAPH_DEPTH) ||
	    (filter->type == BSON_BYTE_DOCUMENT &&
	     reads_of_filter(filter->value, graph->namespace).kind != READS_NOTHING))
		return "a $graphLookup that reads the ruled array, or sets it, would see a part of "
		       "it";
	return NULL;
}

/* ---- the stages ---- */

static void splice_stages(struct buffer *out, size_t *place, const void *context)
{
	const struct graph *graph = context;

	reassemble_write_stages(out, place, graph->namespace,
				foreign_reassembly(graph->foreign, graph->namespace));
}

/* What was found, put together as a collection of its own. */
static void write_whole(struct buffer *out, size_t *place, const struct graph *graph)
{
	struct bytes as;

	require(element_string(&graph->fields[GRAPH_AS], &as));
	template_append(out, place,
			"{$lookup: {"
			"let: {spillwayFound: '$@as'}, "
			"pipeline: [{$documents: '$$spillwayFound'}, ..@stages], "
			"as: @as}}",
			fill("as", as), fill_spliced("stages", splice_stages, graph));
}

bool graph_write(struct foreign *foreign, struct buffer *out, size_t *place,
		 const struct element *stage, bool in_facet)
{
	struct graph graph;
	char name[12];

	if (!graph_of(foreign, stage, &graph))
		return false;
	foreign->served++;
	foreign->why = obstacle(&graph, in_facet);
	if (foreign->why)
		return true;
	writer_renamed(out, writer_index(name, (*place)++), stage);
	write_whole(out, place, &graph);
	return true;
}
