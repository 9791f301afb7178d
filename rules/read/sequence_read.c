/* find, getMore, and aggregates that return whole documents: what comes back is put together and
 * stripped, and cut where a find wants windows of its arrays. */
#include "rules/read/read_inner.h"

#include "protocol/writer.h"
#include "rules/stages/aggregate.h"
#include "rules/read/dropped.h"
#include "rules/query/read_options.h"
#include "rules/sequence/own_error.h"
#include "rules/query/projection.h"
#include "rules/read/error_words.h"
#include "rules/reassembly/raised.h"
#include "rules/read/remainder.h"
#include "rules/read/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 5
#define NO_MEMORY \
	"Spillway has no memory left for putting arrays together (limits.memory, or what the " \
	"system gives); try again later"

/* Counts for each document: many may be rewritten while one reply is put together. */
static bool may_try_again(struct sequence_read *read)
{
	if (read->retry.tried != read->retry.dead)
		read->retry.attempts = read->retry.stood = 0;
	read->retry.tried = read->retry.dead;
	return ++read->retry.attempts <= ATTEMPTS;
}

static enum sequence_outcome read_again(struct sequence *sequence,
					const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	struct element id;
	size_t body;

	sequence->counts.repeats++;
	read_name_lost(read, merge_document(read->fetch.merge, read->retry.dead));
	if (!may_try_again(read) ||
	    !document_find(merge_document(read->fetch.merge, read->retry.dead), "_id", &id))
		return read_lose_overflow(sequence, input);
	if (read_proves_damage(read))
		return read_take_damage(sequence, input);
	if (sequence_time_left(sequence, input) == 0)
		return read_fail_fetch(sequence, FETCH_TIMEOUT);
	if (!read_is_command(sequence, COMMAND_FIND) || read->aggregates)
		return read_ask_look(sequence, input, &id);
	body = sequence_begin_command(sequence);
	read_write_find_again(sequence, &id);
	sequence_write_read_fields(sequence, input, sequence->match.namespace->database,
				   read->fetch.read_concern);
	sequence->step = READ_AGAIN_ASKED;
	return sequence_send_command(sequence, body);
}

/* ---- finds that become aggregates ---- */

static void forget_reply(struct sequence_read *read)
{
	bytes_free(read->fetch.read_concern);
	fetch_fini(&read->fetch);
	read->fetching = false;
	packet_fini(&read->main);
	read->cursor = read->batch = (struct bytes){0};
	read->unwrapped = false;
	while (read->retry.reply_count > 0)
		packet_fini(&read->retry.replies[--read->retry.reply_count]);
	free(read->retry.gone);
	read->retry.gone = NULL;
	read->answer.length = 0;
	free(read->windows);
	read->windows = NULL;
}

/* Documents whose windows a getMore will have to cut: they get marks. Those that have them and need
 * more than that, or that tell too little: mongod cuts them. A view's documents whose `_id` is
 * hidden: mongod takes it away. Nothing has gone to the client. */
enum sequence_outcome read_ask_beyond(struct sequence *sequence, const struct sequence_input *input)
{
	const struct match *match = &sequence->match;
	struct sequence_read *read = read_of(sequence);
	const struct target *target = &match->namespace->targets[read->fetch.target];
	int64_t overflow = read->fetch.cursor_id, main = read->cursor_id;
	const char *unserved = aggregate_unserved_find(&match->command, match->namespace);
	enum sequence_outcome outcome;

	if (unserved)
		return read_fail(sequence, ERROR_COMMAND_NOT_SUPPORTED, unserved);
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
		return read_fail_fetch(sequence, FETCH_TIMEOUT);
	forget_reply(read);
	return read_ask_aggregate(sequence);
}

/* ---- what the reply has no room for ---- */

static bool is_single_batch(const struct sequence *sequence)
{
	return read_is_command(sequence, COMMAND_FIND) &&
	       options_single_batch(&sequence->match.command);
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
		if (i >= read->cut && !(i < known && read->retry.gone && read->retry.gone[i]))
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
		return read_fail_fetch(sequence, FETCH_TIMEOUT);
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
	struct reply_cursor cursor;

	if (!input->reply->summary.ok) {
		sequence_pass(sequence, input->reply);
		return read_fail_with_output(sequence);
	}
	cursor = reply_read_cursor(input->reply->summary.cursor);
	if (!element_integer(&cursor.id, &read->cursor_id))
		return read_refuse_document(sequence, MERGE_BROKEN, (struct bytes){0});
	return finish(sequence, input);
}

static enum sequence_outcome answer(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);

	if (!read_make_room(read))
		return read_fail(sequence, ERROR_TEMPORARILY_UNAVAILABLE, NO_MEMORY);
	read_write_reply(read);
	if (read->retry.dead != SIZE_MAX && merge_is_too_long(read->fetch.merge, read->retry.dead))
		return read_fail_fetch(sequence, FETCH_TOO_MUCH);
	if (read->retry.dead != SIZE_MAX)
		return read_again(sequence, input);
	if (sequence->buffer.length > FRAME_MAX_LENGTH)
		return read_fail_fetch(sequence, FETCH_TOO_MUCH);
	if (read->windows && read->cut < merge_document_count(read->fetch.merge))
		return read_ask_beyond(sequence, input);
	sequence->counts.merged = (int64_t)merge_spilled_count(read->fetch.merge);
	read->answer = buffer_steal(&sequence->buffer);
	/* Of a find of a single batch, mongod leaves out as much. */
	if (read->cut < read->batch_count && !is_single_batch(sequence))
		list_rest(read);
	return finish(sequence, input);
}

/* Begins to put together the first `most` documents. */
static enum sequence_outcome begin(struct sequence *sequence, const struct sequence_input *input,
				   size_t most)
{
	struct sequence_read *read = read_of(sequence);
	struct bytes read_concern = read->fetch.read_concern, refused;
	enum merge_intake intake;

	if (read->fetching)
		fetch_fini(&read->fetch);
	free(read->retry.gone);
	read->retry.gone = NULL;
	read_open_merge(read);
	read->fetch.read_concern = read_concern;
	intake = read_take_batch(read, most, &refused);
	if (intake != MERGE_TAKEN)
		return read_refuse_document(sequence, intake, refused);
	read->fetch.most =
		merge_document_count(read->fetch.merge) == 1 ? FETCH_MOST_OF_ONE : FRAME_MAX_LENGTH;
	return read_fetch_on(sequence, input, NULL);
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
		return read_fail_fetch(sequence, FETCH_TOO_MUCH);
	if (read->windows)
		return read_ask_beyond(sequence, input);
	read->fewer = merge_half(merge);
	if (overflow == 0)
		return begin(sequence, input, read->fewer);
	read->fetch.cursor_id = 0;
	outcome = sequence_send_kill(sequence, target->overflow_database,
				     target->overflow_collection, overflow);
	sequence->step = READ_FEWER_ASKED;
	return outcome;
}

enum sequence_outcome read_fetch_on(struct sequence *sequence, const struct sequence_input *input,
				    struct packet *reply)
{
	struct sequence_read *read = read_of(sequence);
	enum fetch_outcome outcome;

	if (input->memory_short)
		return read_fail(sequence, ERROR_TEMPORARILY_UNAVAILABLE, NO_MEMORY);
	outcome = fetch_next(&read->fetch, sequence, input, reply);
	if (outcome == FETCH_COMPLETE)
		return answer(sequence, input);
	if (outcome == FETCH_TOO_MUCH)
		return take_fewer(sequence, input);
	if (outcome != FETCH_SEND)
		return read_fail_fetch(sequence, outcome);
	sequence->step = READ_OVERFLOW_ASKED;
	sequence->reply.gives_up = true;
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

static bool met_death(struct sequence *sequence, struct packet *reply)
{
	const struct reply_summary *summary = &reply->summary;
	struct sequence_read *read = read_of(sequence);
	char message[RAISED_MESSAGE];
	enum error_code code;

	read->unresolved = read_is_command(sequence, COMMAND_GET_MORE) && dropped_overflow(summary);
	if (!read->unresolved && !raised_died(summary))
		return false;
	if (!read->unresolved) {
		if (raised_tell(summary, message, &code))
			read_say_lost(read, message);
		return true;
	}
	read->main = packet_steal(reply);
	return true;
}

/* An array was rewritten while the server put it together. */
static enum sequence_outcome take_death(struct sequence *sequence,
					const struct sequence_input *input)
{
	read_of(sequence)->retry.damage = REASSEMBLE_SKIPS; /* tells a rewrite from damage */
	if (read_is_command(sequence, COMMAND_FIND) &&
	    !command_has(&sequence->match.command, FIELD_AUTOCOMMIT) &&
	    ++read_of(sequence)->retry.attempts < ATTEMPTS) {
		sequence->counts.repeats++;
		return read_ask_beyond(sequence, input);
	}
	return read_lose_overflow(sequence, input);
}

/* The client's command failed, or what stands for it. */
static enum sequence_outcome take_failure(struct sequence *sequence,
					  const struct sequence_input *input)
{
	const struct reply_summary *summary = &input->reply->summary;
	struct sequence_read *read = read_of(sequence);
	char message[RAISED_MESSAGE];
	enum error_code code;
	const char *native, *refusal;

	if (met_death(sequence, input->reply))
		return take_death(sequence, input);
	if (raised_tell(summary, message, &code))
		return read_fail(sequence, code, message);
	native = raised_native(summary, read_is_command(sequence, COMMAND_GET_MORE), &code);
	if (native) {
		sequence_fail(sequence, code, native, NULL);
		return read_fail_with_output(sequence);
	}
	refusal = raised_refusal(summary, &code);
	/* Of the client's own command, that is mongod's word. */
	if (refusal && (code != ERROR_OBJECT_TOO_LARGE || read->aggregates ||
			read_is_command(sequence, COMMAND_GET_MORE)))
		return read_fail(sequence, code, refusal);
	if ((read->aggregates || read_needs_state(sequence)) &&
	    read_words_wanted(sequence, input->reply)) {
		read->main = packet_steal(input->reply);
		sequence->step = READ_WORDS_ASKED;
		return own_error_ask(sequence);
	}
	return read->aggregates ? read_words_pass(sequence, input->reply)
				: sequence_pass(sequence, input->reply);
}

/* A view's documents, or a time series collection's: their `_id` could not be taken away by the
 * getMores, which do not know the projection. mongod takes it away in an aggregate. */
static bool lacks_mark(struct bytes batch)
{
	struct cursor cursor;
	struct element document;

	return batch.data && cursor_open(&cursor, batch) &&
	       cursor_next(&cursor, &document) == CURSOR_ELEMENT &&
	       !projection_mark_found(document.value);
}

/* A getMore of a ruled collection's change stream. */
static bool begins_stream(const struct sequence *sequence, struct bytes cursor)
{
	return read_is_command(sequence, COMMAND_GET_MORE) && stream_is(cursor) &&
	       stream_is_told(sequence, reply_read_cursor(cursor).batch);
}

static enum sequence_outcome take_main(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_read *read = read_of(sequence);
	const struct reply_summary *summary = &input->reply->summary;
	enum merge_intake intake;
	size_t count, fitting;
	struct reply_cursor cursor;
	struct bytes refused;

	if (!summary->readable)
		return sequence_pass(sequence, input->reply);
	if (!summary->ok)
		return take_failure(sequence, input);
	if (summary->cursor.length == 0)
		return sequence_pass(sequence, input->reply);
	if (begins_stream(sequence, summary->cursor)) {
		sequence->resume = stream_resume;
		read->stream = stream_new();
		return stream_take(sequence, input);
	}
	cursor = reply_read_cursor(summary->cursor);
	/* Most batches are untouched. */
	if (!sequence->touched && !read->windows && !read->marked && !sequence->match.wrong &&
	    cursor.batch.data && merge_untouched(sequence->match.namespace, cursor.batch))
		return sequence_pass(sequence, input->reply);
	packet_move(&read->main, input->reply);
	read->cursor = read->main.summary.cursor;
	read->batch = cursor.batch;
	if (!element_integer(&cursor.id, &read->cursor_id))
		read->cursor_id = 0;
	read_open_merge(read);
	if (sequence->match.wrong)
		return read_fail(sequence, ERROR_COMMAND_NOT_SUPPORTED,
				 "a projection that mongod should have refused");
	if (read->marked && lacks_mark(read->batch))
		return read_ask_beyond(sequence, input);
	intake = read_take_batch(read, SIZE_MAX, &refused);
	if ((intake == MERGE_BEYOND && read_is_command(sequence, COMMAND_FIND)) ||
	    (read->windows && read->cursor_id != 0))
		return read_ask_beyond(sequence, input);
	read_follow(read);
	if (intake != MERGE_TAKEN)
		return read_refuse_document(sequence, intake, refused);
	if (merge_clean(read->fetch.merge) && !read->unwrapped && !read->retry.gone)
		return sequence_pass(sequence, &read->main);
	keep_snapshot(read, &cursor.time);
	count = merge_document_count(read->fetch.merge);
	fitting = merge_fitting(read->fetch.merge, FRAME_MAX_LENGTH);
	if (fitting < count && read->windows)
		return read_ask_beyond(sequence, input);
	if (fitting < count && !is_single_batch(sequence))
		return begin(sequence, input, fitting);
	read->fetch.most = count == 1 ? FETCH_MOST_OF_ONE : FRAME_MAX_LENGTH;
	return read_fetch_on(sequence, input, NULL);
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
	struct element document;
	struct cursor cursor;
	struct bytes batch;
	enum merge_intake intake = MERGE_TAKEN;
	enum cursor_step step = CURSOR_ELEMENT;
	bool found = false;

	if (!input->reply->summary.ok) {
		sequence_pass(sequence, input->reply);
		return read_fail_with_output(sequence);
	}
	read->retry.replies = must_realloc(
		read->retry.replies, (read->retry.reply_count + 1) * sizeof(*read->retry.replies));
	read->retry.replies[read->retry.reply_count++] = packet_steal(input->reply);
	batch = reply_read_cursor(read->retry.replies[read->retry.reply_count - 1].summary.cursor)
			.batch;
	if (!batch.data || !cursor_open(&cursor, batch))
		return read_refuse_document(sequence, MERGE_BROKEN, (struct bytes){0});
	while (!found && (step = cursor_next(&cursor, &document)) == CURSOR_ELEMENT)
		found = same_id(document.value, merge_document(merge, read->retry.dead));
	if (step == CURSOR_INVALID)
		return read_refuse_document(sequence, MERGE_BROKEN, (struct bytes){0});
	if (found) {
		read_compare_states(sequence, document.value);
		intake = merge_replace_document(merge, read->retry.dead, document.value);
	} else {
		if (!read->retry.gone)
			read->retry.gone =
				must_calloc(merge_document_count(merge), sizeof(*read->retry.gone));
		read->retry.gone[read->retry.dead] = true;
	}
	if (intake == MERGE_BEYOND)
		return read_ask_beyond(sequence, input);
	if (intake == MERGE_BROKEN && read_skips(sequence, document.value, read->retry.dead))
		intake = MERGE_TAKEN;
	if (intake != MERGE_TAKEN)
		return read_refuse_document(sequence, intake, document.value);
	return read_fetch_on(sequence, input, NULL);
}

static enum sequence_outcome read_resume(struct sequence *sequence,
					 const struct sequence_input *input)
{
	switch ((enum read_step)sequence->step) {
	case READ_BEGIN:
		return read_send_client_command(sequence);
	case READ_ASKED:
		return take_main(sequence, input);
	case READ_OVERFLOW_ASKED:
		return read_fetch_on(sequence, input, input->reply);
	case READ_AGAIN_ASKED:
		return take_again(sequence, input);
	case READ_FEWER_ASKED:
		return begin(sequence, input, read_of(sequence)->fewer);
	case READ_REST_ASKED:
		return take_rest(sequence, input);
	case READ_SPENT_ASKED:
		return finish(sequence, input);
	case READ_KILL_ASKED:
		return read_close_cursors(sequence);
	case READ_BEYOND_ASKED:
		return read_ask_beyond(sequence, input);
	case READ_WORDS_ASKED:
		return read_words_take(sequence, &read_of(sequence)->main, input->reply);
	case READ_LOOK_ASKED:
		return read_take_look(sequence, input);
	case READ_DROPPED_ASKED:
		return read_take_dropped(sequence, input->reply);
	}
	require(!"a step of another sequence");
}

static void read_fini(struct sequence *sequence)
{
	struct sequence_read *read = read_of(sequence);

	bytes_free(read->fetch.read_concern);
	if (read->fetching)
		fetch_fini(&read->fetch);
	packet_fini(&read->main);
	for (size_t i = 0; i < read->retry.reply_count; i++)
		packet_fini(&read->retry.replies[i]);
	free(read->retry.replies);
	free(read->retry.gone);
	free(read->lost);
	free(read->windows);
	buffer_fini(&read->rest);
	buffer_fini(&read->answer);
	buffer_fini(&read->failure);
	stream_free(read->stream);
}

static size_t read_memory(const struct sequence *sequence)
{
	const struct sequence_read *read = (const struct sequence_read *)(const void *)sequence;

	return read->main.raw.capacity + read->main.unpacked.capacity + read->fetch.kept_bytes +
	       read->answer.capacity + (read->stream ? stream_memory(read->stream) : 0);
}

struct sequence *sequence_read_new(void)
{
	struct sequence_read *read = must_calloc(1, sizeof(*read));

	read->sequence.resume = read_resume;
	read->sequence.fini = read_fini;
	read->sequence.memory = read_memory;
	read->retry.tried = SIZE_MAX;
	return &read->sequence;
}
