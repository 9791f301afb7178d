/* Writes a client's read as an aggregate over whole documents. */
#include "rules/stages/aggregate.h"

#include "protocol/template.h"
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

/* The pipeline that is being written. */
struct pipeline {
	struct buffer *out;
	const struct command *command;
	const struct ruled_namespace *namespace;
	const struct probe *probe; /* may be NULL */
	size_t place;
	const struct aggregate_task *task;
	const bool *concerned;  /* for each target: its array is put together; NULL: the only one */
	bool sorted;            /* before anything is put together */
	bool later;             /* of the client's stages others than $match have been written */
	bool pushed;            /* mongod may run a group here in its other engine */
	struct foreign foreign; /* `strict` is of all that is written */
};

static void add_stage(struct pipeline *pipeline, const char *verb, const struct element *value)
{
	template_append(pipeline->out, &pipeline->place, "{@verb: @value}", fill("verb", verb),
			fill("value", value));
}

static void add_number(struct pipeline *pipeline, const char *verb, int64_t number)
{
	template_append(pipeline->out, &pipeline->place, "{@verb: @number}", fill("verb", verb),
			fill("number", number));
}

static bool reads_arrays(const struct pipeline *pipeline, const struct element *filter)
{
	return filter->type == BSON_BYTE_DOCUMENT &&
	       reads_of_filter(filter->value, pipeline->namespace).kind != READS_NOTHING;
}

/* A count or a distinct returns no documents. */
static enum reassemble_use use_of(const struct command *command)
{
	return command->kind == COMMAND_COUNT || command->kind == COMMAND_DISTINCT
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
	       !aggregate_has(&command->fields[FIELD_SORT]);
}

static struct reassembly reassembly_of(struct pipeline *pipeline)
{
	struct reassembly how = foreign_reassembly(&pipeline->foreign, pipeline->namespace);

	how.only = pipeline->concerned;
	return how;
}

static void take_ours_away(struct pipeline *pipeline)
{
	reassemble_write_unset(pipeline->out, &pipeline->place, pipeline->namespace,
			       reassembly_of(pipeline));
}

static void put_together(struct pipeline *pipeline, enum reassemble_use use, bool single)
{
	struct reassembly how = reassembly_of(pipeline);

	how.use = use;
	how.single = single;
	reassemble_write_stages(pipeline->out, &pipeline->place, pipeline->namespace, how);
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
	take_ours_away(pipeline);
}

static bool names_one(const struct pipeline *pipeline, const struct element *filter)
{
	struct element id;

	return filter->type == BSON_BYTE_DOCUMENT &&
	       statement_pinned_id(filter->value, command_has(pipeline->command, FIELD_COLLATION),
				   &id);
}

/* Of sorted documents only so many are put together as a limit takes. An $expr may fail, which it
 * must do on any document. */
static bool sorts_first(const struct pipeline *pipeline, const struct element *filter)
{
	const struct command *command = pipeline->command;

	return !pipeline->probe && !filter_has_expression(filter->value) &&
	       aggregate_limit(command) > 0 && aggregate_sorts(command) &&
	       !aggregate_sorts_by_arrays(command, pipeline->namespace);
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
	       !aggregate_sorts_by_arrays(pipeline->command, pipeline->namespace);
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

	if (pipeline->task->marks)
		window_write_marks(pipeline->out, &pipeline->place, pipeline->namespace,
				   pipeline->command->fields[FIELD_PROJECTION].value);
	if (pipeline->task->marks || !open_projection(pipeline, &cursor))
		return;
	while (next_window(pipeline, &cursor, &window))
		window_write_stages(pipeline->out, &pipeline->place, pipeline->namespace, &window,
				    pipeline->foreign.strict);
	take_ours_away(pipeline);
}

static void add_projection(struct pipeline *pipeline, enum project_arrays arrays)
{
	const struct element *projection = &pipeline->command->fields[FIELD_PROJECTION];

	if (projection->type == BSON_BYTE_DOCUMENT)
		project_write(pipeline->out, &pipeline->place, projection->value,
			      &pipeline->command->fields[FIELD_FILTER], pipeline->namespace,
			      arrays);
}

/* Where a find has a limit, mongod sorts before it projects. */
static void add_unmixed_sort(struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;

	if (aggregate_limit(command) == 0)
		unmixed_write_find(pipeline->out, &pipeline->place, &command->fields[FIELD_SORT],
				   &command->fields[FIELD_PROJECTION], pipeline->namespace);
}

static void add_order(struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;
	int64_t skip = options_number(command, "skip"), limit = aggregate_limit(command);

	if (!pipeline->sorted && aggregate_sorts(command))
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
	enum project_arrays arrays = PROJECT_WHOLE;

	if (pipeline->task->marks)
		arrays = PROJECT_MARKED;
	else if (only_windows(pipeline) && pipeline->foreign.damage == REASSEMBLE_RAISES)
		arrays = PROJECT_CUT;
	if (filter->type != 0)
		add_stage(pipeline, "$match", filter);
	add_order(pipeline);
	if (arrays == PROJECT_WHOLE)
		put_together(pipeline, REASSEMBLE_WHOLE, names_one(pipeline, filter));
	else
		add_windows(pipeline);
	add_projection(pipeline, arrays);
}

/* Those that come first in the order of an array. */
static void add_foremost(struct pipeline *pipeline)
{
	int64_t skip = options_number(pipeline->command, "skip");

	foremost_write_stages(pipeline->out, &pipeline->place, pipeline->task->foremost,
			      reassembly_of(pipeline));
	if (skip != 0)
		add_number(pipeline, "$skip", skip);
	put_together(pipeline, REASSEMBLE_WHOLE, false);
	add_projection(pipeline, PROJECT_WHOLE);
}

static void add_find(struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;

	bounds_write(pipeline->out, &pipeline->place, command);
	if (only_projects(pipeline) || pipeline->task->foremost) {
		(pipeline->task->foremost ? add_foremost : add_projected)(pipeline);
		return;
	}
	add_documents(pipeline, &command->fields[FIELD_FILTER]);
	add_unmixed_sort(pipeline);
	add_order(pipeline);
	if (pipeline->probe)
		add_number(pipeline, "$limit", aggregate_room(command) + 1);
	add_projection(pipeline, PROJECT_WHOLE);
}

static void add_count(struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;
	int64_t skip = options_number(command, "skip"), limit = options_number(command, "limit");

	add_documents(pipeline, &command->fields[FIELD_QUERY]);
	if (skip != 0)
		add_number(pipeline, "$skip", skip);
	if (limit != 0)
		add_number(pipeline, "$limit", limit < 0 ? -limit : limit);
	template_append(pipeline->out, &pipeline->place, "{$count: 'n'}");
}

static enum distinct_source source_of(const struct pipeline *pipeline)
{
	if (pipeline->task->scans_documents)
		return DISTINCT_OF_FETCHED;
	return pipeline->task->scans_keys ? DISTINCT_OF_KEYS
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
	       (pipeline->foreign.whole || pipeline->task->bare || pipeline->foreign.served > 0);
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

	if (pipeline->task->bare) {
		take_ours_away(pipeline);
		add_stage_of_client(pipeline, stage, behind);
		return;
	}
	if (matches && !fails)
		add_candidates(pipeline, filter.value);
	put_together(pipeline, REASSEMBLE_WHOLE, single);
	pipeline->foreign.whole = pipeline->namespace;
	if (fails && match_differs(pipeline->foreign.stands, filter.value))
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

static bool is_replaced(const struct command *command, const struct element *field,
			const struct probe *probe)
{
	if (!aggregate_is_one(command))
		return aggregate_replaces(field);
	return element_is(field, "aggregate") || element_is(field, "pipeline") ||
	       (probe && element_is(field, "cursor"));
}

static void write_cursor(const struct pipeline *pipeline)
{
	const struct command *command = pipeline->command;
	struct buffer *out = pipeline->out;
	bool finds = command->kind == COMMAND_FIND;
	size_t cursor = writer_open_document(out, "cursor");
	int64_t limit = finds ? aggregate_limit(command) : 0, size = AGGREGATE_FIRST_BATCH;

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

	if (command->kind == COMMAND_FIND)
		add_find(pipeline);
	else if (command->kind == COMMAND_COUNT)
		add_count(pipeline);
	else if (command->kind == COMMAND_DISTINCT)
		add_distinct(pipeline);
	else
		add_stages(pipeline, stage);
	if (pipeline->probe && aggregate_is_one(command))
		add_number(pipeline, "$limit", aggregate_room(command) + 1);
	if (pipeline->task->computes)
		computed_write_mark(pipeline->out, &pipeline->place);
	if (pipeline->probe && !pipeline->probe->alone)
		probe_write_hits(pipeline->out, &pipeline->place, pipeline->probe);
	writer_close(pipeline->out, array);
}

/* What only the first command of a transaction says has been said; the time is less by now. */
static bool is_said(const struct command *command, const struct aggregate_task *task,
		    const struct element *field, bool begun)
{
	return (task->time_left > 0 && element_is(field, "maxTimeMS")) ||
	       (begun && command_has(command, FIELD_AUTOCOMMIT) &&
		(element_is(field, "startTransaction") || element_is(field, "readConcern")));
}

static void write_time(struct buffer *out, const struct aggregate_task *task)
{
	if (task->time_left > 0)
		writer_int64(out, "maxTimeMS", task->time_left);
}

/* The client's own find, of the one document that is named: costs mongod less than an aggregate. */
static void write_find(struct buffer *out, const struct command *command,
		       const struct aggregate_task *task, const struct probe *probe)
{
	bool hintless = aggregate_drops_hint(command, task->namespace, probe);
	struct cursor cursor;
	struct element field;
	size_t filter;

	require(cursor_open(&cursor, command->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, "filter")) {
			if ((!hintless || !element_is(&field, "hint")) &&
			    !is_said(command, task, &field, false))
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
				    .task = task,
				    .pushed = true,
				    .foreign = {.cache = task->cache,
						.database = task->database,
						.pipeline = command->fields[FIELD_PIPELINE].value,
						.strict = task->strict,
						.damage = task->damage}};
	auto_free bool *concerned = NULL;
	bool natural = !aggregate_is_one(command) && aggregate_sorts_naturally(command);
	bool hintless = natural || aggregate_drops_hint(command, task->namespace, probe);
	struct cursor cursor;
	struct element field;

	if (probe && probe->alone && shows_names_only(command, probe)) {
		write_find(out, command, task, probe);
		write_time(out, task);
		return;
	}
	if (task->namespace->target_count > 1)
		concerned = aggregate_list_concerned(command, task->namespace);
	pipeline.concerned = concerned;
	writer_renamed(out, "aggregate", &command->first);
	write_pipeline(&pipeline, task->stage);
	if (!aggregate_is_one(command) || probe)
		write_cursor(&pipeline);
	if (natural)
		writer_renamed(out, "hint", &command->fields[FIELD_SORT]);
	require(cursor_open(&cursor, command->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!is_replaced(command, &field, probe) &&
		    !(hintless && element_is(&field, "hint")) &&
		    !is_said(command, task, &field, begun))
			writer_element(out, &field);
	write_time(out, task);
}
