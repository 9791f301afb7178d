/* find, getMore, and aggregates that return whole documents: what comes back is put together and
 * stripped, and cut where a find wants windows of its arrays. */
#include "protocol/writer.h"
#include "rules/stages/pipeline.h"
#include "rules/read/dropped.h"
#include "rules/sequence/fetch.h"
#include "rules/rule/id_text.h"
#include "rules/query/read_options.h"
#include "rules/sequence/own_error.h"
#include "rules/query/projection.h"
#include "rules/read/error_words.h"
#include "rules/reassembly/reassemble.h"
#include "rules/read/remainder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 5

enum read_step {
	READ_BEGIN,
	READ_ASKED,          /* the client's command */
	READ_OVERFLOW_ASKED, /* what fetch sent */
	READ_AGAIN_ASKED,    /* one document whose generation died */
	READ_FEWER_ASKED,    /* the overflow's cursor, closed to begin with fewer documents */
	READ_REST_ASKED,     /* a cursor for what has no room in the reply */
	READ_SPENT_ASKED,    /* such a cursor, closed behind its last document */
	READ_KILL_ASKED,     /* a cursor of a read that failed */
	READ_BEYOND_ASKED,   /* the same, of a find that becomes an aggregate */
	READ_WORDS_ASKED,    /* the client's own find, explained: it had failed otherwise written */
	READ_DROPPED_ASKED,  /* whether the collection is there: a getMore has lost its overflow */
};

struct sequence_read {
	struct sequence sequence; /* first: the two are one pointer */
	struct packet main;       /* the reply to the client's command */
	struct bytes cursor;      /* its cursor document */
	struct bytes batch;       /* and the documents in that */
	int64_t cursor_id;        /* where the client goes on; 0: nowhere */
	int64_t spent;            /* a remainder's that has said all; 0: none is open */
	bool unwrapped;           /* documents came from a remainder */
	bool unresolved;          /* `main` is an error: the overflow's collection is gone */
	char *lost;               /* what is to be said of the array that was not whole, or NULL */
	struct bytes damaged;     /* the document that no merge takes */
	size_t batch_count;       /* documents of the batch; the first of them are in the merge */
	bool aggregates;          /* the find has been written as an aggregate */
	struct window *windows;   /* of a find that wants nothing else of its arrays, or NULL */
	struct fetch fetch;
	bool fetching;
	bool *gone;           /* by document: it vanished while it was read again */
	struct packet *again; /* replies with documents read again */
	size_t again_count;
	size_t dead;  /* the document that has to be read again */
	size_t tried; /* the document that `attempts` counts for */
	int attempts;
	size_t id_at;          /* in the answer: its cursor's id */
	size_t cut;            /* the first document that the answer has no room for */
	size_t fewer;          /* documents to begin with once more */
	struct buffer rest;    /* of struct bytes: documents that are still to be kept */
	struct buffer answer;  /* to the client, until its remainder is kept */
	struct buffer failure; /* our error reply, until the cursor is closed */
};

static struct sequence_read *read_of(struct sequence *sequence)
{
	return (struct sequence_read *)(void *)sequence;
}

static bool is_command(const struct sequence *sequence, const char *name)
{
	return bytes_are(sequence->match.command.first.name, name);
}

/* ---- the client's command ---- */

static bool projection_needs_state(const struct sequence *sequence)
{
	const struct element *projection = &sequence->match.command.fields[FIELD_PROJECTION];
	enum projection_kind kind;

	if (!is_command(sequence, "find") || projection->type != BSON_BYTE_DOCUMENT)
		return false;
	if (sequence->match.windows)
		return true;
	kind = projection_classify(projection->value, sequence->match.namespace).kind;
	return kind == PROJECTION_INCLUDE || kind == PROJECTION_EXCLUDE;
}

static void write_projection(const struct sequence *sequence, struct buffer *out)
{
	const struct element *projection = &sequence->match.command.fields[FIELD_PROJECTION];

	if (sequence->match.windows)
		projection_write_windows(out, "projection", projection->value,
					 sequence->match.namespace);
	else if (projection_needs_state(sequence))
		projection_write(out, "projection", projection->value, sequence->match.namespace);
	else if (projection->type != 0)
		writer_element(out, projection);
}

static bool edit_projection(void *context, struct buffer *out, const struct element *field)
{
	if (!element_is(field, "projection") || !projection_needs_state(context))
		return false;
	write_projection(context, out);
	return true;
}

static enum sequence_outcome send_client_command(struct sequence *sequence)
{
	const struct match *match = &sequence->match;
	struct sequence_read *read = read_of(sequence);
	bool exhaust = sequence->request.message.flags & MESSAGE_EXHAUST_ALLOWED;

	sequence->step = READ_ASKED;
	if (match->windows) {
		read->windows = must_calloc(match->namespace->target_count, sizeof(*read->windows));
		require(windows_of(match->command.fields[FIELD_PROJECTION].value, match->namespace,
				   read->windows) > 0);
	}
	if (!exhaust && !projection_needs_state(sequence))
		return sequence_send_request(sequence);
	/* No helper could be sent while the server streams its replies. The session asks for each
	 * part of the client's stream (sequence_streams). */
	sequence_write_edited(sequence, MESSAGE_EXHAUST_ALLOWED, edit_projection, sequence);
	return match->facts.answered ? SEQUENCE_SEND : SEQUENCE_SEND_LAST;
}

/* ---- ends that are no success ---- */

/* Closes what is still open, then answers. The documents of this batch are lost to the client, so
 * that nobody may read on behind them. */
static enum sequence_outcome close_cursors(struct sequence *sequence)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	struct sequence_read *read = read_of(sequence);
	const struct target *target = &namespace->targets[read->fetch.target];
	int64_t overflow = read->fetch.cursor_id, main = read->cursor_id, spent = read->spent;

	sequence->step = READ_KILL_ASKED;
	if (spent != 0) {
		read->spent = 0;
		return sequence_send_kill(sequence, namespace->database, namespace->collection,
					  spent);
	}
	if (overflow != 0) {
		read->fetch.cursor_id = 0;
		return sequence_send_kill(sequence, target->overflow_database,
					  target->overflow_collection, overflow);
	}
	if (main != 0) {
		read->cursor_id = 0;
		return sequence_send_kill(sequence, namespace->database, namespace->collection,
					  main);
	}
	buffer_fini(&sequence->buffer);
	sequence->buffer = buffer_steal(&read->failure);
	sequence->output = buffer_view(&sequence->buffer);
	return SEQUENCE_DONE;
}

/* Ends with what `output` is. */
static enum sequence_outcome fail_with_output(struct sequence *sequence)
{
	struct sequence_read *read = read_of(sequence);

	if (sequence->output.data == sequence->buffer.data)
		read->failure = buffer_steal(&sequence->buffer);
	else /* the server's own error */
		buffer_append(&read->failure, sequence->output.data, sequence->output.length);
	return close_cursors(sequence);
}

static enum sequence_outcome fail_read(struct sequence *sequence, enum error_code code,
				       const char *why)
{
	char message[SEQUENCE_MESSAGE];

	sequence_fail(sequence, code, sequence_name_rule(sequence, why, message), NULL);
	return fail_with_output(sequence);
}

static enum sequence_outcome fail_lost(struct sequence *sequence)
{
	struct sequence_read *read = read_of(sequence);

	if (read->unresolved)
		return sequence_pass(sequence, &read->main);
	return fail_read(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
			 read->lost ? read->lost : REASSEMBLE_DIED);
}

/* Keeps what is to be said of the document. */
static void say_lost(struct sequence_read *read, const char *message)
{
	free(read->lost);
	read->lost = must_strndup(message, strlen(message));
}

static void name_lost(struct sequence_read *read, struct bytes document)
{
	char message[SEQUENCE_MESSAGE];
	struct element id;

	if (!document_find(document, "_id", &id))
		return;
	snprintf(message, sizeof(message), "the document with %s: %s", id_text(&id).text,
		 REASSEMBLE_DIED);
	say_lost(read, message);
}

/* What an array needs of the overflow is not there any more. A getMore can't begin again, and it
 * may be that the collection went, too. */
static enum sequence_outcome lose_overflow(struct sequence *sequence,
					   const struct sequence_input *input)
{
	if (!is_command(sequence, "getMore") ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return fail_lost(sequence);
	sequence->step = READ_DROPPED_ASKED;
	return dropped_ask(sequence, input);
}

static enum sequence_outcome take_dropped(struct sequence *sequence, const struct packet *reply)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	char message[SEQUENCE_MESSAGE];

	if (!dropped_said(reply))
		return fail_lost(sequence);
	snprintf(message, sizeof(message), "collection dropped: '%s.%s'", namespace->database,
		 namespace->collection);
	sequence_fail(sequence, ERROR_QUERY_PLAN_KILLED, message, NULL);
	return fail_with_output(sequence);
}

static enum sequence_outcome fail_fetch(struct sequence *sequence, enum fetch_outcome outcome)
{
	fetch_fail(&read_of(sequence)->fetch, sequence, outcome);
	return fail_with_output(sequence);
}

/* ---- documents ---- */

static enum sequence_outcome refuse_damaged(struct sequence *sequence)
{
	struct bytes document = read_of(sequence)->damaged;
	char message[SEQUENCE_MESSAGE];
	struct element id;

	if (!document.data || !document_find(document, "_id", &id))
		return fail_read(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET,
				 "a document's state can't be read; run 'spillway verify'");
	snprintf(message, sizeof(message), "the document with %s: %s", id_text(&id).text,
		 REASSEMBLE_STATE_DAMAGED);
	return fail_read(sequence, ERROR_READ_CONCERN_NOT_AVAILABLE_YET, message);
}

static enum sequence_outcome refuse_document(struct sequence *sequence, enum merge_intake intake)
{
	if (intake == MERGE_FOREIGN)
		return fail_read(
			sequence, ERROR_COMMAND_NOT_SUPPORTED,
			"a document is spilled under a rule that the configuration no longer has");
	if (intake == MERGE_SPARE)
		return fail_read(
			sequence, ERROR_COMMAND_NOT_SUPPORTED,
			"a document has a field whose name begins with '_spill/', which is "
			"Spillway's own; rename it, straight at mongod");
	return refuse_damaged(sequence);
}

static void open_merge(struct sequence_read *read)
{
	fetch_init(&read->fetch, read->sequence.match.namespace);
	read->fetching = true;
	if (read->windows)
		merge_set_windows(read->fetch.merge, read->windows);
}

/* The first `most` documents of the batch into a new merge. */
static enum merge_intake take_batch(struct sequence_read *read, size_t most)
{
	struct element document;
	struct cursor cursor;
	enum cursor_step step;
	enum merge_intake intake = MERGE_TAKEN;
	int64_t then;
	bool last;

	read->batch_count = 0;
	if (!read->batch.data || !cursor_open(&cursor, read->batch))
		return MERGE_BROKEN;
	while ((step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT) {
		struct bytes image = document.value;

		if (document.type != BSON_BYTE_DOCUMENT)
			return MERGE_BROKEN;
		if (remainder_read(document.value, &image, &last, &then))
			read->unwrapped = true;
		if (read->batch_count++ < most)
			intake = merge_add_document(read->fetch.merge, image);
		if (intake != MERGE_TAKEN) {
			read->damaged = image;
			return intake;
		}
	}
	return step == CURSOR_END ? MERGE_TAKEN : MERGE_BROKEN;
}

/* Behind a remainder's last document the client goes on with the cursor that it names. */
static void follow(struct sequence_read *read)
{
	struct element document;
	struct bytes image;
	struct cursor cursor;
	int64_t then;
	bool last = false;

	if (!read->unwrapped || !cursor_open(&cursor, read->batch))
		return;
	while (!last && cursor_next(&cursor, &document) == CURSOR_ELEMENT)
		(void)!remainder_read(document.value, &image, &last, &then);
	if (last) {
		read->spent = read->cursor_id;
		read->cursor_id = then;
	}
}

/* The most bytes that a reply may have before the end of its batch. */
static size_t batch_limit(const struct sequence_read *read)
{
	return FRAME_MAX_LENGTH - (read->main.message.body.length - read->batch.length) - 256;
}

static void write_batch(struct sequence_read *read, const struct element *field)
{
	struct buffer *out = &read->sequence.buffer;
	struct merge *merge = read->fetch.merge;
	size_t batch, number = 0, limit = batch_limit(read);
	char name[12];

	read->cut = merge_document_count(merge);
	batch = writer_open_array(out,
				  element_is(field, "firstBatch") ? "firstBatch" : "nextBatch");
	for (size_t i = 0; i < merge_document_count(merge); i++) {
		size_t mark = out->length;
		const char *key = writer_index(name, number);

		if (read->gone && read->gone[i])
			continue;
		buffer_append(out, &(uint8_t){BSON_BYTE_DOCUMENT}, 1);
		buffer_append(out, key, strlen(key) + 1);
		if (!merge_write_document(merge, i, out)) {
			out->length = mark;
			read->dead = i;
			return;
		}
		if (number++ > 0 && out->length > limit) {
			out->length = mark;
			read->cut = i;
			break;
		}
	}
	writer_close(out, batch);
}

/* It is set once all is known. */
static void write_id(struct sequence_read *read)
{
	writer_int64(&read->sequence.buffer, "id", read->cursor_id);
	read->id_at = read->sequence.buffer.length - 8;
}

static void write_cursor(struct sequence_read *read)
{
	struct buffer *out = &read->sequence.buffer;
	size_t start = writer_open_document(out, "cursor");
	struct cursor cursor;
	struct element field;

	require(cursor_open(&cursor, read->cursor));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT && read->dead == SIZE_MAX) {
		if (element_is(&field, "firstBatch") || element_is(&field, "nextBatch"))
			write_batch(read, &field);
		else if (!element_is(&field, "id"))
			writer_element(out, &field);
		else if (read->dead == SIZE_MAX)
			write_id(read);
	}
	if (read->dead == SIZE_MAX)
		writer_close(out, start);
}

/* A document that was read again is as new as that reply, whose times the client has to know: it
 * might else read something older from another member. */
static void write_reply_field(const struct sequence_read *read, struct buffer *out,
			      const struct element *field)
{
	struct element newer;

	if (read->again_count > 0 &&
	    (element_is(field, "operationTime") || element_is(field, "$clusterTime")) &&
	    document_find(read->again[read->again_count - 1].message.body,
			  element_is(field, "operationTime") ? "operationTime" : "$clusterTime",
			  &newer))
		field = &newer;
	writer_element(out, field);
}

/* The whole reply into `buffer`; read->dead says which document stopped it. */
static void write_reply(struct sequence_read *read)
{
	const struct message *main = &read->main.message;
	struct buffer *out = &read->sequence.buffer;
	struct cursor cursor;
	struct element field;
	size_t body;

	read->dead = SIZE_MAX;
	out->length = 0;
	buffer_reserve(out,
		       read->fetch.kept_bytes + read->main.raw.length + read->main.unpacked.length);
	message_begin(out, main->header.request_id, read->sequence.request.header.request_id, 0);
	message_begin_body(out);
	body = writer_open(out);
	require(cursor_open(&cursor, main->body));
	while (cursor_next(&cursor, &field) == CURSOR_ELEMENT && read->dead == SIZE_MAX) {
		if (element_is(&field, "cursor"))
			write_cursor(read);
		else
			write_reply_field(read, out, &field);
	}
	if (read->dead != SIZE_MAX)
		return;
	writer_close(out, body);
	message_end(out, 0);
}

/* Conditions on an index, which has to be named beside them. */
static void write_bounds(const struct command *command, struct buffer *out)
{
	static const enum command_field bounds[] = {FIELD_MIN, FIELD_MAX, FIELD_HINT};

	if (!command_has(command, FIELD_MIN) && !command_has(command, FIELD_MAX))
		return;
	for (size_t i = 0; i < ARRAY_LENGTH(bounds); i++)
		if (command_has(command, bounds[i]))
			writer_element(out, &command->fields[bounds[i]]);
}

/* A document whose generation died is asked for again, with the client's own conditions and its
 * `_id`. */
static void write_find_again(struct sequence *sequence, const struct element *id)
{
	const struct command *command = &sequence->match.command;
	struct buffer *out = &sequence->buffer;
	size_t filter, and, pin;
	struct element record_id;

	writer_string(out, "find", sequence->match.namespace->collection);
	filter = writer_open_document(out, "filter");
	and = writer_open_array(out, "$and");
	pin = writer_open_document(out, "0");
	writer_element(out, id);
	writer_close(out, pin);
	if (command->fields[FIELD_FILTER].type == BSON_BYTE_DOCUMENT)
		writer_renamed(out, "1", &command->fields[FIELD_FILTER]);
	writer_close(out, and);
	writer_close(out, filter);
	write_projection(sequence, out);
	if (command_has(command, FIELD_COLLATION))
		writer_element(out, &command->fields[FIELD_COLLATION]);
	if (command_has(command, FIELD_LET))
		writer_element(out, &command->fields[FIELD_LET]);
	if (document_find(command->body, "showRecordId", &record_id))
		writer_element(out, &record_id);
	write_bounds(command, out);
	writer_bool(out, "singleBatch", true);
}

/* Counts for each document: many may be rewritten while one reply is put together. */
static bool may_try_again(struct sequence_read *read)
{
	if (read->tried != read->dead)
		read->attempts = 0;
	read->tried = read->dead;
	return ++read->attempts <= ATTEMPTS;
}

static enum sequence_outcome read_again(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	struct element id;
	size_t body;

	sequence->counts.repeats++;
	name_lost(read, merge_document(read->fetch.merge, read->dead));
	if (!is_command(sequence, "find") || !may_try_again(read) ||
	    !document_find(merge_document(read->fetch.merge, read->dead), "_id", &id))
		return lose_overflow(sequence, input);
	if (sequence_time_left(sequence, input) == 0)
		return fail_fetch(sequence, FETCH_TIMEOUT);
	body = sequence_begin_command(sequence);
	write_find_again(sequence, &id);
	sequence_write_read_fields(sequence, input, sequence->match.namespace->database,
				   read->fetch.read_concern);
	sequence->step = READ_AGAIN_ASKED;
	return sequence_send_command(sequence, body);
}

/* ---- windows that are cut another way ---- */

static void forget_reply(struct sequence_read *read)
{
	free((void *)(uintptr_t)read->fetch.read_concern.data);
	fetch_fini(&read->fetch);
	read->fetching = false;
	packet_fini(&read->main);
	while (read->again_count > 0)
		packet_fini(&read->again[--read->again_count]);
	free(read->gone);
	read->gone = NULL;
	read->answer.length = 0;
	free(read->windows);
	read->windows = NULL;
	read->sequence.match.windows = false;
}

/* Documents whose windows a getMore would have to cut, or that tell too little: mongod cuts them.
 * Nothing has gone to the client. */
static enum sequence_outcome ask_beyond(struct sequence *sequence,
					const struct sequence_input *input)
{
	const struct match *match = &sequence->match;
	const struct aggregate_task task = match_task(match);
	struct sequence_read *read = read_of(sequence);
	const struct target *target = &match->namespace->targets[read->fetch.target];
	int64_t overflow = read->fetch.cursor_id, main = read->cursor_id;
	const char *unserved = aggregate_unserved_find(&match->command, match->namespace);
	enum sequence_outcome outcome;
	size_t body;

	if (unserved)
		return fail_read(sequence, ERROR_COMMAND_NOT_SUPPORTED, unserved);
	if (overflow != 0 || main != 0) {
		*(overflow ? &read->fetch.cursor_id : &read->cursor_id) = 0;
		outcome = overflow ? sequence_send_kill(sequence, target->overflow_database,
							target->overflow_collection, overflow)
				   : sequence_send_kill(sequence, match->namespace->database,
							match->namespace->collection, main);
		sequence->step = READ_BEYOND_ASKED;
		return outcome;
	}
	if (sequence_time_left(sequence, input) == 0)
		return fail_fetch(sequence, FETCH_TIMEOUT);
	forget_reply(read);
	body = sequence_begin_command(sequence);
	aggregate_write(&sequence->buffer, &match->command, &task, sequence->begun, NULL);
	read->aggregates = true;
	sequence->step = READ_ASKED;
	return sequence_send_command(sequence, body);
}

/* ---- what the reply has no room for ---- */

static bool is_single_batch(const struct sequence *sequence)
{
	return is_command(sequence, "find") && options_single_batch(&sequence->match.command);
}

/* Lists the documents behind the cut, as they were read last. */
static void list_rest(struct sequence_read *read)
{
	const struct merge *merge = read->fetch.merge;
	size_t known = merge_document_count(merge);
	struct element document;
	struct cursor cursor;
	int64_t then;
	bool last;

	read->rest.length = 0;
	require(cursor_open(&cursor, read->batch));
	for (size_t i = 0; cursor_next(&cursor, &document) == CURSOR_ELEMENT; i++) {
		struct bytes image = document.value;

		(void)!remainder_read(document.value, &image, &last, &then);
		if (i < known)
			image = merge_document(merge, i);
		if (i >= read->cut && !(i < known && read->gone && read->gone[i]))
			buffer_append(&read->rest, &image, sizeof(image));
	}
}

/* Has the server keep the last of the listed documents, as many as one command holds. */
static enum sequence_outcome keep_rest(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	const struct ruled_namespace *namespace = sequence->match.namespace;
	const struct bytes *rest = (const struct bytes *)(const void *)read->rest.data;
	size_t count = read->rest.length / sizeof(*rest), first = count - 1, body;
	size_t size = rest[first].length;

	while (first > 0 && size + rest[first - 1].length + 64 <= REMAINDER_LIMIT)
		size += rest[--first].length + 64;
	if (sequence_time_left(sequence, input) == 0)
		return fail_fetch(sequence, FETCH_TIMEOUT);
	body = sequence_begin_command(sequence);
	remainder_write(&sequence->buffer, namespace->collection, rest + first, count - first,
			read->cursor_id);
	sequence_write_read_fields(sequence, input, namespace->database, read->fetch.read_concern);
	read->rest.length = first * sizeof(*rest);
	sequence->step = READ_REST_ASKED;
	return sequence_send_command(sequence, body);
}

static enum sequence_outcome finish(struct sequence *sequence, const struct sequence_input *input)
{
	const struct ruled_namespace *namespace = sequence->match.namespace;
	struct sequence_read *read = read_of(sequence);
	enum sequence_outcome outcome;
	int64_t spent = read->spent;

	if (read->rest.length > 0)
		return keep_rest(sequence, input);
	if (spent != 0) {
		read->spent = 0;
		outcome = sequence_send_kill(sequence, namespace->database, namespace->collection,
					     spent);
		sequence->step = READ_SPENT_ASKED;
		return outcome;
	}
	if (read->id_at > 0)
		memcpy(read->answer.data + read->id_at, &read->cursor_id, sizeof(read->cursor_id));
	buffer_fini(&sequence->buffer);
	sequence->buffer = buffer_steal(&read->answer);
	sequence->output = buffer_view(&sequence->buffer);
	return SEQUENCE_DONE;
}

static enum sequence_outcome take_rest(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	struct reply_summary summary;
	struct reply_cursor cursor;

	if (input->reply->kind != PACKET_MESSAGE ||
	    !reply_summarise(input->reply->message.body, &summary) || !summary.ok) {
		sequence_pass(sequence, input->reply);
		return fail_with_output(sequence);
	}
	cursor = reply_read_cursor(summary.cursor);
	if (!element_integer(&cursor.id, &read->cursor_id))
		return refuse_document(sequence, MERGE_BROKEN);
	return finish(sequence, input);
}

static enum sequence_outcome answer(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);

	write_reply(read);
	if (read->dead != SIZE_MAX)
		return read_again(sequence, input);
	if (sequence->buffer.length > FRAME_MAX_LENGTH)
		return fail_fetch(sequence, FETCH_TOO_MUCH);
	if (read->windows && read->cut < merge_document_count(read->fetch.merge))
		return ask_beyond(sequence, input);
	sequence->counts.merged = (int64_t)merge_spilled_count(read->fetch.merge);
	read->answer = buffer_steal(&sequence->buffer);
	/* Of a find of a single batch, mongod leaves out as much. */
	if (read->cut < read->batch_count && !is_single_batch(sequence))
		list_rest(read);
	return finish(sequence, input);
}

static enum sequence_outcome fetch_on(struct sequence *sequence, const struct sequence_input *input,
				      struct packet *reply);

/* Begins to put together the first `most` documents. */
static enum sequence_outcome begin(struct sequence *sequence, const struct sequence_input *input,
				   size_t most)
{
	struct sequence_read *read = read_of(sequence);
	struct bytes read_concern = read->fetch.read_concern;
	enum merge_intake intake;

	if (read->fetching)
		fetch_fini(&read->fetch);
	free(read->gone);
	read->gone = NULL;
	open_merge(read);
	read->fetch.read_concern = read_concern;
	intake = take_batch(read, most);
	if (intake != MERGE_TAKEN)
		return refuse_document(sequence, intake);
	read->fetch.most =
		merge_document_count(read->fetch.merge) == 1 ? FETCH_MOST_OF_ONE : FRAME_MAX_LENGTH;
	return fetch_on(sequence, input, NULL);
}

/* More has come than a reply holds. */
static enum sequence_outcome take_fewer(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	const struct merge *merge = read->fetch.merge;
	const struct target *target = &sequence->match.namespace->targets[read->fetch.target];
	int64_t overflow = read->fetch.cursor_id;
	enum sequence_outcome outcome;

	if (merge_document_count(merge) == 1)
		return fail_fetch(sequence, FETCH_TOO_MUCH);
	if (read->windows)
		return ask_beyond(sequence, input);
	read->fewer = merge_half(merge);
	if (overflow == 0)
		return begin(sequence, input, read->fewer);
	read->fetch.cursor_id = 0;
	outcome = sequence_send_kill(sequence, target->overflow_database,
				     target->overflow_collection, overflow);
	sequence->step = READ_FEWER_ASKED;
	return outcome;
}

static enum sequence_outcome fetch_on(struct sequence *sequence, const struct sequence_input *input,
				      struct packet *reply)
{
	struct sequence_read *read = read_of(sequence);
	enum fetch_outcome outcome;

	if (input->memory_short)
		return fail_read(sequence, ERROR_TEMPORARILY_UNAVAILABLE,
				 "Spillway has no memory left for putting arrays together "
				 "(limits.memory); try again later");
	outcome = fetch_next(&read->fetch, sequence, input, reply);
	if (outcome == FETCH_COMPLETE)
		return answer(sequence, input);
	if (outcome == FETCH_TOO_MUCH)
		return take_fewer(sequence, input);
	if (outcome != FETCH_SEND)
		return fail_fetch(sequence, outcome);
	sequence->step = READ_OVERFLOW_ASKED;
	sequence->gives_up = true;
	return SEQUENCE_SEND;
}

/* A snapshot read's helpers read the same snapshot. */
static void keep_snapshot(struct sequence_read *read, const struct element *time)
{
	struct buffer concern = {0};
	size_t start;

	if (time->type == 0)
		return;
	start = writer_open(&concern);
	writer_string(&concern, "level", "snapshot");
	writer_element(&concern, time);
	writer_close(&concern, start);
	read->fetch.read_concern = buffer_view(&concern); /* freed with the sequence */
}

static bool met_death(struct sequence *sequence, struct packet *reply,
		      const struct reply_summary *summary)
{
	struct sequence_read *read = read_of(sequence);
	char message[REASSEMBLE_MESSAGE];
	enum error_code code;

	read->unresolved =
		is_command(sequence, "getMore") && dropped_overflow(reply->message.body, summary);
	if (!read->unresolved && !reassemble_died(reply->message.body, summary))
		return false;
	if (!read->unresolved) {
		if (reassemble_tell(reply->message.body, summary, message, &code))
			say_lost(read, message);
		return true;
	}
	read->main = packet_steal(reply);
	return true;
}

/* An array was rewritten while the server put it together. */
static enum sequence_outcome take_death(struct sequence *sequence,
					const struct sequence_input *input)
{
	if (is_command(sequence, "find") &&
	    !command_has(&sequence->match.command, FIELD_AUTOCOMMIT) &&
	    ++read_of(sequence)->attempts < ATTEMPTS) {
		sequence->counts.repeats++;
		return ask_beyond(sequence, input);
	}
	return lose_overflow(sequence, input);
}

/* The client's command failed, or what stands for it. */
static enum sequence_outcome take_failure(struct sequence *sequence,
					  const struct sequence_input *input,
					  const struct reply_summary *summary)
{
	struct sequence_read *read = read_of(sequence);
	char message[REASSEMBLE_MESSAGE];
	enum error_code code;
	const char *refusal;

	if (reassemble_tell(input->reply->message.body, summary, message, &code))
		return fail_read(sequence, code, message);
	if (reassemble_missed(input->reply->message.body, summary)) {
		read_words_miss(sequence);
		return fail_with_output(sequence);
	}
	refusal = reassemble_refusal(input->reply->message.body, summary, &code);
	if (refusal && (code != ERROR_OBJECT_TOO_LARGE || is_command(sequence, "getMore")))
		return fail_read(sequence, code, refusal);
	if ((read->aggregates || projection_needs_state(sequence)) &&
	    read_words_wanted(sequence, input->reply)) {
		read->main = packet_steal(input->reply);
		sequence->step = READ_WORDS_ASKED;
		return own_error_ask(sequence);
	}
	return read->aggregates ? read_words_pass(sequence, input->reply)
				: sequence_pass(sequence, input->reply);
}

static enum sequence_outcome take_main(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	struct reply_summary summary;
	enum merge_intake intake;
	size_t count, fitting;
	struct reply_cursor cursor;

	if (input->reply->kind != PACKET_MESSAGE ||
	    !reply_summarise(input->reply->message.body, &summary))
		return sequence_pass(sequence, input->reply);
	if (met_death(sequence, input->reply, &summary))
		return take_death(sequence, input);
	if (!summary.ok)
		return take_failure(sequence, input, &summary);
	if (summary.cursor.length == 0)
		return sequence_pass(sequence, input->reply);
	cursor = reply_read_cursor(summary.cursor);
	/* Most batches are untouched. */
	if (!sequence->touched && !read->windows && !sequence->match.wrong && cursor.batch.data &&
	    merge_untouched(sequence->match.namespace, cursor.batch))
		return sequence_pass(sequence, input->reply);
	read->main = packet_steal(input->reply);
	read->cursor = summary.cursor;
	read->batch = cursor.batch;
	if (!element_integer(&cursor.id, &read->cursor_id))
		read->cursor_id = 0;
	open_merge(read);
	if (sequence->match.wrong)
		return fail_read(sequence, ERROR_COMMAND_NOT_SUPPORTED,
				 "a projection that mongod should have refused");
	intake = take_batch(read, SIZE_MAX);
	if (read->windows && (intake == MERGE_BEYOND || read->cursor_id != 0))
		return ask_beyond(sequence, input);
	follow(read);
	if (intake != MERGE_TAKEN)
		return refuse_document(sequence, intake);
	if (merge_clean(read->fetch.merge) && !read->unwrapped)
		return sequence_pass(sequence, &read->main);
	keep_snapshot(read, &cursor.time);
	count = merge_document_count(read->fetch.merge);
	fitting = merge_fitting(read->fetch.merge, FRAME_MAX_LENGTH);
	if (fitting < count && read->windows)
		return ask_beyond(sequence, input);
	if (fitting < count && !is_single_batch(sequence))
		return begin(sequence, input, fitting);
	read->fetch.most = count == 1 ? FETCH_MOST_OF_ONE : FRAME_MAX_LENGTH;
	return fetch_on(sequence, input, NULL);
}

static bool same_id(struct bytes a, struct bytes b)
{
	struct element first, second;

	return document_find(a, "_id", &first) && document_find(b, "_id", &second) &&
	       bytes_equal(element_raw(&first), element_raw(&second));
}

/* What was read again takes the dead document's place; where it no longer matches, it is gone. */
static enum sequence_outcome take_again(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	struct merge *merge = read->fetch.merge;
	struct reply_summary summary;
	struct element document;
	struct cursor cursor;
	struct bytes batch;
	enum merge_intake intake = MERGE_TAKEN;
	bool found = false;

	if (input->reply->kind != PACKET_MESSAGE ||
	    !reply_summarise(input->reply->message.body, &summary) || !summary.ok) {
		sequence_pass(sequence, input->reply);
		return fail_with_output(sequence);
	}
	read->again = must_realloc(read->again, (read->again_count + 1) * sizeof(*read->again));
	read->again[read->again_count++] = packet_steal(input->reply);
	batch = reply_read_cursor(summary.cursor).batch;
	if (!batch.data || !cursor_open(&cursor, batch))
		return refuse_document(sequence, MERGE_BROKEN);
	while (!found && cursor_next(&cursor, &document) == CURSOR_ELEMENT)
		found = same_id(document.value, merge_document(merge, read->dead));
	if (found) {
		read->damaged = document.value;
		intake = merge_replace_document(merge, read->dead, document.value);
	} else {
		if (!read->gone)
			read->gone = must_calloc(merge_document_count(merge), sizeof(*read->gone));
		read->gone[read->dead] = true;
	}
	if (intake == MERGE_BEYOND)
		return ask_beyond(sequence, input);
	if (intake != MERGE_TAKEN)
		return refuse_document(sequence, intake);
	return fetch_on(sequence, input, NULL);
}

static enum sequence_outcome read_resume(struct sequence *sequence,
					 const struct sequence_input *input)
{
	switch ((enum read_step)sequence->step) {
	case READ_BEGIN:
		return send_client_command(sequence);
	case READ_ASKED:
		return take_main(sequence, input);
	case READ_OVERFLOW_ASKED:
		return fetch_on(sequence, input, input->reply);
	case READ_AGAIN_ASKED:
		return take_again(sequence, input);
	case READ_FEWER_ASKED:
		return begin(sequence, input, read_of(sequence)->fewer);
	case READ_REST_ASKED:
		return take_rest(sequence, input);
	case READ_SPENT_ASKED:
		return finish(sequence, input);
	case READ_KILL_ASKED:
		return close_cursors(sequence);
	case READ_BEYOND_ASKED:
		return ask_beyond(sequence, input);
	case READ_WORDS_ASKED:
		return read_words_take(sequence, &read_of(sequence)->main, input->reply);
	case READ_DROPPED_ASKED:
		return take_dropped(sequence, input->reply);
	}
	require(!"a step of another sequence");
}

static void read_fini(struct sequence *sequence)
{
	struct sequence_read *read = read_of(sequence);

	free((void *)(uintptr_t)read->fetch.read_concern.data);
	if (read->fetching)
		fetch_fini(&read->fetch);
	packet_fini(&read->main);
	for (size_t i = 0; i < read->again_count; i++)
		packet_fini(&read->again[i]);
	free(read->again);
	free(read->gone);
	free(read->lost);
	free(read->windows);
	buffer_fini(&read->rest);
	buffer_fini(&read->answer);
	buffer_fini(&read->failure);
}

static size_t read_memory(const struct sequence *sequence)
{
	const struct sequence_read *read = (const struct sequence_read *)(const void *)sequence;

	return read->main.raw.capacity + read->main.unpacked.capacity + read->fetch.kept_bytes +
	       read->answer.capacity;
}

struct sequence *sequence_read_new(void)
{
	struct sequence_read *read = must_calloc(1, sizeof(*read));

	read->sequence.resume = read_resume;
	read->sequence.fini = read_fini;
	read->sequence.memory = read_memory;
	read->tried = SIZE_MAX;
	return &read->sequence;
}
