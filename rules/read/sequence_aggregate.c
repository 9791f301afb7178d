/* A read that needs ruled arrays whole: mongod puts the documents together, in an aggregate, and
 * the client gets the reply of its own command. */
#include "protocol/writer.h"
#include "rules/stages/pipeline.h"
#include "rules/stages/stage_bounds.h"
#include "rules/stages/stage_distinct.h"
#include "rules/merge/merge.h"
#include "rules/sequence/notes.h"
#include "rules/query/read_options.h"
#include "rules/sequence/own_error.h"
#include "rules/stages/pushed_group.h"
#include "rules/read/error_words.h"
#include "rules/reassembly/reassemble.h"
#include "rules/sequence/sequence_inner.h"

#include <stdlib.h>

#define ATTEMPTS 5

enum step {
	STEP_PLANNED, /* how mongod would answer the client's distinct */
	STEP_TRIED,   /* fields that mongod may refuse, or no aggregate has */
	STEP_ASKED,
	STEP_KILLING, /* a cursor that is not needed */
	STEP_WORDS,   /* the client's own command, explained */
};

struct sequence_aggregate {
	struct sequence sequence; /* first: the two are one pointer */
	struct command explained; /* of an explain */
	struct probe probe;
	struct buffer cursor; /* a reply's cursor without the hits behind its documents */
	struct packet failed; /* an error that quotes the query */
	uint64_t asked;
	int attempts, probes;
	bool probing;
};

static struct sequence_aggregate *aggregate_of(struct sequence *sequence)
{
	return (struct sequence_aggregate *)(void *)sequence;
}

static bool explains(const struct sequence *sequence)
{
	return bytes_are(sequence->match.command.first.name, "explain");
}

/* ---- what is sent ---- */

static bool edit_explain(void *context, struct buffer *out, const struct element *field)
{
	struct sequence *sequence = context;
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	const struct aggregate_task task = match_task(&sequence->match);
	size_t inner;

	if (!element_is(field, "explain"))
		return false;
	inner = writer_open_document(out, "explain");
	aggregate_write(out, &aggregate->explained, &task, false,
			aggregate->probing ? &aggregate->probe : NULL);
	writer_close(out, inner);
	return true;
}

static enum sequence_outcome ask(struct sequence *sequence, const struct sequence_input *input)
{
	const struct match *match = &sequence->match;
	const struct aggregate_task task = match_task(match);
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	size_t body;

	sequence->step = STEP_ASKED;
	aggregate->asked = input->now;
	if (explains(sequence)) {
		sequence_write_edited(sequence, MESSAGE_EXHAUST_ALLOWED, edit_explain, sequence);
		return match->facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
	}
	body = sequence_begin_command(sequence);
	aggregate_write(&sequence->buffer, &match->command, &task, sequence->begun,
			aggregate->probing ? &aggregate->probe : NULL);
	return sequence_send_command(sequence, body);
}

/* A secondary may catch up with an hour in a moment: what is garbage to it says nothing of time. */
static bool reads_primary(const struct command *command)
{
	const struct element *preference = &command->fields[FIELD_READ_PREFERENCE];
	struct element mode;
	struct bytes text;

	return preference->type != BSON_BYTE_DOCUMENT ||
	       !document_find(preference->value, "mode", &mode) || !element_string(&mode, &text) ||
	       bytes_are(text, "primary") || bytes_are(text, "primaryPreferred");
}

/* An aggregate whose cursor is mongod's to judge. */
static bool bears_hits(const struct sequence *sequence, const struct command *command)
{
	struct element cursor;

	return !bytes_are(command->first.name, "aggregate") ||
	       (!sequence->match.computes &&
		(explains(sequence) || document_find(command->body, "cursor", &cursor)));
}

/* No transaction takes the stage by which the overflow is asked. */
static void decide_to_probe(struct sequence *sequence)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	const struct command *command = &sequence->match.command;
	auto_buffer struct buffer joined = {0};
	struct element filter;

	if (explains(sequence)) {
		require(command_parse(command->first.value, &aggregate->explained));
		command = &aggregate->explained;
	}
	filter = aggregate_filter(command, sequence->match.stage, &joined);
	aggregate->probing =
		filter.type == BSON_BYTE_DOCUMENT && !bounds_given(command) &&
		reads_primary(command) && !command_has(command, FIELD_AUTOCOMMIT) &&
		aggregate_room(command) > 0 && bears_hits(sequence, command) &&
		probe_of_filter(filter.value, sequence->match.namespace, &aggregate->probe);
}

static void decide_to_ask_lightly(struct sequence *sequence)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	const struct match *match = &sequence->match;
	enum aggregate_need need = aggregate_need(
		explains(sequence) ? &aggregate->explained : &match->command, match->namespace);

	aggregate->probe.whole = need != AGGREGATE_NEEDS_NOTHING;
	aggregate->probe.light = aggregate->probe.exact && need != AGGREGATE_NEEDS_ORDER;
}

/* mongod takes few hints beside a $natural sort, and no other field in it. */
static bool sorts_oddly(const struct command *command)
{
	const struct element *sort = &command->fields[FIELD_SORT];
	struct element natural;

	return sort->type == BSON_BYTE_DOCUMENT &&
	       document_find(sort->value, "$natural", &natural) &&
	       (command_has(command, FIELD_HINT) || !aggregate_sorts_naturally(command));
}

/* A find's $elemMatch takes no $jsonSchema, and the $match by which it is written does. */
static bool projects_by_schema(const struct command *command)
{
	static const char schema[] = "$jsonSchema";
	const struct element *projection = &command->fields[FIELD_PROJECTION];

	return projection->type == BSON_BYTE_DOCUMENT &&
	       memmem(projection->value.data, projection->value.length, schema, sizeof(schema));
}

/* Whether the command has fields that mongod may refuse of it, and the aggregate would bear. */
static bool is_unsure(const struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;
	struct command explained;

	if (explains(sequence)) {
		require(command_parse(command->first.value, &explained));
		command = &explained;
	}
	return !bytes_are(command->first.name, "aggregate") &&
	       (!options_are_usual(command) || sorts_oddly(command) || projects_by_schema(command));
}

/* An aggregate has a hint, which a distinct of mongod 6.0 has not, and much that no other command
 * has; it has no min and max, of which a find may say what mongod refuses. The client's command is
 * tried on no documents. */
static enum sequence_outcome try_command(struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;
	bool finds = bytes_are(command->first.name, "find");
	const char *filter = finds ? "filter" : "query";
	struct buffer *out = &sequence->buffer;
	size_t body, query, none, list;
	struct cursor cursor;
	struct element field;

	sequence->step = STEP_TRIED;
	if (explains(sequence))
		return own_error_ask(sequence);
	body = sequence_begin_command(sequence);
	require(cursor_open(&cursor, command->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, filter) && !(finds && element_is(&field, "batchSize")))
			writer_element(out, &field);
	query = writer_open_document(out, filter);
	none = writer_open_document(out, "_id");
	list = writer_open_array(out, "$in");
	writer_close(out, list);
	writer_close(out, none);
	writer_close(out, query);
	return sequence_send_command(sequence, body);
}

static enum sequence_outcome begin(struct sequence *sequence, const struct sequence_input *input)
{
	decide_to_probe(sequence);
	if (aggregate_of(sequence)->probing)
		decide_to_ask_lightly(sequence);
	return ask(sequence, input);
}

/* All candidates, their number be what it may. */
static enum sequence_outcome ask_all(struct sequence *sequence, const struct sequence_input *input)
{
	if (sequence_time_left(sequence, input) == 0)
		return sequence_fail(sequence, ERROR_MAX_TIME_EXPIRED,
				     "operation exceeded time limit", NULL);
	aggregate_of(sequence)->probing = false;
	return ask(sequence, input);
}

/* ---- what comes back ---- */

/* The first document of the reply's batch; false where there is none. */
static bool first_document(struct bytes cursor_document, struct bytes *document)
{
	struct element batch, first;
	struct cursor cursor;

	if (!document_find(cursor_document, "firstBatch", &batch) ||
	    batch.type != BSON_BYTE_ARRAY || !cursor_open(&cursor, batch.value) ||
	    cursor_next(&cursor, &first) != CURSOR_ELEMENT || first.type != BSON_BYTE_DOCUMENT)
		return false;
	*document = first.value;
	return true;
}

static void write_count(struct buffer *out, struct bytes document)
{
	struct element count;

	if (document.length > 0 && document_find(document, "n", &count))
		writer_renamed(out, "n", &count);
	else
		writer_int32(out, "n", 0);
}

static void write_values(struct buffer *out, struct bytes document)
{
	struct element values;
	size_t empty;

	if (document.length > 0 && document_find(document, "values", &values)) {
		writer_element(out, &values);
		return;
	}
	empty = writer_open_array(out, "values");
	writer_close(out, empty);
}

/* A count's or a distinct's reply. */
static enum sequence_outcome answer_value(struct sequence *sequence, struct packet *reply,
					  struct bytes cursor_document)
{
	struct buffer *out = &sequence->buffer;
	struct bytes document = {0};
	struct cursor cursor;
	struct element field;
	size_t body;

	(void)!first_document(cursor_document, &document);
	body = sequence_begin_reply(sequence, &reply->message);
	if (bytes_are(sequence->match.command.first.name, "count"))
		write_count(out, document);
	else
		write_values(out, document);
	if (document_find(cursor_document, "atClusterTime", &field)) /* a snapshot's */
		writer_element(out, &field);
	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, "cursor"))
			writer_element(out, &field);
	return sequence_end_reply(sequence, body);
}

static enum sequence_outcome fail(struct sequence *sequence, enum error_code code, const char *why)
{
	char message[SEQUENCE_MESSAGE];

	return sequence_fail(sequence, code, sequence_name_rule(sequence, why, message), NULL);
}

/* The reply with another cursor. */
static enum sequence_outcome pass_cursor(struct sequence *sequence, struct packet *reply,
					 struct bytes cursor_document)
{
	struct buffer *out = &sequence->buffer;
	struct cursor cursor;
	struct element field;
	size_t body = sequence_begin_reply(sequence, &reply->message);

	require(cursor_open(&cursor, reply->message.body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT)
		if (element_is(&field, "cursor"))
			writer_document(out, "cursor", cursor_document);
		else
			writer_element(out, &field);
	return sequence_end_reply(sequence, body);
}

/* ---- explain ---- */

/* What mongod says of the query in front of the stages that stand for a find, count or distinct. */
static bool explained_query(struct bytes body, struct bytes *query)
{
	struct element field, first;
	struct cursor stages;

	if (document_find(body, "queryPlanner", &field) || !document_find(body, "stages", &field) ||
	    field.type != BSON_BYTE_ARRAY || !cursor_open(&stages, field.value) ||
	    cursor_next(&stages, &first) != CURSOR_ELEMENT || first.type != BSON_BYTE_DOCUMENT ||
	    !document_find(first.value, "$cursor", &field) || field.type != BSON_BYTE_DOCUMENT)
		return false;
	*query = field.value;
	return true;
}

/* Programs look for `queryPlanner` at the top, where mongod has it for such a command. */
static enum sequence_outcome answer_explain(struct sequence *sequence, struct packet *reply,
					    struct bytes query)
{
	struct buffer *out = &sequence->buffer;
	size_t body = sequence_begin_reply(sequence, &reply->message);
	struct cursor fields, parts;
	struct element field, part;

	require(cursor_open(&fields, reply->message.body));
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT) {
		if (element_is(&field, "stages") && cursor_open(&parts, query))
			while (cursor_next(&parts, &part) == CURSOR_ELEMENT)
				writer_element(out, &part);
		writer_element(out, &field);
	}
	return sequence_end_reply(sequence, body);
}

static bool explains_no_aggregate(struct sequence *sequence)
{
	return explains(sequence) &&
	       !bytes_are(aggregate_of(sequence)->explained.first.name, "aggregate");
}

/* ---- documents that are marked (computed.h) ---- */

static bool write_unmarked(struct buffer *out, struct merge *merge, const struct element *batch)
{
	char name[12];
	size_t list = writer_open_array(out, "firstBatch"), count;
	struct element document;
	struct cursor cursor;

	if (!cursor_open(&cursor, batch->value))
		return false;
	while (cursor_next(&cursor, &document) == CURSOR_ELEMENT) {
		count = merge_document_count(merge);
		if (document.type != BSON_BYTE_DOCUMENT ||
		    merge_add_document(merge, document.value) != MERGE_TAKEN)
			return false;
		buffer_append(out, &document.type, 1);
		writer_index(name, count);
		buffer_append(out, name, strlen(name) + 1);
		if (!merge_write_document(merge, count, out))
			return false;
	}
	writer_close(out, list);
	return true;
}

/* The reply's cursor, with documents that have lost their marks. */
static bool write_shown(struct buffer *out, struct merge *merge, struct bytes cursor_document)
{
	struct element field;
	struct cursor fields;
	size_t start;

	out->length = 0;
	start = writer_open(out);
	if (!cursor_open(&fields, cursor_document))
		return false;
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT)
		if (!element_is(&field, "firstBatch"))
			writer_element(out, &field);
		else if (!write_unmarked(out, merge, &field))
			return false;
	writer_close(out, start);
	return true;
}

static enum sequence_outcome pass_computed(struct sequence *sequence, struct packet *reply,
					   struct bytes cursor_document)
{
	struct buffer *shown = &aggregate_of(sequence)->cursor;
	struct merge *merge = merge_new(sequence->match.namespace);
	bool written = write_shown(shown, merge, cursor_document);

	merge_free(merge);
	return written ? pass_cursor(sequence, reply, buffer_view(shown))
		       : fail(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
			      "a document that was computed can't be read");
}

/* ---- hits in the overflow ---- */

/* The reply's cursor, without what stands behind the first documents of its batch. */
static void write_cut(struct buffer *out, struct bytes cursor_document, size_t documents)
{
	struct cursor fields, batch;
	struct element field, document;
	size_t start, list;

	out->length = 0;
	start = writer_open(out);
	require(cursor_open(&fields, cursor_document));
	while (cursor_next(&fields, &field) == CURSOR_ELEMENT) {
		if (!element_is(&field, "firstBatch")) {
			writer_element(out, &field);
			continue;
		}
		list = writer_open_array(out, "firstBatch");
		require(cursor_open(&batch, field.value));
		for (size_t i = 0; i < documents; i++) {
			require(cursor_next(&batch, &document) == CURSOR_ELEMENT);
			writer_element(out, &document);
		}
		writer_close(out, list);
	}
	writer_close(out, start);
}

static enum sequence_outcome answer_cut(struct sequence *sequence, struct packet *reply,
					struct bytes cursor_document, size_t documents)
{
	struct buffer *cut = &aggregate_of(sequence)->cursor;

	write_cut(cut, cursor_document, documents);
	return bytes_are(sequence->match.command.first.name, "find") ||
			       bytes_are(sequence->match.command.first.name, "aggregate")
		       ? pass_cursor(sequence, reply, buffer_view(cut))
		       : answer_value(sequence, reply, buffer_view(cut));
}

/* After hits that had not been named. */
static enum sequence_outcome ask_again(struct sequence *sequence,
				       const struct sequence_input *input, size_t documents)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	const struct command *command = &sequence->match.command;

	aggregate->probe.alone = aggregate->probe.exact && !aggregate->probe.alone &&
				 documents == 0 && bytes_are(command->first.name, "find") &&
				 options_number(command, "skip") == 0 &&
				 probe_names_one(&aggregate->probe);
	sequence->counts.repeats++;
	return ++aggregate->probes < PROBE_ROUNDS && sequence_time_left(sequence, input) != 0
		       ? ask(sequence, input)
		       : ask_all(sequence, input);
}

static enum sequence_outcome take_probe(struct sequence *sequence,
					const struct sequence_input *input,
					struct bytes cursor_document)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	int64_t room = aggregate_room(&sequence->match.command), id = 0;
	enum probe_found found = PROBE_TOO_MANY;
	struct element field;
	size_t documents = 0;

	if (document_find(cursor_document, "id", &field) && element_integer(&field, &id) &&
	    id != 0) {
		sequence->step = STEP_KILLING;
		return sequence_send_kill(sequence, sequence->match.namespace->database,
					  sequence->match.namespace->collection, id);
	}
	if (document_find(cursor_document, "firstBatch", &field) && field.type == BSON_BYTE_ARRAY)
		found = probe_take(&aggregate->probe, field.value, (size_t)room,
				   input->now - aggregate->asked, &documents);
	if (found == PROBE_TOO_MANY)
		return ask_all(sequence, input);
	if (found == PROBE_COMPLETE && (documents > 0 || !aggregate->probe.alone))
		return answer_cut(sequence, input->reply, cursor_document, documents);
	return ask_again(sequence, input, documents);
}

/* What has been merged can't be taken back, nor always be merged again. */
static bool merges(const struct sequence *sequence)
{
	const struct element *pipeline = &sequence->match.command.fields[FIELD_PIPELINE];
	struct element stage, merge;
	struct cursor stages;
	bool found = false;

	if (pipeline->type != BSON_BYTE_ARRAY || !cursor_open(&stages, pipeline->value))
		return false;
	while (!found && cursor_next(&stages, &stage) == CURSOR_ELEMENT)
		found = stage.type == BSON_BYTE_DOCUMENT &&
			document_find(stage.value, "$merge", &merge);
	return found;
}

/* The planner's errors quote the query. */
static enum sequence_outcome ask_words(struct sequence *sequence, struct packet *reply)
{
	aggregate_of(sequence)->failed = packet_steal(reply);
	sequence->step = STEP_WORDS;
	return own_error_ask(sequence);
}

/* Of ours: somebody wrote straight into a spilled document, or its overflow. */
static bool met_no_array(const struct sequence *sequence, struct bytes reply,
			 const struct reply_summary *summary)
{
	static const char *const theirs[] = {"$slice", "$concatArrays", "$size"};
	struct bytes asked = sequence->match.command.body;

	for (size_t i = 0; i < ARRAY_LENGTH(theirs); i++)
		if (memmem(asked.data, asked.length, theirs[i], strlen(theirs[i])))
			return false;
	return reassemble_met_no_array(reply, summary);
}

/* An array was rewritten meanwhile, or one has to be put together for which nothing was. */
static enum sequence_outcome take_death(struct sequence *sequence,
					const struct sequence_input *input, const char *message)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);

	if (aggregate->probing && aggregate->probe.light) {
		aggregate->probe.light = false;
		return ask(sequence, input);
	}
	sequence->counts.repeats++;
	if (++aggregate->attempts >= ATTEMPTS || merges(sequence) ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return fail(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET, message);
	if (sequence_time_left(sequence, input) == 0)
		return fail(sequence, ERROR_MAX_TIME_EXPIRED, "operation exceeded time limit");
	return ask(sequence, input);
}

/* mongod's first engine makes a filter of the values that a $lookup joins by, and some make none.
 */
static bool met_no_join(struct sequence *sequence, struct bytes body,
			const struct reply_summary *summary)
{
	static const char *const texts[] = {"cannot compare to undefined",
					    "cannot nest $ under $in",
					    "InMatchExpression equality cannot be undefined"};
	const struct command *command =
		explains(sequence) ? &aggregate_of(sequence)->explained : &sequence->match.command;
	struct element message;
	struct bytes text;

	if (summary->ok || summary->code != ERROR_BAD_VALUE ||
	    !bytes_are(command->first.name, "aggregate") ||
	    !pushed_joins(command->fields[FIELD_PIPELINE].value) ||
	    !document_find(body, "errmsg", &message) || !element_string(&message, &text) ||
	    !bytes_begin_with(text, "PlanExecutor error"))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
		if (memmem(text.data, text.length, texts[i], strlen(texts[i])))
			return true;
	return false;
}

/* What is to be said of an error that Spillway's stages have met, and its code; else NULL. */
static const char *refusal_of(struct sequence *sequence, struct bytes body,
			      const struct reply_summary *summary, enum error_code *code)
{
	const char *refusal = reassemble_refusal(body, summary, code);

	if (refusal || summary->ok)
		return refusal;
	*code = ERROR_COMMAND_NOT_SUPPORTED;
	if (summary->code == ERROR_CANNOT_BUILD_INDEX_KEYS &&
	    bytes_are(sequence->match.command.first.name, "distinct"))
		return "a distinct under a collation, of values that hold a symbol: these can't be "
		       "sorted";
	if (met_no_join(sequence, body, summary))
		return "a $lookup has met 'undefined', or in an array a document whose first name "
		       "begins with '$', in its localField; behind other stages mongod can't join "
		       "by these: leave such documents out by a $match before it";
	if (met_no_array(sequence, body, summary))
		return "the array of a spilled document that this read looks into, or of its "
		       "overflow, is none; run 'spillway verify'";
	return NULL;
}

static enum sequence_outcome take(struct sequence *sequence, const struct sequence_input *input)
{
	struct packet *reply = input->reply;
	struct reply_summary summary;
	char message[REASSEMBLE_MESSAGE];
	enum error_code code;
	const char *refusal;
	struct bytes query;

	if (reply->kind != PACKET_MESSAGE || !reply_summarise(reply->message.body, &summary))
		return sequence_pass(sequence, reply);
	if (reassemble_tell(reply->message.body, &summary, message, &code))
		return reassemble_died(reply->message.body, &summary)
			       ? take_death(sequence, input, message)
			       : fail(sequence, code, message);
	if (aggregate_of(sequence)->probing && !explains(sequence)) {
		if (summary.ok)
			return take_probe(sequence, input, summary.cursor);
		if (!command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
			return ask_all(sequence, input);
	}
	if (bytes_are(sequence->match.command.first.name, "distinct") &&
	    distinct_too_large(reply->message.body, &summary))
		return sequence_fail(sequence, ERROR_DISTINCT_TOO_LARGE,
				     "Executor error during distinct command :: caused by :: "
				     "distinct too big, 16mb cap",
				     NULL);
	if (!explains(sequence) && reassemble_missed(reply->message.body, &summary))
		return read_words_miss(sequence);
	if (reassemble_unmerged(reply->message.body, &summary))
		return sequence_fail(sequence, ERROR_NO_OBJECT_TO_MERGE,
				     "PlanExecutor error during aggregation :: caused by :: "
				     "$mergeObjects only supports objects",
				     NULL);
	refusal = refusal_of(sequence, reply->message.body, &summary, &code);
	if (refusal)
		return fail(sequence, code, refusal);
	if (!summary.ok && read_words_wanted(sequence, reply))
		return ask_words(sequence, reply);
	if (!summary.ok && !explains(sequence) &&
	    !bytes_are(sequence->match.command.first.name, "aggregate"))
		return read_words_pass(sequence, reply);
	if (summary.ok && !explains(sequence) &&
	    (bytes_are(sequence->match.command.first.name, "count") ||
	     bytes_are(sequence->match.command.first.name, "distinct")))
		return answer_value(sequence, reply, summary.cursor);
	if (summary.ok && explains_no_aggregate(sequence) &&
	    explained_query(reply->message.body, &query))
		return answer_explain(sequence, reply, query);
	if (summary.ok && sequence->match.computes && summary.cursor.length > 0)
		return pass_computed(sequence, reply, summary.cursor);
	return sequence_pass(sequence, reply);
}

static enum sequence_outcome take_tried(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct reply_summary summary;

	if (input->reply->kind == PACKET_MESSAGE &&
	    reply_summarise(input->reply->message.body, &summary) && summary.ok)
		return begin(sequence, input);
	return !explains(sequence) && read_words_quotes(sequence, input->reply)
		       ? ask_words(sequence, input->reply)
		       : sequence_pass(sequence, input->reply);
}

/* A distinct whose plan may show. An explain of one, and what can't be explained, goes on without.
 */
static bool wants_plan(const struct sequence *sequence)
{
	return !explains(sequence) && own_error_can_ask(sequence) &&
	       distinct_may_scan(&sequence->match.command, sequence->match.namespace);
}

static enum sequence_outcome ask_plan(struct sequence *sequence)
{
	sequence->step = STEP_PLANNED;
	return own_error_ask(sequence);
}

/* {queryPlanner: {winningPlan: {stage, inputStage: {stage: "DISTINCT_SCAN", ...}}}}. Its PROJECTION
 * takes values from the keys, a FETCH from one document for each. */
static void take_plan(struct sequence *sequence, struct bytes body)
{
	static const char scan[] = "DISTINCT_SCAN", fetch[] = "FETCH";
	struct element planner, plan;

	if (!document_find(body, "queryPlanner", &planner) || planner.type != BSON_BYTE_DOCUMENT ||
	    !document_find(planner.value, "winningPlan", &plan) ||
	    plan.type != BSON_BYTE_DOCUMENT ||
	    !memmem(plan.value.data, plan.value.length, scan, sizeof(scan)))
		return;
	sequence->match.scans_keys = true;
	sequence->match.scans_documents =
		memmem(plan.value.data, plan.value.length, fetch, sizeof(fetch)) != NULL;
}

static enum sequence_outcome start(struct sequence *sequence, const struct sequence_input *input)
{
	return is_unsure(sequence) ? try_command(sequence) : begin(sequence, input);
}

static enum sequence_outcome aggregate_resume(struct sequence *sequence,
					      const struct sequence_input *input)
{
	if (!input->reply)
		return wants_plan(sequence) ? ask_plan(sequence) : start(sequence, input);
	if (sequence->step == STEP_PLANNED) {
		if (own_error_said(input->reply))
			return own_error_pass(sequence, input->reply);
		if (input->reply->kind == PACKET_MESSAGE)
			take_plan(sequence, input->reply->message.body);
		return start(sequence, input);
	}
	if (sequence->step == STEP_TRIED)
		return take_tried(sequence, input);
	if (sequence->step == STEP_WORDS)
		return read_words_take(sequence, &aggregate_of(sequence)->failed, input->reply);
	return sequence->step == STEP_KILLING ? ask_all(sequence, input) : take(sequence, input);
}

/* A $merge may have written long arrays, and over spilled ones; also where it failed in the middle.
 */
static void aggregate_notes(const struct sequence *sequence,
			    void (*give)(void *context, const struct mover_note *note),
			    void *context)
{
	if (sequence->match.onto && !explains(sequence))
		notes_somewhere(sequence->match.onto, give, context);
}

static void aggregate_fini(struct sequence *sequence)
{
	probe_fini(&aggregate_of(sequence)->probe);
	buffer_fini(&aggregate_of(sequence)->cursor);
	packet_fini(&aggregate_of(sequence)->failed);
}

struct sequence *sequence_aggregate_new(void)
{
	struct sequence_aggregate *aggregate = must_calloc(1, sizeof(*aggregate));

	aggregate->sequence.resume = aggregate_resume;
	aggregate->sequence.notes = aggregate_notes;
	aggregate->sequence.fini = aggregate_fini;
	return &aggregate->sequence;
}
