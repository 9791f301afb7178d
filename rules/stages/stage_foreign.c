/* Writes pipelines whose stages reach ruled namespaces. */
#include "rules/stages/stage_foreign.h"

#include "protocol/repeats.h"
#include "rules/query/filter_split.h"
#include "rules/stages/first_match.h"
#include "rules/stages/stage_graph.h"
#include "rules/stages/stage_guard.h"
#include "rules/query/index_bounds.h"
#include "rules/stages/match_stands.h"
#include "rules/rule/names.h"
#include "rules/stages/pushed_group.h"
#include "rules/query/reads.h"
#include "rules/reassembly/reassemble.h"
#include "rules/stages/mixed_paths.h"
#include "rules/rule/walk.h"

#include <stdlib.h>

#define DEPTH_MAX 64 /* three for each pipeline; mongod takes 20 of them */
#define OUTER "spillwayOuter"

enum frame_kind {
	FRAME_PIPELINE, /* stages */
	FRAME_STAGE,    /* {$verb: ...} */
	FRAME_JOIN,     /* what a $lookup or a $unionWith says */
	FRAME_FACET,    /* pipelines by name */
};

/* A document or array that is read and written. */
struct frame {
	enum frame_kind kind;
	struct cursor cursor;
	size_t opened;
	size_t place;                            /* FRAME_PIPELINE: the next stage's */
	const struct ruled_namespace *namespace; /* whose documents have to be put together yet; of
						    FRAME_JOIN: in its pipeline */
	const struct ruled_namespace *inner;     /* FRAME_PIPELINE: whose documents come here */
	struct bytes local, foreign;             /* the fields of a join on a ruled array */
	struct bytes field;                      /* `foreign`, or what else is joined by */
	bool has_pipeline, has_let;
	bool lacks_fields;        /* of a join: mongod says what is wrong with it */
	bool apart;               /* each local document's run of the pipeline stands by itself */
	enum match_stands stands; /* FRAME_PIPELINE: for the next stage */
	bool unites;              /* FRAME_PIPELINE: a $unionWith came; FRAME_JOIN: it is one */
	bool pushed;              /* mongod may run a group here in its other engine */
};

struct writing {
	struct foreign *foreign;
	struct buffer *out;
	struct frame frames[DEPTH_MAX];
	size_t depth;
	bool sets_current; /* a $lookup does */
};

static void give_up(struct writing *writing, const char *why)
{
	writing->foreign->why = why;
	writing->depth = 0;
}

static struct frame *push(struct writing *writing, enum frame_kind kind, const char *name,
			  const struct element *value)
{
	struct frame *frame;

	if (writing->depth == DEPTH_MAX) {
		give_up(writing, "its pipelines are nested too deeply");
		writing->foreign->too_deep = true;
		return NULL;
	}
	frame = &writing->frames[writing->depth++];
	*frame = (struct frame){.kind = kind};
	require(cursor_open(&frame->cursor, value->value)); /* the match has read it */
	frame->opened = value->type == BSON_BYTE_ARRAY ? writer_open_array(writing->out, name)
						       : writer_open_document(writing->out, name);
	return frame;
}

/* ---- the documents of a ruled namespace ---- */

/* Only foreign documents that the local one joins with: each is asked for as a collection of one.
 */
static void write_join(struct buffer *out, size_t *place, const struct frame *join)
{
	template_append(out, place, "{$replaceWith: {o: '$$" OUTER "', d: '$$ROOT'}}");
	template_append(
		out, place,
		"{$lookup: {localField: 'o.@local', foreignField: @foreign, let: {d: '$d'}, "
		"pipeline: [{$documents: ['$$d']}], as: 'm'}}",
		fill("local", join->local), fill("foreign", join->foreign));
	template_append(out, place, "{$match: {m.0: {$exists: true}}}");
	template_append(out, place, "{$replaceWith: '$d'}");
}

/* undefined is equal to null here, and is not if mongod runs the join in its other engine. */
static void write_no_undefined(struct buffer *out, size_t *place, struct bytes field)
{
	template_append(
		out, place,
		"{$match: {$or: [{@field: {$not: {$type: 'undefined'}}}, {$expr: @error}]}}",
		fill("field", field), fill_template("error", RAISE(RAISED_UNDEFINED)));
}

static void write_documents(const struct writing *writing, size_t *place, const struct frame *join)
{
	struct buffer *out = writing->out;

	reassemble_write_stages(out, place, join->namespace,
				foreign_reassembly(writing->foreign, join->namespace));
	if (join->foreign.length > 0)
		write_join(out, place, join);
}

/* All documents, by a variable. */
static void write_apart(struct buffer *out, size_t *place)
{
	template_append(out, place, "{$match: {$expr: {$gte: ['$$" OUTER "', MinKey]}}}");
}

static void write_let(struct buffer *out, const struct element *let)
{
	template_write(out, "let", "{..@variables, " OUTER ": '$$ROOT'}",
		       let ? fill_document("variables", let->value)
			   : fill_template("variables", "{}"));
}

/* ---- what a stage says ---- */

static bool first_element(const struct element *document, struct element *first)
{
	struct cursor cursor;

	return document->type == BSON_BYTE_DOCUMENT && cursor_open(&cursor, document->value) &&
	       cursor_next(&cursor, first) == CURSOR_ELEMENT;
}

static const struct ruled_namespace *namespace_of(const struct writing *writing,
						  struct bytes collection)
{
	return namespace_cache_find(writing->foreign->cache, writing->foreign->database, collection,
				    NULL);
}

static bool is_clear(struct bytes document)
{
	static const char *const names[] = {"from", "coll",       "pipeline",
					    "let",  "localField", "foreignField"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (document_has_twice(document, names[i]))
			return false;
	return true;
}

/* The fields of a join, and whether mongod can do it on documents as they are stored. */
static void take_fields(struct frame *join, struct bytes document)
{
	struct element local, foreign;
	struct bytes path;

	if (!document_find(document, "localField", &local) || !element_string(&local, &path) ||
	    !document_find(document, "foreignField", &foreign) ||
	    !element_string(&foreign, &join->field))
		return;
	if (join->namespace && name_is_other(join->field, join->namespace)) {
		join->local = path;
		join->foreign = join->field;
	}
}

static void take_namespace(struct writing *writing, struct frame *join, struct bytes collection,
			   bool unites)
{
	join->namespace = namespace_of(writing, collection);
	if (!join->namespace)
		return;
	writing->foreign->served++;
	if (unites)
		writing->foreign->united = join->namespace;
	if (!reassemble_possible(join->namespace))
		give_up(writing, "its overflow lies in another database");
	if (writing->sets_current)
		give_up(writing, READS_CURRENT);
}

static bool in_facet(const struct writing *writing)
{
	for (size_t i = 0; i < writing->depth; i++)
		if (writing->frames[i].kind == FRAME_FACET)
			return true;
	return false;
}

static bool holds_limit(struct bytes pipeline)
{
	struct walk walk;
	struct element element;
	enum cursor_step step;

	step = walk_first(&walk, BSON_BYTE_ARRAY, pipeline, &element);
	for (; step == CURSOR_ELEMENT; step = walk_next(&walk, &element)) {
		if (element_is(&element, "$limit"))
			return true;
		if (!walk_within(&walk, &element))
			return false;
	}
	return false;
}

/* mongod keeps what the front of a pipeline gives as long as no variable has a part in it, and
 * starts over, behind what it has, where a $limit ends one run before all was seen. So our stages,
 * in front, must not be kept. */
static bool runs_apart(const struct frame *join, struct bytes document)
{
	struct element let, pipeline;

	return (join->foreign.length > 0 ||
		(document_find(document, "let", &let) && let.type == BSON_BYTE_DOCUMENT)) &&
	       document_find(document, "pipeline", &pipeline) && pipeline.type == BSON_BYTE_ARRAY &&
	       holds_limit(pipeline.value);
}

/* Its documents are constants: mongod does not read the collection. */
static bool brings_documents(struct bytes pipeline)
{
	struct element stage, verb;
	struct cursor cursor;

	return cursor_open(&cursor, pipeline) && cursor_next(&cursor, &stage) == CURSOR_ELEMENT &&
	       first_element(&stage, &verb) && element_is(&verb, "$documents");
}

static void begin_join(struct writing *writing, const struct element *verb, const char *from)
{
	struct element name;
	struct bytes collection;
	auto_free char *text = must_strndup((const char *)verb->name.data, verb->name.length);
	struct frame *join = push(writing, FRAME_JOIN, text, verb);

	writing->sets_current = writing->sets_current ||
				(document_find(verb->value, "let", &name) && reads_current(&name));
	if (!join || !document_find(verb->value, from, &name) ||
	    !element_string(&name, &collection))
		return;
	join->unites = element_is(verb, "$unionWith");
	take_namespace(writing, join, collection, join->unites);
	if (!join->namespace) {
		if (writing->foreign->whole && is_clear(verb->value))
			take_fields(join, verb->value);
		return;
	}
	join->lacks_fields =
		element_is(verb, "$lookup") && !(document_find(verb->value, "localField", &name) &&
						 document_find(verb->value, "foreignField", &name));
	if (!is_clear(verb->value))
		give_up(writing, "a field of the stage stands twice");
	else
		take_fields(join, verb->value);
	if (join->foreign.length == 0 && document_find(verb->value, "pipeline", &name) &&
	    name.type == BSON_BYTE_ARRAY &&
	    (brings_documents(name.value) || stages_suffice(name.value, join->namespace)))
		join->namespace = NULL; /* its pipeline runs as it is */
	join->apart =
		join->namespace && element_is(verb, "$lookup") && runs_apart(join, verb->value);
	if (join->foreign.length > 0 && in_facet(writing))
		give_up(writing, "in a $facet mongod has no collection of one document, by which a "
				 "join on the array is asked");
}

/* {$unionWith: "books"} */
static void write_union(struct writing *writing, const struct element *verb)
{
	struct frame join = {0};
	struct bytes collection;
	size_t document, pipeline, place = 0;

	require(element_string(verb, &collection));
	take_namespace(writing, &join, collection, true);
	if (!join.namespace) {
		writer_element(writing->out, verb);
		return;
	}
	document = writer_open_document(writing->out, "$unionWith");
	writer_text(writing->out, "coll", collection);
	pipeline = writer_open_array(writing->out, "pipeline");
	write_documents(writing, &place, &join);
	writer_close(writing->out, pipeline);
	writer_close(writing->out, document);
}

static void take_verb(struct writing *writing, const struct element *verb)
{
	struct bytes text;

	if (element_is(verb, "$lookup") && verb->type == BSON_BYTE_DOCUMENT)
		begin_join(writing, verb, "from");
	else if (element_is(verb, "$unionWith") && verb->type == BSON_BYTE_DOCUMENT)
		begin_join(writing, verb, "coll");
	else if (element_is(verb, "$unionWith") && element_string(verb, &text))
		write_union(writing, verb);
	else if (element_is(verb, "$facet") && verb->type == BSON_BYTE_DOCUMENT)
		(void)push(writing, FRAME_FACET, "$facet", verb);
	else
		writer_element(writing->out, verb);
}

static void take_join_field(struct writing *writing, struct frame *join,
			    const struct element *field)
{
	bool whole = join->foreign.length > 0;
	struct frame *pipeline;

	if (element_is(field, "pipeline") && field->type == BSON_BYTE_ARRAY) {
		join->has_pipeline = true;
		pipeline = push(writing, FRAME_PIPELINE, "pipeline", field);
		if (!pipeline)
			return;
		pipeline->namespace = pipeline->inner = join->namespace;
		pipeline->local = join->local;
		pipeline->foreign = join->foreign;
		pipeline->apart = join->apart;
		pipeline->pushed = join->unites;
		return;
	}
	if (whole && (element_is(field, "localField") || element_is(field, "foreignField")))
		return;
	if ((whole || join->apart) && element_is(field, "let") &&
	    field->type == BSON_BYTE_DOCUMENT) {
		join->has_let = true;
		write_let(writing->out, field);
		return;
	}
	writer_element(writing->out, field);
}

static void end_join(struct writing *writing, const struct frame *join)
{
	size_t pipeline, place = 0;

	if (join->namespace && join->foreign.length > 0 && !join->has_let)
		write_let(writing->out, NULL);
	if (join->has_pipeline || join->lacks_fields ||
	    !(join->namespace || join->field.length > 0))
		return;
	pipeline = writer_open_array(writing->out, "pipeline");
	if (join->namespace)
		write_documents(writing, &place, join);
	if (join->field.length > 0)
		write_no_undefined(writing->out, &place, join->field);
	writer_close(writing->out, pipeline);
}

/* ---- stages ---- */

static bool has_to_be_first(const struct element *verb)
{
	static const char *const verbs[] = {
		"$geoNear",           "$search",         "$searchMeta",
		"$vectorSearch",      "$collStats",      "$indexStats",
		"$currentOp",         "$changeStream",   "$documents",
		"$listSearchIndexes", "$planCacheStats", "$queryStats",
		"$listSessions",      "$backupCursor",   "$listLocalSessions",
		"$listCatalog"};

	for (size_t i = 0; i < ARRAY_LENGTH(verbs); i++)
		if (element_is(verb, verbs[i]))
			return true;
	return element_is(verb, "$match") && verb->type == BSON_BYTE_DOCUMENT &&
	       !filter_fits_pipeline(verb->value);
}

/* The same before a query that stands at the front of the pipeline and begins with this stage.
 * False: there is none that may fail. */
static bool write_query(struct writing *writing, struct frame *pipeline,
			const struct element *first)
{
	auto_buffer struct buffer joined = {0};
	struct cursor behind = pipeline->cursor;
	struct element filter;

	if (filter_join_matches(&joined, first, &behind, &filter) == 0 ||
	    !filter_has_expression(filter.value))
		return false;
	reassemble_write_candidates(writing->out, &pipeline->place, filter.value,
				    pipeline->namespace);
	write_documents(writing, &pipeline->place, pipeline);
	filter_write_match(writing->out, &pipeline->place, filter.value, FILTER_AT_START);
	pipeline->cursor = behind;
	return true;
}

/* Before a stage of the pipeline of a ruled namespace: its documents have to be whole, unless the
 * stage is a $match that doesn't need it. True: the stage is written, too, and $match stages behind
 * it may be: they are one query with those before it, in which what may fail comes last. */
static bool write_before(struct writing *writing, struct frame *pipeline,
			 const struct element *stage)
{
	struct element verb = {0}, filter;
	bool matches = filter_of_match(stage, &filter), written;

	if (first_element(stage, &verb) && has_to_be_first(&verb)) {
		give_up(writing, "the pipeline begins with a stage that has to be the first");
		return false;
	}
	if (matches && reads_of_filter(filter.value, pipeline->namespace).kind == READS_NOTHING &&
	    (pipeline->foreign.length == 0 || !filter_has_expression(filter.value)))
		return false;
	if (matches && writing->foreign->collation &&
	    reads_of_filter(filter.value, pipeline->namespace).kind == READS_ARRAY &&
	    index_bounds_differ(filter.value, writing->foreign->collation, pipeline->namespace)) {
		give_up(writing,
			"mongod's answer to a $match in its pipeline depends on whether it "
			"takes an index on the array");
		return false;
	}
	if (pipeline->apart)
		write_apart(writing->out, &pipeline->place);
	written = matches && write_query(writing, pipeline, stage);
	if (matches && !written)
		reassemble_write_candidates(writing->out, &pipeline->place, filter.value,
					    pipeline->namespace);
	if (!written)
		write_documents(writing, &pipeline->place, pipeline);
	pipeline->namespace = NULL;
	return written;
}

/* A $match that has to be written in other words. True: it is written. */
static bool write_query_of(struct buffer *out, size_t *place, enum match_stands stands,
			   const struct element *stage)
{
	auto_buffer struct buffer scratch = {0};
	struct element filter;

	if (!filter_of_match(stage, &filter) || !match_differs(stands, filter.value))
		return false;
	template_append(out, place, "{$match: @filter}",
			fill_document("filter", filter_as_query(&scratch, filter.value)));
	return true;
}

/* A group that mongod might have run in its other engine, behind Spillway's stages. True: it is
 * written. */
static bool pipeline_pushes(struct writing *writing, struct frame *pipeline,
			    const struct element *stage)
{
	struct cursor behind = pipeline->cursor;
	struct element next;
	bool pushed = pipeline->pushed;

	pipeline->pushed = pushed_behind(pushed, stage);
	return pushed && writing->foreign->served > 0 &&
	       pushed_write_group(writing->out, &pipeline->place, stage,
				  cursor_next(&behind, &next) == CURSOR_ELEMENT);
}

static void take_stage(struct writing *writing, struct frame *pipeline, const struct element *stage)
{
	bool watched = pipeline->inner || pipeline->unites;
	const char *unclear = watched ? match_unclear(pipeline->stands, stage) : NULL;
	struct element verb;
	char name[12];

	if (unclear) {
		give_up(writing, unclear);
		return;
	}
	if (pipeline->namespace && write_before(writing, pipeline, stage)) {
		pipeline->stands = MATCH_STANDS_QUERY;
		return;
	}
	if (writing->foreign->why)
		return;
	if (pipeline->inner &&
	    write_query_of(writing->out, &pipeline->place, pipeline->stands, stage))
		return;
	pipeline->stands = match_stands_behind(pipeline->stands, stage);
	pipeline->unites = pipeline->unites ||
			   (first_element(stage, &verb) && element_is(&verb, "$unionWith"));
	if (pipeline->inner)
		unmixed_write(writing->out, &pipeline->place, stage, pipeline->cursor,
			      UNMIXED_INNER, pipeline->inner);
	if (graph_write(writing->foreign, writing->out, &pipeline->place, stage,
			in_facet(writing))) {
		if (writing->foreign->why)
			writing->depth = 0;
		return;
	}
	if (pipeline_pushes(writing, pipeline, stage))
		return;
	if (stage->type == BSON_BYTE_DOCUMENT)
		(void)push(writing, FRAME_STAGE, writer_index(name, pipeline->place++), stage);
	else
		writer_renamed(writing->out, writer_index(name, pipeline->place++), stage);
}

/* One of a $facet's pipelines: its documents are those of the pipeline around it. */
static void begin_facet(struct writing *writing, const char *name, const struct element *value)
{
	const struct foreign *foreign = writing->foreign;
	const struct ruled_namespace *inner = foreign->united ? foreign->united : foreign->whole;
	struct frame *pipeline;

	for (size_t i = 0; i < writing->depth; i++)
		if (writing->frames[i].kind == FRAME_PIPELINE)
			inner = writing->frames[i].inner;
	pipeline = push(writing, FRAME_PIPELINE, name, value);
	if (!pipeline)
		return;
	pipeline->inner = inner;
	pipeline->stands = MATCH_STANDS_APART;
}

static void take_element(struct writing *writing, struct frame *frame,
			 const struct element *element)
{
	auto_free char *name = NULL;

	switch (frame->kind) {
	case FRAME_PIPELINE:
		take_stage(writing, frame, element);
		return;
	case FRAME_STAGE:
		take_verb(writing, element);
		return;
	case FRAME_JOIN:
		take_join_field(writing, frame, element);
		return;
	case FRAME_FACET:
		if (element->type != BSON_BYTE_ARRAY) {
			writer_element(writing->out, element);
			return;
		}
		name = must_strndup((const char *)element->name.data, element->name.length);
		begin_facet(writing, name, element);
		return;
	}
}

static void end_frame(struct writing *writing, struct frame *frame)
{
	if (frame->kind == FRAME_JOIN)
		end_join(writing, frame);
	else if (frame->kind == FRAME_PIPELINE && frame->namespace)
		write_documents(writing, &frame->place, frame);
	writer_close(writing->out, frame->opened);
	writing->depth--;
}

void foreign_write_stage(struct foreign *foreign, struct buffer *out, const char *name,
			 const struct element *stage)
{
	struct writing writing = {.foreign = foreign, .out = out};
	struct element element;

	if (stage->type != BSON_BYTE_DOCUMENT) {
		writer_renamed(out, name, stage);
		return;
	}
	(void)push(&writing, FRAME_STAGE, name, stage);
	while (writing.depth > 0) {
		struct frame *frame = &writing.frames[writing.depth - 1];
		enum cursor_step step = cursor_next(&frame->cursor, &element);

		require(step == CURSOR_ELEMENT || step == CURSOR_END); /* the match has read it */
		if (step == CURSOR_END)
			end_frame(&writing, frame);
		else
			take_element(&writing, frame, &element);
	}
}

/* ---- a pipeline's top level ---- */

void foreign_write_top_stage(struct foreign *foreign, struct buffer *out, size_t *place,
			     const struct element *stage)
{
	const struct ruled_namespace *namespace = NULL;
	struct bytes database = foreign->database, collection;
	struct element verb;
	char name[12];

	if (foreign->whole && write_query_of(out, place, foreign->stands, stage))
		return;
	foreign->stands = match_stands_behind(foreign->stands, stage);
	if (foreign->cache && first_element(stage, &verb) && element_is(&verb, "$merge") &&
	    stage_guard_target(&verb, "into", &database, &collection)) {
		namespace = namespace_cache_find(foreign->cache, database, collection, NULL);
	}
	if (namespace) {
		stage_guard_write_merge(out, place, namespace, &verb);
		foreign->served++;
	}
	if (!graph_write(foreign, out, place, stage, false))
		foreign_write_stage(foreign, out, writer_index(name, (*place)++), stage);
}
