/* Writes pipelines whose stages reach ruled namespaces. */
#include "rules/stages/stage_foreign.h"

#include "rules/query/bit_masks.h"
#include "rules/query/filter_split.h"
#include "rules/stages/first_match.h"
#include "rules/stages/stage_graph.h"
#include "rules/query/index_bounds.h"
#include "rules/stages/match_stands.h"
#include "rules/rule/names.h"
#include "rules/rule/own_fields.h"
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

static size_t open_stage(struct buffer *out, size_t *place)
{
	char name[12];

	return writer_open_document(out, writer_index(name, (*place)++));
}

/* Only foreign documents that the local one joins with. */
static void write_join(struct buffer *out, size_t *place, const struct frame *join)
{
	auto_free char *local = must_strndup((const char *)join->local.data, join->local.length);
	auto_text path = text_join("o.", local, "");
	size_t stage = open_stage(out, place), inner, list, documents, array;

	inner = writer_open_document(out, "$replaceWith");
	writer_string(out, "o", "$$" OUTER);
	writer_string(out, "d", "$$ROOT");
	writer_close(out, inner);
	writer_close(out, stage);
	stage = open_stage(out, place);
	inner = writer_open_document(out, "$lookup");
	writer_string(out, "localField", path.bytes);
	writer_text(out, "foreignField", join->foreign);
	list = writer_open_document(out, "let");
	writer_string(out, "d", "$d");
	writer_close(out, list);
	list = writer_open_array(out, "pipeline");
	documents = writer_open_document(out, "0");
	array = writer_open_array(out, "$documents");
	writer_string(out, "0", "$$d");
	writer_close(out, array);
	writer_close(out, documents);
	writer_close(out, list);
	writer_string(out, "as", "m");
	writer_close(out, inner);
	writer_close(out, stage);
	stage = open_stage(out, place);
	inner = writer_open_document(out, "$match");
	documents = writer_open_document(out, "m.0");
	writer_bool(out, "$exists", true);
	writer_close(out, documents);
	writer_close(out, inner);
	writer_close(out, stage);
	stage = open_stage(out, place);
	writer_string(out, "$replaceWith", "$d");
	writer_close(out, stage);
}

/* {$match: {$or: [{<field>: {$not: {$type: "undefined"}}}, error]}}: undefined is equal to null
 * here, and is not where mongod runs the join in its other engine. */
static void write_no_undefined(struct buffer *out, size_t *place, struct bytes field)
{
	auto_free char *path = must_strndup((const char *)field.data, field.length);
	size_t stage = open_stage(out, place), match, either, first, condition, not ;

	match = writer_open_document(out, "$match");
	either = writer_open_array(out, "$or");
	first = writer_open_document(out, "0");
	condition = writer_open_document(out, path);
	not = writer_open_document(out, "$not");
	writer_string(out, "$type", "undefined");
	writer_close(out, not );
	writer_close(out, condition);
	writer_close(out, first);
	first = writer_open_document(out, "1");
	reassemble_write_undefined(out, "$expr");
	writer_close(out, first);
	writer_close(out, either);
	writer_close(out, match);
	writer_close(out, stage);
}

static void write_documents(const struct writing *writing, size_t *place, const struct frame *join)
{
	struct buffer *out = writing->out;

	reassemble_write_stages(
		out, place, join->namespace,
		(struct reassembly){REASSEMBLE_WHOLE, .strict = writing->foreign->strict});
	if (join->foreign.length > 0)
		write_join(out, place, join);
}

/* {$match: {$expr: {$gte: [<the local document>, MinKey]}}}: all, by a variable. */
static void write_apart(struct buffer *out, size_t *place)
{
	size_t stage = open_stage(out, place), match = writer_open_document(out, "$match");
	size_t condition = writer_open_document(out, "$expr"), list;

	list = writer_open_array(out, "$gte");
	writer_string(out, "0", "$$" OUTER);
	writer_renamed(out, "1", &(struct element){.type = BSON_BYTE_MIN_KEY});
	writer_close(out, list);
	writer_close(out, condition);
	writer_close(out, match);
	writer_close(out, stage);
}

static void write_let(struct buffer *out, const struct element *let)
{
	size_t document = writer_open_document(out, "let");
	struct element variable;
	struct cursor cursor;

	if (let && cursor_open(&cursor, let->value))
		while (cursor_next(&cursor, &variable) == CURSOR_ELEMENT)
			writer_element(out, &variable);
	writer_string(out, OUTER, "$$ROOT");
	writer_close(out, document);
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
	bool full;

	return namespace_cache_find(writing->foreign->cache, writing->foreign->database, collection,
				    &full);
}

static bool stands_twice(struct bytes document, const char *name)
{
	struct cursor cursor;
	struct element element;

	return cursor_open(&cursor, document) && cursor_find(&cursor, bytes_of(name), &element) &&
	       cursor_find(&cursor, bytes_of(name), &element);
}

static bool is_clear(struct bytes document)
{
	static const char *const names[] = {"from", "coll",       "pipeline",
					    "let",  "localField", "foreignField"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (stands_twice(document, names[i]))
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
		"$listSessions",      "$backupCursor",   "$listLocalSessions"};

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

/* A $match that mongod would have made a query of, and that has to be written as one. True: it is
 * written. */
static bool write_query_of(struct buffer *out, size_t *place, enum match_stands stands,
			   const struct element *stage)
{
	auto_buffer struct buffer scratch = {0};
	struct element filter;
	size_t opened;

	if (stands != MATCH_STANDS_QUERY || !filter_of_match(stage, &filter) ||
	    bit_masks_of(filter.value) != BIT_MASKS_WIDENED)
		return false;
	opened = open_stage(out, place);
	writer_document(out, "$match", filter_as_query(&scratch, filter.value));
	writer_close(out, opened);
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

bool foreign_named(const struct element *value, const char *key, struct bytes *database,
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

enum merge_mode foreign_merge_mode(const struct element *merge)
{
	static const char *const whole[] = {"replace", "keepExisting", "fail"};
	struct element matched;
	struct bytes word;

	if (merge->type != BSON_BYTE_DOCUMENT || stands_twice(merge->value, "into"))
		return merge->type == BSON_BYTE_STRING ? MERGE_FIELDS : MERGE_OTHER;
	if (!document_find(merge->value, "whenMatched", &matched))
		return MERGE_FIELDS;
	if (stands_twice(merge->value, "whenMatched") || !element_string(&matched, &word))
		return MERGE_OTHER;
	for (size_t i = 0; i < ARRAY_LENGTH(whole); i++)
		if (bytes_are(word, whole[i]))
			return MERGE_WHOLE;
	return bytes_are(word, "merge") ? MERGE_FIELDS : MERGE_OTHER;
}

/* {$ne: [{$type: "$<the path's first part>"}, "missing"]} */
static void add_named(struct call *call, const char *path)
{
	auto_free char *first = must_strndup(path, strcspn(path, "."));
	auto_text field = text_join("$", first, "");
	struct call test = call_call(call, "$ne");

	call_unary(&test, "$type", field.bytes);
	call_text(&test, "missing");
	call_close(&test);
}

static void add_names_of_rule(struct call *call, const struct rule *rule)
{
	add_named(call, rule->array);
	for (enum own_field field = OWN_FLAG; field < OWN_FIELDS; field++)
		if (own_field_name(rule, field))
			add_named(call, own_field_name(rule, field));
}

/* Some name has a dot: a merge of fields takes it for a path, into an array or a state perhaps. */
static void add_dotted(struct call *call)
{
	struct buffer *out = call->out;
	struct call any = call_call(call, "$anyElementTrue"), reaches, position;
	char name[12];
	size_t operand = writer_open_document(out, writer_index(name, any.place++));
	size_t map = writer_open_document(out, "$map"), input;

	input = writer_open_document(out, "input");
	writer_string(out, "$objectToArray", "$$ROOT");
	writer_close(out, input);
	reaches = call_open(out, "in", "$gte");
	position = call_call(&reaches, "$indexOfBytes");
	call_text(&position, "$$this.k");
	call_text(&position, ".");
	call_close(&position);
	call_number(&reaches, 0);
	call_close(&reaches);
	writer_close(out, map);
	writer_close(out, operand);
	call_close(&any);
}

static void write_guard(struct buffer *out, size_t *place, const struct ruled_namespace *namespace,
			enum merge_mode mode)
{
	size_t stage = open_stage(out, place), set = writer_open_document(out, "$set");
	struct call choice = call_open(out, NAME_STATE, "$cond"), either;

	either = call_call(&choice, "$or");
	reassemble_add_reserved(&either);
	if (mode == MERGE_FIELDS)
		add_dotted(&either);
	for (size_t i = 0; mode == MERGE_FIELDS && i < namespace->target_count; i++)
		add_names_of_rule(&either, namespace->targets[i].rule);
	call_close(&either);
	reassemble_add_unsafe(&choice);
	call_text(&choice, "$$REMOVE");
	call_close(&choice);
	writer_close(out, set);
	writer_close(out, stage);
}

void foreign_write_top_stage(struct foreign *foreign, struct buffer *out, size_t *place,
			     const struct element *stage)
{
	const struct ruled_namespace *namespace = NULL;
	struct bytes database = foreign->database, collection;
	struct element verb;
	char name[12];
	bool full;

	if (foreign->whole && write_query_of(out, place, foreign->stands, stage))
		return;
	foreign->stands = match_stands_behind(foreign->stands, stage);
	if (foreign->cache && first_element(stage, &verb) && element_is(&verb, "$merge") &&
	    foreign_named(&verb, "into", &database, &collection)) {
		namespace = namespace_cache_find(foreign->cache, database, collection, &full);
	}
	if (namespace) {
		write_guard(out, place, namespace, foreign_merge_mode(&verb));
		foreign->served++;
	}
	if (!graph_write(foreign, out, place, stage, false))
		foreign_write_stage(foreign, out, writer_index(name, (*place)++), stage);
}
