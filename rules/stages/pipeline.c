/* Writes a client's read as an aggregate over whole documents. */
#include "rules/stages/pipeline.h"

#include "protocol/writer.h"
#include "rules/stages/stage_bounds.h"
#include "rules/query/computed.h"
#include "rules/stages/stage_distinct.h"
#include "rules/query/filter_split.h"
#include "rules/stages/find_end.h"
#include "rules/stages/first_match.h"
#include "rules/stages/stage_foreign.h"
#include "rules/query/read_options.h"
#include "rules/stages/stage_project.h"
#include "rules/query/reads.h"
#include "rules/rule/names.h"
#include "rules/query/projection.h"
#include "rules/stages/pushed_group.h"
#include "rules/reassembly/reassemble.h"
#include "rules/query/statements.h"
#include "rules/stages/mixed_paths.h"
#include "rules/rule/walk.h"
#include "rules/stages/stage_window.h"

#include <stdlib.h>

#define FIRST_BATCH 101 /* of a find that names no size */

/* ---- what can't be written so ---- */

/* One that doesn't read arrays is the first stage, and no other. */
static bool filter_served(struct bytes filter, const struct ruled_namespace *namespace)
{
	return reads_of_filter(filter, namespace).kind == READS_NOTHING
		       ? filter_fits_first(filter)
		       : filter_fits_pipeline(filter);
}

const char *aggregate_unserved_filter(const struct element *filter,
				      const struct ruled_namespace *namespace)
{
	return filter->type == BSON_BYTE_DOCUMENT && !filter_served(filter->value, namespace)
		       ? "$where, $text, $near and a field without a name can't be asked of arrays "
			 "that are put together, nor bit tests with long binary masks (write a "
			 "list "
			 "of positions)"
		       : NULL;
}

bool aggregate_sorts_naturally(const struct command *command)
{
	const struct element *sort = &command->fields[FIELD_SORT];
	struct element order;

	return element_only_field(sort, &order) && element_is(&order, "$natural");
}

static bool is_filled(const struct element *document)
{
	return document->type != 0 &&
	       (document->type != BSON_BYTE_DOCUMENT || document->value.length > 5);
}

/* A sort makes a stage. */
static bool has_sort(const struct command *command)
{
	return is_filled(&command->fields[FIELD_SORT]) && !aggregate_sorts_naturally(command);
}

const char *aggregate_unserved_find(const struct command *command,
				    const struct ruled_namespace *namespace)
{
	static const char *const others[] = {"showRecordId", "returnKey", "tailable", "awaitData",
					     "oplogReplay"};
	const struct element *filter = &command->fields[FIELD_FILTER],
			     *projection = &command->fields[FIELD_PROJECTION];

	for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
		if (document_truth(command->body, others[i]))
			return "showRecordId, returnKey and tailable can't be had where arrays are "
			       "put together";
	if (options_of_find(command) == OPTIONS_UNSERVED)
		return "decimal numbers of documents, ntoreturn and oplogReplay can't be had "
		       "where arrays are put together";
	if (!bounds_served(command))
		return "min and max can't be had where arrays are put together, unless a hint "
		       "spells out an index of paths, and they name just these";
	if (projection->type == BSON_BYTE_DOCUMENT &&
	    project_judge(projection->value, filter, namespace) == PROJECT_UNSERVED)
		return "such a projection can't be had where arrays are put together: f.$ needs "
		       "conditions on the array that single elements satisfy, or none, $elemMatch "
		       "none "
		       "beside it that sees the whole document, and $slice no decimal numbers";
	if (projection->type == BSON_BYTE_DOCUMENT && options_number(command, "limit") == 0 &&
	    has_sort(command) && project_may_miss(projection->value, filter, namespace))
		return "f.$ without a condition on the array, beside a sort without a limit: "
		       "mongod fails before the first document or behind some, as its plan is; "
		       "add a limit, or a condition on the array";
	return aggregate_unserved_filter(filter, namespace);
}

const char *aggregate_unserved_key(struct bytes key)
{
	return distinct_served(key) ? NULL : "such a path can't be followed in whole arrays";
}

/* ---- stages ---- */

static bool aggregates(const struct command *command)
{
	return bytes_are(command->first.name, "aggregate");
}

/* The pipeline that is being written. */
struct pipeline {
	struct buffer *out;
	const struct command *command;
	const struct ruled_namespace *namespace;
	const struct probe *probe; /* may be NULL */
	size_t place;
	bool sorted;         /* before anything is put together */
	bool computes, bare; /* see struct match */
	bool scans_keys, scans_documents;
	bool later;             /* of the client's stages others than $match have been written */
	bool pushed;            /* mongod may run a group here in its other engine */
	struct foreign foreign; /* `strict` is of all that is written */
};

static size_t open_stage(struct pipeline *pipeline)
{
	char name[12];

	return writer_open_document(pipeline->out, writer_index(name, pipeline->place++));
}

static void add_stage(struct pipeline *pipeline, const char *verb, const struct element *value)
{
	size_t stage = open_stage(pipeline);

	writer_renamed(pipeline->out, verb, value);
	writer_close(pipeline->out, stage);
}

static void add_number(struct pipeline *pipeline, const char *verb, int64_t number)
{
	size_t stage = open_stage(pipeline);

	writer_int64(pipeline->out, verb, number);
	writer_close(pipeline->out, stage);
}

static void add_text(struct pipeline *pipeline, const char *verb, const char *text)
{
	size_t stage = open_stage(pipeline);

	writer_string(pipeline->out, verb, text);
	writer_close(pipeline->out, stage);
}

static bool reads_arrays(const struct pipeline *pipeline, const struct element *filter)
{
	return filter->type == BSON_BYTE_DOCUMENT &&
	       reads_of_filter(filter->value, pipeline->namespace).kind != READS_NOTHING;
}

static bool sorts_by_arrays(const struct command *command, const struct ruled_namespace *namespace)
{
	const struct element *sort = &command->fields[FIELD_SORT];

	return sort->type == BSON_BYTE_DOCUMENT &&
	       reads_of_sort(sort->value, namespace).kind != READS_NOTHING;
}

/* A count or a distinct returns no documents. */
static enum reassemble_use use_of(const struct command *command)
{
	return bytes_are(command->first.name, "count") || bytes_are(command->first.name, "distinct")
		       ? REASSEMBLE_VALUES
		       : REASSEMBLE_WHOLE;
}

/* Documents are neither put together nor sorted, and only fields that the client names are left of
 * them: nothing has to be hidden. */
static bool shows_names_only(const struct command *command, const struct probe *probe)
{
	const struct element *projection = &command->fields[FIELD_PROJECTION];

	return !probe->whole && projection->type == BSON_BYTE_DOCUMENT &&
	       projection_names_fields(projection->value) &&
	       !is_filled(&command->fields[FIELD_SORT]);
}

static void put_together(struct pipeline *pipeline, enum reassemble_use use, bool single)
{
	reassemble_write_stages(
		pipeline->out, &pipeline->place, pipeline->namespace,
		(struct reassembly){use, single, pipeline->foreign.strict, pipeline->computes});
}

/* Those that match are known. */
static void add_known(struct pipeline *pipeline)
{
	const struct probe *probe = pipeline->probe;

	if (shows_names_only(pipeline->command, probe))
		return;
	if (probe->alone && probe->whole) {
		put_together(pipeline, use_of(pipeline->command), false);
		return;
	}
	if (probe->whole)
		reassemble_write_guards(pipeline->out, &pipeline->place, pipeline->namespace);
	reassemble_write_unset(pipeline->out, &pipeline->place, pipeline->namespace, false);
}

static bool names_one(const struct pipeline *pipeline, const struct element *filter)
{
	struct element id;

	return filter->type == BSON_BYTE_DOCUMENT &&
	       statement_pinned_id(filter->value, command_has(pipeline->command, FIELD_COLLATION),
				   &id);
}

static int64_t magnitude(int64_t number)
{
	return number < 0 ? -number : number;
}

/* How many documents a find returns at most; 0: all. */
static int64_t find_limit(const struct command *command)
{
	int64_t limit = options_number(command, "limit"), batch = FIRST_BATCH;

	if (!options_single_batch(command))
		return limit;
	if (options_has_number(command, "batchSize"))
		batch = options_number(command, "batchSize");
	return limit > 0 && limit < batch ? limit : batch;
}

/* Of sorted documents only so many are put together as a limit takes. An $expr may fail, which it
 * must do on any document. */
static bool sorts_first(const struct pipeline *pipeline, const struct element *filter)
{
	const struct command *command = pipeline->command;

	return !pipeline->probe && !filter_has_expression(filter->value) &&
	       find_limit(command) > 0 && has_sort(command) &&
	       !sorts_by_arrays(command, pipeline->namespace);
}

/* What can be told of documents before they are put together. */
static void add_candidates(struct pipeline *pipeline, struct bytes filter)
{
	if (pipeline->probe)
		probe_write_candidates(pipeline->out, &pipeline->place, filter, pipeline->namespace,
				       pipeline->probe);
	else
		reassemble_write_candidates(pipeline->out, &pipeline->place, filter,
					    pipeline->namespace);
}

/* Those of the command's documents that match its filter, whole. */
static void add_documents(struct pipeline *pipeline, const struct element *filter)
{
	const struct element *sort = &pipeline->command->fields[FIELD_SORT];
	const struct element *collation = &pipeline->command->fields[FIELD_COLLATION];
	bool reads = reads_arrays(pipeline, filter);

	if (reads)
		add_candidates(pipeline, filter->value);
	else if (filter->type == BSON_BYTE_DOCUMENT)
		add_stage(pipeline, "$match", filter);
	/* By _id: whose error comes first, or behind all that are wanted. */
	pipeline->sorted =
		reads && (sorts_first(pipeline, filter) ||
			  (filter_has_expression(filter->value) && reads_by_id(sort, collation)));
	if (pipeline->sorted)
		add_stage(pipeline, "$sort", sort);
	if (pipeline->probe && (pipeline->probe->light || pipeline->probe->alone)) {
		add_known(pipeline);
		return;
	}
	put_together(pipeline, use_of(pipeline->command), names_one(pipeline, filter));
	if (reads)
		filter_write_match(pipeline->out, &pipeline->place, filter->value, FILTER_AT_START);
}

struct element aggregate_filter(const struct command *command, size_t at, struct buffer *joined)
{
	struct element filter = {0};

	if (!aggregates(command))
		return command->fields[bytes_are(command->first.name, "find") ? FIELD_FILTER
									      : FIELD_QUERY];
	return at < first_match(command, joined, &filter) ? filter : (struct element){0};
}

int64_t aggregate_room(const struct command *command)
{
	int64_t size = FIRST_BATCH, limit;

	if (!bytes_are(command->first.name, "find") && !aggregates(command))
		return 1;
	if (aggregates(command))
		size = first_match_batch(command, FIRST_BATCH);
	else if (options_has_number(command, "batchSize"))
		size = options_number(command, "batchSize");
	if (size > PROBE_ROOM)
		size = PROBE_ROOM;
	limit = aggregates(command) ? 0 : find_limit(command);
	return limit > 0 && limit <= size ? limit : size - 1;
}

enum aggregate_need aggregate_need(const struct command *command,
				   const struct ruled_namespace *namespace)
{
	const struct element *projection = &command->fields[FIELD_PROJECTION];
	struct bytes key;

	if (aggregates(command))
		return first_match_suffices(command, namespace) ? AGGREGATE_NEEDS_NOTHING
								: AGGREGATE_NEEDS_DOCUMENTS;
	if (element_string(&command->fields[FIELD_KEY], &key))
		return name_rule(key, namespace) || name_find_hidden(key, namespace)
			       ? AGGREGATE_NEEDS_ORDER
			       : AGGREGATE_NEEDS_NOTHING;
	if (!bytes_are(command->first.name, "find"))
		return AGGREGATE_NEEDS_NOTHING;
	if (sorts_by_arrays(command, namespace))
		return AGGREGATE_NEEDS_ORDER;
	return projection->type == BSON_BYTE_DOCUMENT &&
			       projection_classify(projection->value, namespace).kind ==
				       PROJECTION_FORWARD
		       ? AGGREGATE_NEEDS_NOTHING
		       : AGGREGATE_NEEDS_DOCUMENTS;
}

/* The next window that the projection cuts. */
static bool next_window(const struct pipeline *pipeline, struct cursor *cursor,
			struct window *window)
{
	struct element field;

	while (cursor_next(cursor, &field) == CURSOR_ELEMENT)
		if (window_of(&field, pipeline->namespace, window))
			return true;
	return false;
}

static bool open_projection(const struct pipeline *pipeline, struct cursor *cursor)
{
	const struct element *projection = &pipeline->command->fields[FIELD_PROJECTION];

	return projection->type == BSON_BYTE_DOCUMENT && cursor_open(cursor, projection->value);
}

/* Neither filter nor sort looks into the arrays: which documents come, and in which order, is told
 * by what is stored. */
static bool only_projects(const struct pipeline *pipeline)
{
	return !reads_arrays(pipeline, &pipeline->command->fields[FIELD_FILTER]) &&
	       !sorts_by_arrays(pipeline->command, pipeline->namespace);
}

/* Nothing reads the arrays but windows of each of them. */
static bool only_windows(const struct pipeline *pipeline)
{
	const struct element *projection = &pipeline->command->fields[FIELD_PROJECTION];
	auto_free struct window *windows =
		must_calloc(pipeline->namespace->target_count, sizeof(*windows));

	return projection->type == BSON_BYTE_DOCUMENT &&
	       windows_of(projection->value, pipeline->namespace, windows) ==
		       pipeline->namespace->target_count;
}

static void add_windows(struct pipeline *pipeline)
{
	struct cursor cursor;
	struct window window;

	if (!open_projection(pipeline, &cursor))
		return;
	while (next_window(pipeline, &cursor, &window))
		window_write_stages(pipeline->out, &pipeline->place, pipeline->namespace, &window,
				    pipeline->foreign.strict);
	reassemble_write_unset(pipeline->out, &pipeline->place, pipeline->namespace, false);
}

static void add_projection(struct pipeline *pipeline, bool cut)
{
	const struct element *projection = &pipeline->command->fields[FIELD_PROJECTION];

	if (projection->type == BSON_BYTE_DOCUMENT)
		project_write(pipeline->out, &pipeline->place, projection->value,
			      &pipeline->command->fields[FIELD_FILTER], pipeline->namespace, cut);
}

/* Where a find has a limit, mongod sorts before it projects. */
static void add_unmixed_sort(struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;

	if (find_limit(command) == 0)
		unmixed_write_find(pipeline->out, &pipeline->place, &command->fields[FIELD_SORT],
				   &command->fields[FIELD_PROJECTION], pipeline->namespace);
}

static void add_order(struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;
	int64_t skip = options_number(command, "skip"), limit = find_limit(command);

	if (!pipeline->sorted && has_sort(command))
		add_stage(pipeline, "$sort", &command->fields[FIELD_SORT]);
	if (skip != 0)
		add_number(pipeline, "$skip", skip);
	if (limit != 0)
		add_number(pipeline, "$limit", limit);
}

/* Arrays are put together of those documents only that are returned. */
static void add_projected(struct pipeline *pipeline)
{
	const struct element *filter = &pipeline->command->fields[FIELD_FILTER];
	bool windows = only_windows(pipeline);

	if (filter->type != 0)
		add_stage(pipeline, "$match", filter);
	add_order(pipeline);
	if (windows)
		add_windows(pipeline);
	else
		put_together(pipeline, REASSEMBLE_WHOLE, names_one(pipeline, filter));
	add_projection(pipeline, windows);
}

static void add_find(struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;

	bounds_write(pipeline->out, &pipeline->place, command);
	if (only_projects(pipeline)) {
		add_projected(pipeline);
		return;
	}
	add_documents(pipeline, &command->fields[FIELD_FILTER]);
	add_unmixed_sort(pipeline);
	add_order(pipeline);
	if (pipeline->probe)
		add_number(pipeline, "$limit", aggregate_room(command) + 1);
	add_projection(pipeline, false);
}

static void add_count(struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;
	int64_t skip = options_number(command, "skip"), limit = options_number(command, "limit");

	add_documents(pipeline, &command->fields[FIELD_QUERY]);
	if (skip != 0)
		add_number(pipeline, "$skip", skip);
	if (limit != 0)
		add_number(pipeline, "$limit", magnitude(limit));
	add_text(pipeline, "$count", "n");
}

static enum distinct_source source_of(const struct pipeline *pipeline)
{
	if (pipeline->scans_documents)
		return DISTINCT_OF_FETCHED;
	return pipeline->scans_keys ? DISTINCT_OF_KEYS
				    : distinct_source(pipeline->command, pipeline->namespace);
}

static void add_distinct(struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;
	struct bytes key;

	require(element_string(&command->fields[FIELD_KEY], &key));
	add_documents(pipeline, &command->fields[FIELD_QUERY]);
	distinct_write(pipeline->out, &pipeline->place, key, source_of(pipeline));
}

/* What mongod reads by the index on _id, because the next stage sorts so: whose error comes first,
 * and what comes before it. */
static void add_order_of_id(struct pipeline *pipeline, struct cursor *stages)
{
	struct cursor behind = *stages;
	struct element stage, sort;

	if (cursor_next(&behind, &stage) != CURSOR_ELEMENT || !element_only_field(&stage, &sort) ||
	    !element_is(&sort, "$sort") || sort.type != BSON_BYTE_DOCUMENT ||
	    !reads_by_id(&sort, &pipeline->command->fields[FIELD_COLLATION]))
		return;
	add_stage(pipeline, "$sort", &sort);
	*stages = behind;
}

/* The query that stands at the front, before whose end documents are put together: for all of it,
 * where it may fail or the overflow is asked. False: it is not so. */
static bool add_front(struct pipeline *pipeline, struct cursor *stages, size_t at)
{
	auto_buffer struct buffer joined = {0};
	struct cursor behind = *stages;
	struct element first, filter;
	bool fails;

	if (cursor_next(&behind, &first) != CURSOR_ELEMENT ||
	    at >= filter_join_matches(&joined, &first, &behind, &filter))
		return false;
	fails = filter_has_expression(filter.value);
	if (!fails && !pipeline->probe)
		return false;
	add_candidates(pipeline, filter.value);
	*stages = behind;
	pipeline->foreign.whole = pipeline->namespace;
	if (pipeline->probe && pipeline->probe->light) {
		add_known(pipeline);
		return true;
	}
	if (fails)
		add_order_of_id(pipeline, stages);
	put_together(pipeline, REASSEMBLE_WHOLE, names_one(pipeline, &filter));
	filter_write_match(pipeline->out, &pipeline->place, filter.value, FILTER_AT_START);
	return true;
}

/* A group that mongod might have run in its other engine stands behind Spillway's stages. */
static bool is_moved_behind(const struct pipeline *pipeline)
{
	return pipeline->pushed &&
	       (pipeline->foreign.whole || pipeline->bare || pipeline->foreign.served > 0);
}

static bool stands_before(struct cursor stages)
{
	struct element stage;

	return cursor_next(&stages, &stage) == CURSOR_ELEMENT;
}

static void add_stage_of_client(struct pipeline *pipeline, const struct element *stage,
				struct cursor behind)
{
	struct foreign *foreign = &pipeline->foreign;
	enum unmixed_at at = pipeline->later ? UNMIXED_LATER : UNMIXED_FRONT;

	if (foreign->whole)
		unmixed_write(pipeline->out, &pipeline->place, stage, behind, at, foreign->whole);
	if (foreign->united && foreign->united != foreign->whole)
		unmixed_write(pipeline->out, &pipeline->place, stage, behind, at, foreign->united);
	if (is_moved_behind(pipeline) &&
	    pushed_write_group(pipeline->out, &pipeline->place, stage, stands_before(behind)))
		foreign->stands = match_stands_behind(foreign->stands, stage);
	else
		foreign_write_top_stage(foreign, pipeline->out, &pipeline->place, stage);
}

/* The stage before which documents are put together, or that takes their arrays away. */
static void add_turn(struct pipeline *pipeline, const struct element *stage, struct cursor behind,
		     bool single)
{
	auto_buffer struct buffer scratch = {0};
	struct element filter;
	bool matches = filter_of_match(stage, &filter);
	bool fails = matches && filter_has_expression(filter.value);

	if (pipeline->bare) {
		reassemble_write_unset(pipeline->out, &pipeline->place, pipeline->namespace, false);
		add_stage_of_client(pipeline, stage, behind);
		return;
	}
	if (matches && !fails)
		add_candidates(pipeline, filter.value);
	put_together(pipeline, REASSEMBLE_WHOLE, single);
	pipeline->foreign.whole = pipeline->namespace;
	if (fails && pipeline->foreign.stands == MATCH_STANDS_QUERY)
		filter.value = filter_as_query(&scratch, filter.value);
	if (fails)
		filter_write_match(pipeline->out, &pipeline->place, filter.value, FILTER_AT_LATER);
	else
		add_stage_of_client(pipeline, stage, behind);
}

/* The client's own stages; before number `at` documents are put together. */
static void add_stages(struct pipeline *pipeline, size_t at)
{
	struct cursor stages;
	struct element stage, match;
	bool single = false, front;
	size_t number = 0;

	require(cursor_open(&stages, pipeline->command->fields[FIELD_PIPELINE].value));
	front = add_front(pipeline, &stages, at);
	require(front || !pipeline->probe);
	for (; cursor_next(&stages, &stage) == CURSOR_ELEMENT; number++) {
		if (number == 0 && !front)
			single = filter_of_match(&stage, &match) && names_one(pipeline, &match);
		if (number == at && !front)
			add_turn(pipeline, &stage, stages, single);
		else
			add_stage_of_client(pipeline, &stage, stages);
		pipeline->later = pipeline->later || !filter_of_match(&stage, &match);
		pipeline->pushed = pushed_behind(pipeline->pushed, &stage);
	}
}

/* ---- the command ---- */

/* Fields of the client's command that the pipeline or the cursor stands for. */
static bool is_replaced(const struct element *field)
{
	static const char *const replaced[] = {
		"find",        "count",           "distinct",     "aggregate",
		"filter",      "query",           "sort",         "skip",
		"limit",       "projection",      "batchSize",    "pipeline",
		"singleBatch", "noCursorTimeout", "key",          "ntoreturn",
		"tailable",    "awaitData",       "oplogReplay",  "allowPartialResults",
		"returnKey",   "fields",          "showRecordId", "min",
		"max"};

	for (size_t i = 0; i < ARRAY_LENGTH(replaced); i++)
		if (element_is(field, replaced[i]))
			return true;
	return false;
}

static bool replaced_of_aggregate(const struct element *field, const struct probe *probe)
{
	return element_is(field, "aggregate") || element_is(field, "pipeline") ||
	       (probe && element_is(field, "cursor"));
}

static void write_cursor(const struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;
	struct buffer *out = pipeline->out;
	bool finds = bytes_are(command->first.name, "find");
	size_t cursor = writer_open_document(out, "cursor");
	int64_t limit = finds ? find_limit(command) : 0, size = FIRST_BATCH;

	if (options_has_number(command, "batchSize"))
		size = options_number(command, "batchSize");
	if (pipeline->probe)
		writer_int64(out, "batchSize", aggregate_room(command) + PROBE_HITS_MAX + 3);
	else if (finds && (limit > 0 || options_has_number(command, "batchSize")))
		writer_int64(out, "batchSize",
			     find_end_batch(command, pipeline->namespace, limit, size));
	writer_close(out, cursor);
}

static void write_pipeline(struct pipeline *pipeline, size_t stage)
{
	const struct command *command = pipeline->command;
	size_t array = writer_open_array(pipeline->out, "pipeline");

	if (bytes_are(command->first.name, "find"))
		add_find(pipeline);
	else if (bytes_are(command->first.name, "count"))
		add_count(pipeline);
	else if (bytes_are(command->first.name, "distinct"))
		add_distinct(pipeline);
	else
		add_stages(pipeline, stage);
	if (pipeline->probe && aggregates(command))
		add_number(pipeline, "$limit", aggregate_room(command) + 1);
	if (pipeline->computes)
		computed_write_mark(pipeline->out, &pipeline->place);
	if (pipeline->probe && !pipeline->probe->alone)
		probe_write_hits(pipeline->out, &pipeline->place, pipeline->probe);
	writer_close(pipeline->out, array);
}

/* What only the first command of a transaction says has been said. */
static bool is_said(const struct command *command, const struct element *field, bool begun)
{
	return begun && command_has(command, FIELD_AUTOCOMMIT) &&
	       (element_is(field, "startTransaction") || element_is(field, "readConcern"));
}

/* The client's own find, of the one document that is named: costs mongod less than an aggregate. */
static void write_find(struct buffer *out, const struct command *command,
		       const struct aggregate_task *task, const struct probe *probe)
{
	struct cursor cursor;
	struct element field;
	size_t filter;

	require(cursor_open(&cursor, command->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, "filter")) {
			writer_element(out, &field);
			continue;
		}
		filter = writer_open_document(out, "filter");
		probe_write_conditions(out, field.value, task->namespace, probe);
		writer_close(out, filter);
	}
}

void aggregate_write(struct buffer *out, const struct command *command,
		     const struct aggregate_task *task, bool begun, const struct probe *probe)
{
	struct pipeline pipeline = {.out = out,
				    .command = command,
				    .namespace = task->namespace,
				    .probe = probe,
				    .computes = task->computes,
				    .bare = task->bare,
				    .scans_keys = task->scans_keys,
				    .scans_documents = task->scans_documents,
				    .pushed = true,
				    .foreign = {.cache = task->cache,
						.database = task->database,
						.strict = task->strict}};
	bool natural = !aggregates(command) && aggregate_sorts_naturally(command);
	struct cursor cursor;
	struct element field;

	if (probe && probe->alone && shows_names_only(command, probe)) {
		write_find(out, command, task, probe);
		return;
	}
	writer_renamed(out, "aggregate", &command->first);
	write_pipeline(&pipeline, task->stage);
	if (!aggregates(command) || probe)
		write_cursor(&pipeline);
	if (natural)
		writer_renamed(out, "hint", &command->fields[FIELD_SORT]);
	require(cursor_open(&cursor, command->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		bool replaced = aggregates(command) ? replaced_of_aggregate(&field, probe)
						    : is_replaced(&field);

		replaced = replaced || (natural && element_is(&field, "hint"));
		if (!replaced && !is_said(command, &field, begun))
			writer_element(out, &field);
	}
}
