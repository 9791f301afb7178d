/* What changes a collection: the client's bytes, and the server's. Before a renameCollection it is
 * asked whether all documents are whole; after a change the mover tends the overflow.
 *
 *   SOURCE_ASKED  find {_spill ...}                  some: refused
 *   SENT          the client's command               done: TEND for each rule, then the reply
 *
 * Before a collMod that makes a validator refuse which has only warned until now:
 *   VALIDATOR_ASKED  listCollections {name: ...}     it sees a part of an array: refused
 *
 * Before a createIndexes over two paths inside an array's elements the overflow is asked for
 * elements that mongod would refuse:
 *   PARALLEL_ASKED  find {...} in each overflow      some: refused
 *
 * A rename from one ruled name to another asks once more, since a tail may have moved in between:
 *   TARGET_ASKED  find {_spill ...} by the new name  none: TEND
 *   BACK          the rename the other way round     then an error; the overflow is left alone */
#include "protocol/template.h"
#include "rules/match/fitness_judge.h"
#include "rules/match/match_inner.h"
#include "rules/query/reads.h"
#include "rules/rule/names.h"
#include "rules/sequence/notes.h"
#include "rules/match/parallel_keys.h"
#include "rules/sequence/sequence_inner.h"

#include <stdio.h>
#include <stdlib.h>

enum watch_step {
	WATCH_BEGINS,
	WATCH_SOURCE_ASKED,
	WATCH_PARALLEL_ASKED,
	WATCH_VALIDATOR_ASKED,
	WATCH_SENT,
	WATCH_TARGET_ASKED,
	WATCH_BACK,
	WATCH_TENDED,
};

struct watch {
	struct sequence sequence; /* has to be the first */
	struct packet reply;      /* for the client */
	bool renamed;
	size_t asked; /* rules whose overflow was asked for parallel arrays */
	bool exact;   /* what it finds are parallel arrays for certain */
};

static struct watch *watch_of(struct sequence *sequence)
{
	return (struct watch *)(void *)sequence;
}

/* ---- renameCollection: is every document whole? ---- */

/* Asks the collection of this full name for a document that is not whole. */
static enum sequence_outcome ask(struct sequence *sequence, const struct sequence_input *input,
				 struct bytes full_name, enum watch_step step)
{
	struct bytes database, collection;
	size_t body = sequence_begin_command(sequence);
	auto_free char *name = NULL;

	require(name_split(full_name, &database, &collection));
	name = must_strndup((const char *)database.data, database.length);
	template_write_fields(&sequence->buffer, /* a state of {} says nothing */
			      "{find: @collection, filter: {_spill: {$exists: true, $ne: {}}}, "
			      "projection: {_id: 1}, limit: 1, singleBatch: true}",
			      fill_bytes("collection", collection));
	sequence_write_read_fields(sequence, input, name, (struct bytes){0});
	sequence->step = step;
	return sequence_send_command(sequence, body);
}

static bool found_some(struct bytes cursor)
{
	struct element batch, first;
	struct cursor documents;

	return document_find(cursor, "firstBatch", &batch) && batch.type == BSON_BYTE_ARRAY &&
	       cursor_open(&documents, batch.value) &&
	       cursor_next(&documents, &first) == CURSOR_ELEMENT;
}

/* Behind a question of ours. */
static bool edit_field(void *context, struct buffer *out, const struct element *field)
{
	int64_t time = sequence_time_anew(context);

	if (!element_is(field, "maxTimeMS") || time == 0)
		return sequence_has_said(context, field);
	writer_int64(out, "maxTimeMS", time);
	return true;
}

/* Without an answer nobody knew when the overflow can be tended. */
static enum sequence_outcome send_client_s(struct sequence *sequence)
{
	const struct match *match = &sequence->match;
	bool answered =
		match->facts.answered || (match->namespace && match->tending != MOVER_TEND_NOTHING);

	sequence->step = WATCH_SENT;
	if (!sequence->begun && answered == match->facts.answered)
		return sequence_send_request(sequence);
	sequence_write_edited(sequence, answered ? MESSAGE_MORE_TO_COME : 0, edit_field, sequence);
	return answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

/* ---- createIndexes: elements that mongod can't see ---- */

static enum sequence_outcome send_parallel(struct sequence *sequence,
					   const struct sequence_input *input,
					   const struct target *target, size_t body)
{
	struct buffer *out = &sequence->buffer;

	writer_int32(out, "limit", 1);
	writer_bool(out, "singleBatch", true);
	sequence_write_read_fields(sequence, input, target->overflow_database, (struct bytes){0});
	sequence->step = WATCH_PARALLEL_ASKED;
	return sequence_send_command(sequence, body);
}

/* Asks the next overflow that may have elements with parallel arrays; then the command goes out. */
static enum sequence_outcome ask_parallel(struct sequence *sequence,
					  const struct sequence_input *input)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	const struct element *indexes = &sequence->match.command.fields[FIELD_INDEXES];
	struct watch *watch = watch_of(sequence);

	while (watch->asked < namespace->target_count) {
		const struct target *target = &namespace->targets[watch->asked++];
		size_t body = sequence_begin_command(sequence);

		writer_string(&sequence->buffer, "find", target->overflow_collection);
		switch (parallel_keys_write(target->rule, indexes, "filter", &sequence->buffer,
					    &watch->exact)) {
		case PARALLEL_NONE:
			break;
		case PARALLEL_POSSIBLE:
			return send_parallel(sequence, input, target, body);
		case PARALLEL_MANY:
			return sequence_fail_by_rule(
				sequence, ERROR_COMMAND_NOT_SUPPORTED,
				"createIndexes has too many, or too deep, paths "
				"inside the ruled array to be checked; make fewer "
				"indexes at a time");
		}
	}
	return send_client_s(sequence);
}

static enum sequence_outcome take_parallel(struct sequence *sequence,
					   const struct sequence_input *input)
{
	if (!input->reply->summary.ok)
		return sequence_pass_helper_error(sequence, input->reply, NULL);
	if (!found_some(input->reply->summary.cursor))
		return ask_parallel(sequence, input);
	if (watch_of(sequence)->exact)
		return sequence_fail_by_rule(
			sequence, ERROR_CANNOT_INDEX_PARALLEL_ARRAYS,
			"cannot index parallel arrays: an element in the overflow has "
			"arrays at two paths of the index");
	return sequence_fail_by_rule(
		sequence, ERROR_COMMAND_NOT_SUPPORTED,
		"an element in the overflow may have parallel arrays at two paths of "
		"the index");
}

/* ---- collMod: the validator that is there ---- */

static const char *const strictness[] = {"validationAction", "validationLevel"};

static bool changes_strictness(const struct command *command)
{
	struct element option;
	bool changes = false;

	for (size_t i = 0; i < ARRAY_LENGTH(strictness); i++)
		changes = changes || document_find(command->body, strictness[i], &option);
	return command->kind == COMMAND_COLL_MOD && changes &&
	       !command_has(command, FIELD_VALIDATOR);
}

static enum sequence_outcome ask_validator(struct sequence *sequence,
					   const struct sequence_input *input)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	size_t body = sequence_begin_command(sequence);

	template_write_fields(&sequence->buffer,
			      "{listCollections: 1, filter: {name: @collection}}",
			      fill("collection", namespace->collection));
	sequence_write_read_fields(sequence, input, namespace->database, (struct bytes){0});
	sequence->step = WATCH_VALIDATOR_ASKED;
	return sequence_send_command(sequence, body);
}

/* The options as they will be. */
static void write_options(const struct sequence *sequence, struct bytes entry, struct buffer *out)
{
	size_t options = writer_open(out);
	struct element option;

	if (document_find_path(entry, "options.validator", &option))
		writer_element(out, &option);
	for (size_t i = 0; i < ARRAY_LENGTH(strictness); i++) {
		char path[32];

		snprintf(path, sizeof(path), "options.%s", strictness[i]);
		if (document_find(sequence->match.command.body, strictness[i], &option) ||
		    document_find_path(entry, path, &option))
			writer_renamed(out, strictness[i], &option);
	}
	writer_close(out, options);
}

/* Who may not list is told by mongod whether the command may be run. What comes to be unfit then
 * the mover finds. */
static enum sequence_outcome take_validator(struct sequence *sequence, const struct packet *reply)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	auto_buffer struct buffer options = {0};
	struct element entry;
	struct cursor entries;
	struct unfit why;

	if (!reply->summary.ok ||
	    !cursor_open(&entries, reply_read_cursor(reply->summary.cursor).batch) ||
	    cursor_next(&entries, &entry) != CURSOR_ELEMENT || entry.type != BSON_BYTE_DOCUMENT)
		return send_client_s(sequence);
	write_options(sequence, entry.value, &options);
	for (size_t i = 0; i < namespace->target_count; i++) {
		const struct rule *rule = namespace->targets[i].rule;

		if (judge_validator(rule, buffer_view(&options), &why))
			continue;
		match_refuse_validator(&sequence->match, rule, "collMod", &why);
		return sequence_fail(sequence, sequence->match.refusal.code,
				     sequence->match.refusal.message, NULL);
	}
	return send_client_s(sequence);
}

static enum sequence_outcome begin(struct sequence *sequence, const struct sequence_input *input)
{
	const struct match *match = &sequence->match;

	if (match->onto)
		return ask(sequence, input, match->command.collection, WATCH_SOURCE_ASKED);
	if (match->namespace && match->facts.answered && changes_strictness(&match->command))
		return ask_validator(sequence, input);
	return match->namespace && match->command.kind == COMMAND_CREATE_INDEXES
		       ? ask_parallel(sequence, input)
		       : send_client_s(sequence);
}

static enum sequence_outcome take_source(struct sequence *sequence, struct packet *reply)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	const struct reply_summary *summary = &reply->summary;

	if (!summary->readable)
		return sequence_fail(sequence, ERROR_FAILED_TO_PARSE,
				     "Spillway: the server's reply can't be read", NULL);
	if (!summary->ok || summary->cursor.length == 0)
		return sequence_pass_helper_error(sequence, reply, NULL);
	if (!found_some(summary->cursor))
		return send_client_s(sequence);
	match_refuse(&sequence->match, namespace->targets[0].rule, "renameCollection",
		     "parts of its documents' arrays are in the overflow, which would stay behind");
	return sequence_fail(sequence, sequence->match.refusal.code,
			     sequence->match.refusal.message, NULL);
}

/* ---- after it ---- */

/* Whether anything may have changed: a drop that was answered before it could be told is done, too.
 */
static bool has_changed(const struct sequence *sequence, const struct packet *reply)
{
	return reply->summary.ok || (sequence->match.tending == MOVER_TEND_GONE &&
				     reply->summary.code == ERROR_NAMESPACE_NOT_FOUND);
}

static bool tends(const struct sequence *sequence, const struct ruled_namespace **namespace,
		  size_t *target)
{
	const struct match *match = &sequence->match;

	*namespace = match->namespace;
	*target = sequence->move.target;
	if (*target < (*namespace)->target_count)
		return true;
	*target -= (*namespace)->target_count;
	*namespace = match->onto;
	return *namespace && *namespace != match->namespace && *target < (*namespace)->target_count;
}

/* The index's keys may look into the array, or its documents be chosen by it. */
static bool index_concerns(struct bytes index, const struct ruled_namespace *alone)
{
	struct element key, filter;

	if (!document_find(index, "key", &key) || key.type != BSON_BYTE_DOCUMENT ||
	    reads_of_keys(key.value, alone).kind != READS_NOTHING)
		return true;
	return document_find(index, "partialFilterExpression", &filter) &&
	       (filter.type != BSON_BYTE_DOCUMENT ||
		reads_of_stored(filter.value, alone).kind != READS_NOTHING);
}

/* New indexes on one array say nothing of another's overflow: of many rules only those are waited
 * for whose array is indexed. */
static bool concerns(const struct sequence *sequence, const struct ruled_namespace *namespace,
		     size_t target)
{
	const struct element *indexes = &sequence->match.command.fields[FIELD_INDEXES];
	const struct ruled_namespace alone = ruled_alone(namespace, target);
	struct cursor cursor;
	struct element index;

	if (sequence->match.command.kind != COMMAND_CREATE_INDEXES ||
	    indexes->type != BSON_BYTE_ARRAY || !cursor_open(&cursor, indexes->value))
		return true;
	while (cursor_next(&cursor, &index) == CURSOR_ELEMENT)
		if (index.type != BSON_BYTE_DOCUMENT || index_concerns(index.value, &alone))
			return true;
	return false;
}

/* The rules of the namespace, then those of the name that a collection was given. */
static enum sequence_outcome tend_next(struct sequence *sequence)
{
	const struct ruled_namespace *namespace;
	size_t target;

	sequence->step = WATCH_TENDED;
	for (; tends(sequence, &namespace, &target); sequence->move.target++)
		if (concerns(sequence, namespace, target)) {
			sequence->move.target++;
			return sequence_tend(sequence, namespace, target);
		}
	return sequence_pass(sequence, &watch_of(sequence)->reply);
}

static struct bytes new_name(const struct sequence *sequence)
{
	struct bytes name;

	require(element_string(&sequence->match.command.fields[FIELD_TO], &name));
	return name;
}

static enum sequence_outcome take_reply(struct sequence *sequence,
					const struct sequence_input *input)
{
	const struct match *match = &sequence->match;

	sequence->permission.denied = reply_is_unauthorized(input->reply);
	if (!match->namespace || match->tending == MOVER_TEND_NOTHING ||
	    !has_changed(sequence, input->reply))
		return sequence_pass(sequence, input->reply);
	watch_of(sequence)->reply = packet_steal(input->reply);
	if (match->onto && match->onto != match->namespace)
		return ask(sequence, input, new_name(sequence), WATCH_TARGET_ASKED);
	watch_of(sequence)->renamed = match->onto != NULL;
	return tend_next(sequence);
}

static enum sequence_outcome rename_back(struct sequence *sequence)
{
	size_t body = sequence_begin_command(sequence);
	struct buffer *out = &sequence->buffer;

	writer_text(out, "renameCollection", new_name(sequence));
	writer_text(out, "to", sequence->match.command.collection);
	writer_string(out, "$db", "admin");
	sequence_write_cursor_fields(sequence);
	sequence->step = WATCH_BACK;
	return sequence_send_command(sequence, body);
}

/* Whether it was whole can't be known where the reply says nothing: then it is taken for torn. */
static enum sequence_outcome take_target(struct sequence *sequence, struct packet *reply)
{
	const struct reply_summary *summary = &reply->summary;

	if (!summary->ok || summary->cursor.length == 0 || found_some(summary->cursor))
		return rename_back(sequence);
	watch_of(sequence)->renamed = true;
	return tend_next(sequence);
}

static enum sequence_outcome take_back(struct sequence *sequence, const struct packet *reply)
{
	return sequence_fail(
		sequence, ERROR_COMMAND_NOT_SUPPORTED,
		reply->summary.ok
			? "Spillway: parts of its documents' arrays went to the overflow while the "
			  "collection was renamed: it has its old name again (a collection that "
			  "had "
			  "the new name and was to be dropped is dropped)"
			: "Spillway: parts of its documents' arrays went to the overflow while the "
			  "collection was renamed, and it can't be given its old name: do that "
			  "straight at the server, or they can't be read",
		NULL);
}

static enum sequence_outcome watch_resume(struct sequence *sequence,
					  const struct sequence_input *input)
{
	switch ((enum watch_step)sequence->step) {
	case WATCH_BEGINS:
		return begin(sequence, input);
	case WATCH_PARALLEL_ASKED:
		return take_parallel(sequence, input);
	case WATCH_VALIDATOR_ASKED:
		return take_validator(sequence, input->reply);
	case WATCH_SOURCE_ASKED:
		return take_source(sequence, input->reply);
	case WATCH_SENT:
		return take_reply(sequence, input);
	case WATCH_TARGET_ASKED:
		return take_target(sequence, input->reply);
	case WATCH_BACK:
		return take_back(sequence, input->reply);
	case WATCH_TENDED:
		return tend_next(sequence);
	}
	require(!"a step without a name");
}

/* Long arrays may have come with a collection that was renamed. */
static void watch_notes(const struct sequence *sequence,
			void (*take)(void *context, const struct mover_note *note), void *context)
{
	if (((const struct watch *)(const void *)sequence)->renamed)
		notes_somewhere(sequence->match.onto, take, context);
}

static void watch_fini(struct sequence *sequence)
{
	packet_fini(&watch_of(sequence)->reply);
}

static size_t watch_memory(const struct sequence *sequence)
{
	return ((const struct watch *)(const void *)sequence)->reply.raw.capacity;
}

struct sequence *sequence_watch_new(void)
{
	struct watch *watch = must_calloc(1, sizeof(*watch));

	watch->sequence.resume = watch_resume;
	watch->sequence.notes = watch_notes;
	watch->sequence.fini = watch_fini;
	watch->sequence.memory = watch_memory;
	return &watch->sequence;
}
