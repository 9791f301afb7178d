/* A read that needs ruled arrays whole: mongod puts the documents together, in an aggregate, and
 * the client gets the reply of its own command. */
#include "protocol/template.h"
#include "rules/read/aggregate_reply.h"
#include "rules/stages/aggregate.h"
#include "rules/stages/stage_bounds.h"
#include "rules/stages/stage_distinct.h"
#include "rules/sequence/notes.h"
#include "rules/query/read_options.h"
#include "rules/sequence/own_error.h"
#include "rules/stages/pushed_group.h"
#include "rules/read/error_words.h"
#include "rules/reassembly/raised.h"
#include "rules/sequence/sequence_inner.h"

#include <stdlib.h>

#define ATTEMPTS 5

enum step {
	STEP_PLANNED, /* how mongod would answer the client's distinct */
	STEP_TRIED,   /* fields that mongod may refuse, or no aggregate has */
	STEP_ASKED,
	STEP_LOOKED,  /* for outliers that may come first */
	STEP_KILLING, /* a cursor that is not needed */
	STEP_WORDS,   /* the client's own command, explained */
};

struct sequence_aggregate {
	struct sequence sequence; /* first: the two are one pointer */
	struct command explained; /* of an explain */
	struct probe probe;
	struct foremost foremost; /* without a target: not asked so */
	struct packet failed;     /* an error that quotes the query */
	uint64_t asked;
	int attempts, probes;
	enum reassemble_damage damage;
	bool probing;
};

static struct sequence_aggregate *aggregate_of(struct sequence *sequence)
{
	return (struct sequence_aggregate *)(void *)sequence;
}

static bool explains(const struct sequence *sequence)
{
	return sequence->match.command.kind == COMMAND_EXPLAIN;
}

/* ---- what is sent ---- */

static bool edit_explain(void *context, struct buffer *out, const struct element *field)
{
	struct sequence *sequence = context;
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	struct aggregate_task task = match_task(&sequence->match);
	size_t inner;

	if (!element_is(field, "explain"))
		return false;
	task.damage = aggregate->damage;
	inner = writer_open_document(out, "explain");
	aggregate_write(out, &aggregate->explained, &task, false,
			aggregate->probing ? &aggregate->probe : NULL);
	writer_close(out, inner);
	return true;
}

static enum sequence_outcome ask(struct sequence *sequence, const struct sequence_input *input)
{
	const struct match *match = &sequence->match;
	struct aggregate_task task = match_task(match);
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	size_t body;

	task.damage = aggregate->damage;
	task.foremost = aggregate->foremost.target ? &aggregate->foremost : NULL;
	task.time_left = sequence_time_anew(sequence);
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

	return command->kind != COMMAND_AGGREGATE ||
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

/* The same of a sort by an array. */
static void decide_by_order(struct sequence *sequence)
{
	const struct match *match = &sequence->match;
	const struct command *command = &match->command;
	struct foremost *foremost = &aggregate_of(sequence)->foremost;
	int64_t limit = command->kind == COMMAND_FIND ? aggregate_limit(command) : 0;

	if (limit > 0 && limit == aggregate_room(command) && !bounds_given(command) &&
	    reads_primary(command) && !command_has(command, FIELD_AUTOCOMMIT) &&
	    !match_skips_damaged(match) &&
	    !foremost_of_find(command, limit, match->namespace, foremost))
		foremost_fini(foremost);
}

static void decide_to_ask_lightly(struct sequence *sequence)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	const struct match *match = &sequence->match;
	enum aggregate_need need = aggregate_need(
		explains(sequence) ? &aggregate->explained : &match->command, match->namespace);

	aggregate->probe.skips = aggregate->probe.target->rule->skips_damaged;
	aggregate->probe.whole = need != AGGREGATE_NEEDS_NOTHING;
	aggregate->probe.light = aggregate->probe.exact && need != AGGREGATE_NEEDS_ORDER;
}

static bool is_unsure(const struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;
	struct command explained;

	if (explains(sequence)) {
		require(command_parse(command->first.value, &explained));
		command = &explained;
	}
	return aggregate_is_unsure(command);
}

/* An aggregate has a hint, which a distinct of mongod 6.0 has not, and much that no other command
 * has; it has no min and max, of which a find may say what mongod refuses. The client's command is
 * tried on no documents. */
static enum sequence_outcome try_command(struct sequence *sequence)
{
	const struct command *command = &sequence->match.command;
	bool finds = command->kind == COMMAND_FIND;
	const char *filter = finds ? "filter" : "query";
	struct buffer *out = &sequence->buffer;
	size_t body;
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
	template_write(out, filter, "{_id: {$in: []}}");
	return sequence_send_command(sequence, body);
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

/* Who can't ask again looks at once: a $merge, a transaction, and cursors that leave documents out.
 */
static void decide_to_look(struct sequence *sequence)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	const struct command *command = &sequence->match.command;
	bool iterates = command->kind == COMMAND_FIND || command->kind == COMMAND_AGGREGATE;

	if (merges(sequence) || command_has(command, FIELD_AUTOCOMMIT) ||
	    (iterates && match_skips_damaged(&sequence->match)))
		aggregate->damage = REASSEMBLE_SKIPS;
}

static enum sequence_outcome begin(struct sequence *sequence, const struct sequence_input *input)
{
	decide_to_probe(sequence);
	decide_to_look(sequence);
	if (aggregate_of(sequence)->probing)
		decide_to_ask_lightly(sequence);
	else
		decide_by_order(sequence);
	return ask(sequence, input);
}

/* All candidates, their number be what it may. */
static enum sequence_outcome ask_all(struct sequence *sequence, const struct sequence_input *input)
{
	if (sequence_time_left(sequence, input) == 0)
		return sequence_fail(sequence, ERROR_MAX_TIME_EXPIRED,
				     "operation exceeded time limit", NULL);
	aggregate_of(sequence)->probing = false;
	foremost_fini(&aggregate_of(sequence)->foremost);
	return ask(sequence, input);
}

/* ---- what comes back ---- */

static bool probes(struct sequence *sequence)
{
	return aggregate_of(sequence)->probing && !explains(sequence);
}

static bool explains_no_aggregate(struct sequence *sequence)
{
	return explains(sequence) && aggregate_of(sequence)->explained.kind != COMMAND_AGGREGATE;
}

/* ---- what comes first by an array ---- */

static enum sequence_outcome ask_look(struct sequence *sequence, const struct sequence_input *input)
{
	const struct foremost *foremost = &aggregate_of(sequence)->foremost;
	size_t body;

	if (foremost->looks >= FOREMOST_LOOKS || sequence_time_left(sequence, input) == 0)
		return ask_all(sequence, input);
	sequence->step = STEP_LOOKED;
	sequence->counts.repeats++;
	body = sequence_begin_command(sequence);
	foremost_write_look(&sequence->buffer, foremost);
	sequence_write_read_fields(sequence, input, foremost->namespace->database,
				   (struct bytes){0});
	return sequence_send_command(sequence, body);
}

static enum sequence_outcome take_look(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct foremost *foremost = &aggregate_of(sequence)->foremost;
	struct bytes batch = {0};

	if (input->reply->summary.ok)
		batch = reply_read_cursor(input->reply->summary.cursor).batch;
	return batch.data && foremost_take(foremost, batch) ? ask(sequence, input)
							    : ask_all(sequence, input);
}

static enum sequence_outcome kill(struct sequence *sequence, int64_t id)
{
	sequence->step = STEP_KILLING;
	return sequence_send_kill(sequence, sequence->match.namespace->database,
				  sequence->match.namespace->collection, id);
}

/* All of them are in one reply, and garbage waited meanwhile. */
static enum sequence_outcome take_foremost(struct sequence *sequence,
					   const struct sequence_input *input)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	struct reply_cursor cursor = reply_read_cursor(input->reply->summary.cursor);
	int64_t id = 0;

	if (element_integer(&cursor.id, &id) && id != 0)
		return kill(sequence, id);
	if (!cursor.batch.data ||
	    foremost_is_late(&aggregate->foremost, input->now - aggregate->asked))
		return ask_all(sequence, input);
	return sequence_pass(sequence, input->reply);
}

/* ---- hits in the overflow ---- */

/* After hits that had not been named. */
static enum sequence_outcome ask_again(struct sequence *sequence,
				       const struct sequence_input *input, size_t documents)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);
	const struct command *command = &sequence->match.command;

	aggregate->probe.alone = aggregate->probe.exact && !aggregate->probe.alone &&
				 documents == 0 && command->kind == COMMAND_FIND &&
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
	struct reply_cursor cursor = reply_read_cursor(cursor_document);
	enum probe_found found = PROBE_TOO_MANY;
	size_t documents = 0;

	if (element_integer(&cursor.id, &id) && id != 0)
		return kill(sequence, id);
	if (cursor.batch.data)
		found = probe_take(&aggregate->probe, cursor.batch, (size_t)room,
				   input->now - aggregate->asked, &documents);
	if (found == PROBE_TOO_MANY)
		return ask_all(sequence, input);
	if (found == PROBE_COMPLETE && (documents > 0 || !aggregate->probe.alone))
		return aggregate_reply_cut(sequence, input->reply, cursor_document, documents);
	return ask_again(sequence, input, documents);
}

/* The planner's errors quote the query. */
static enum sequence_outcome ask_words(struct sequence *sequence, struct packet *reply)
{
	aggregate_of(sequence)->failed = packet_steal(reply);
	sequence->step = STEP_WORDS;
	return own_error_ask(sequence);
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
	aggregate->damage = REASSEMBLE_SKIPS; /* tells a rewrite from damage */
	if (++aggregate->attempts >= ATTEMPTS || merges(sequence) ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return sequence_fail_by_rule(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
					     message);
	if (sequence_time_left(sequence, input) == 0)
		return sequence_fail_by_rule(sequence, ERROR_MAX_TIME_EXPIRED,
					     "operation exceeded time limit");
	return ask(sequence, input);
}

/* Where the rule says so, all such documents are left out; else the read fails. */
static enum sequence_outcome take_damage(struct sequence *sequence,
					 const struct sequence_input *input, enum error_code code,
					 const char *message)
{
	struct sequence_aggregate *aggregate = aggregate_of(sequence);

	if (code != ERROR_DATA_CORRUPTION || aggregate->damage != REASSEMBLE_RAISES ||
	    explains(sequence) || !match_skips_damaged(&sequence->match) ||
	    sequence_time_left(sequence, input) == 0)
		return sequence_fail_by_rule(sequence, code, message);
	sequence_count_skipped(sequence, message);
	aggregate->damage = REASSEMBLE_SKIPS;
	return ask(sequence, input);
}

/* mongod's first engine makes a filter of the values that a $lookup joins by, and some make none.
 */
static bool met_no_join(struct sequence *sequence, const struct reply_summary *summary)
{
	static const char *const texts[] = {"cannot compare to undefined",
					    "cannot nest $ under $in",
					    "InMatchExpression equality cannot be undefined"};
	const struct command *command =
		explains(sequence) ? &aggregate_of(sequence)->explained : &sequence->match.command;
	struct bytes text = summary->message;

	if (summary->code != ERROR_BAD_VALUE || command->kind != COMMAND_AGGREGATE ||
	    !pushed_joins(command->fields[FIELD_PIPELINE].value) ||
	    !bytes_begin_with(text, "PlanExecutor error"))
		return false;
	for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
		if (bytes_contain(text, texts[i]))
			return true;
	return false;
}

/* What is to be said of an error that Spillway's stages have met, and its code; else NULL. */
static const char *refusal_of(struct sequence *sequence, const struct reply_summary *summary,
			      enum error_code *code)
{
	const char *refusal = raised_refusal(summary, code);

	if (refusal)
		return refusal;
	*code = ERROR_COMMAND_NOT_SUPPORTED;
	if (summary->code == ERROR_CANNOT_BUILD_INDEX_KEYS &&
	    sequence->match.command.kind == COMMAND_DISTINCT)
		return "a distinct under a collation, of values that hold a symbol: these can't be "
		       "sorted";
	if (met_no_join(sequence, summary))
		return "a $lookup has met 'undefined', or in an array a document whose first name "
		       "begins with '$', in its localField; behind other stages mongod can't join "
		       "by these: leave such documents out by a $match before it";
	return NULL;
}

/* Of a part of the outliers alone: all of them are another question. */
static bool asks_part(struct sequence *sequence)
{
	return aggregate_of(sequence)->foremost.target ||
	       (probes(sequence) && !command_has(&sequence->match.command, FIELD_AUTOCOMMIT));
}

/* The order counts: the error of a damaged document quotes its _id, in which any text may stand. */
static enum sequence_outcome take_failure(struct sequence *sequence,
					  const struct sequence_input *input)
{
	const struct reply_summary *summary = &input->reply->summary;
	char message[RAISED_MESSAGE];
	enum error_code code;
	const char *native, *refusal;

	if (raised_tell(summary, message, &code))
		return raised_died(summary) ? take_death(sequence, input, message)
					    : take_damage(sequence, input, code, message);
	if (aggregate_of(sequence)->foremost.target && raised_short(summary))
		return ask_look(sequence, input);
	if (asks_part(sequence) && !sequence_ends_all(summary->code))
		return ask_all(sequence, input);
	if (reply_is_unauthorized(input->reply))
		return sequence_refuse_unauthorized(sequence,
						    &sequence->match.namespace->targets[0]);
	if (sequence->match.command.kind == COMMAND_DISTINCT && distinct_too_large(summary))
		return sequence_fail(sequence, ERROR_DISTINCT_TOO_LARGE,
				     "Executor error during distinct command :: caused by :: "
				     "distinct too big, 16mb cap",
				     NULL);
	native = raised_native(summary, false, &code);
	if (native && !explains_no_aggregate(sequence))
		return sequence_fail(sequence, code, native, NULL);
	refusal = refusal_of(sequence, summary, &code);
	if (refusal)
		return sequence_fail_by_rule(sequence, code, refusal);
	return read_words_wanted(sequence, input->reply) ? ask_words(sequence, input->reply)
							 : read_words_pass(sequence, input->reply);
}

static enum sequence_outcome take(struct sequence *sequence, const struct sequence_input *input)
{
	struct packet *reply = input->reply;
	const struct reply_summary *summary = &reply->summary;
	enum command_kind kind = sequence->match.command.kind;
	struct bytes query;

	if (!summary->readable)
		return sequence_pass(sequence, reply);
	if (!summary->ok)
		return take_failure(sequence, input);
	if (aggregate_of(sequence)->foremost.target)
		return take_foremost(sequence, input);
	if (probes(sequence))
		return take_probe(sequence, input, summary->cursor);
	if (kind == COMMAND_COUNT || kind == COMMAND_DISTINCT)
		return aggregate_reply_value(sequence, reply, summary->cursor);
	if (explains_no_aggregate(sequence) && aggregate_reply_query(reply->message.body, &query))
		return aggregate_reply_explain(sequence, reply, query);
	if (sequence->match.computes && summary->cursor.length > 0)
		return aggregate_reply_computed(sequence, reply, summary->cursor);
	return sequence_pass(sequence, reply);
}

static enum sequence_outcome take_tried(struct sequence *sequence,
					const struct sequence_input *input)
{
	if (input->reply->summary.ok)
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
	if (sequence->step == STEP_LOOKED)
		return take_look(sequence, input);
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
	foremost_fini(&aggregate_of(sequence)->foremost);
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
