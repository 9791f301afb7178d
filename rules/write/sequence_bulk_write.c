/* mongod 8.0's bulkWrite where it names a ruled namespace: run by run, each as the older command
 * that does the same, through that command's own sequence where a rule concerns it. */
#include "protocol/writer.h"
#include "rules/write/bulk_reply.h"
#include "rules/sequence/refused_statements.h"
#include "rules/read/remainder.h"
#include "rules/sequence/sequence_inner.h"

enum bulk_step {
	BULK_BEGIN,
	BULK_JUDGED, /* whether mongod refuses an op that is to be refused */
	BULK_RUNS,   /* what the run, or its sequence, asked for last */
	BULK_KEPT,   /* a cursor for the results behind the first batch */
};

/* A note of a run that is over; its bytes stand in `kept` from `at`: the `_id`, the filter, the
 * collation, the time. */
struct bulk_note {
	struct mover_note note;
	size_t at;
};

struct sequence_bulk {
	struct sequence sequence; /* first: the two are one pointer */
	struct bulk_write bulk;
	struct bulk_reply reply;
	struct bulk_run run;                /* the last one that was begun */
	struct refused_statements rejected; /* ops, by mongod */
	struct sequence *child;             /* its sequence; NULL: it goes as it is */
	struct packet packet; /* its command where there is no sequence, later its reply */
	struct buffer notes;  /* struct bulk_note each */
	struct buffer kept;
};

static struct sequence_bulk *bulk_of(struct sequence *sequence)
{
	return (struct sequence_bulk *)(void *)sequence;
}

static const struct sequence_bulk *const_bulk_of(const struct sequence *sequence)
{
	return (const struct sequence_bulk *)(const void *)sequence;
}

/* ---- notes ---- */

static void keep_bytes(struct sequence_bulk *bulk, struct bytes bytes)
{
	if (bytes.length > 0)
		buffer_append(&bulk->kept, bytes.data, bytes.length);
}

static void keep_note(void *context, const struct mover_note *note)
{
	struct sequence_bulk *bulk = context;
	const struct bulk_note kept = {*note, bulk->kept.length};

	buffer_append(&bulk->notes, &kept, sizeof(kept));
	keep_bytes(bulk, note->id);
	keep_bytes(bulk, note->filter);
	keep_bytes(bulk, note->collation);
	keep_bytes(bulk, note->operation_time);
}

static void find_bytes(const struct sequence_bulk *bulk, size_t *at, struct bytes *bytes)
{
	bytes->data = bytes->length > 0 ? bulk->kept.data + *at : NULL;
	*at += bytes->length;
}

static void bulk_notes(const struct sequence *sequence,
		       void (*take)(void *context, const struct mover_note *note), void *context)
{
	const struct sequence_bulk *bulk = const_bulk_of(sequence);
	struct bulk_note kept;

	for (size_t i = 0; i < bulk->notes.length / sizeof(kept); i++) {
		memcpy(&kept, bulk->notes.data + i * sizeof(kept), sizeof(kept));
		find_bytes(bulk, &kept.at, &kept.note.id);
		find_bytes(bulk, &kept.at, &kept.note.filter);
		find_bytes(bulk, &kept.at, &kept.note.collation);
		find_bytes(bulk, &kept.at, &kept.note.operation_time);
		take(context, &kept.note);
	}
	if (sequence->cut && bulk->child)
		sequence_cut(bulk->child, take, context);
}

/* ---- a run ---- */

static void end_child(struct sequence *sequence)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	const struct sequence_counts *counts = &bulk->child->counts;

	sequence_notes(bulk->child, keep_note, bulk);
	sequence->counts.merged += counts->merged;
	sequence->counts.repeats += counts->repeats;
	sequence->counts.fetches += counts->fetches;
	sequence->counts.fetch_microseconds += counts->fetch_microseconds;
	if (bulk->child->end.code)
		sequence->end.code = bulk->child->end.code;
	sequence_free(bulk->child);
	bulk->child = NULL;
}

/* What the run's sequence wants is what we want; at its end its answer is the run's reply. */
static enum sequence_outcome resume_child(struct sequence *sequence,
					  const struct sequence_input *input)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	struct sequence *child = bulk->child;
	enum sequence_outcome outcome;
	struct buffer frame = {0};

	child->next_request_id = sequence->next_request_id;
	child->end.own = sequence->end.own;
	outcome = sequence_resume(child, input);
	sequence->next_request_id = child->next_request_id;
	sequence->end.own = child->end.own;
	sequence->end.holds = child->end.holds;
	if (outcome != SEQUENCE_DONE) {
		sequence->output = child->output;
		sequence->move.note = child->move.note;
		sequence->pause = child->pause;
		sequence->reply.outside = child->reply.outside;
		return outcome;
	}
	require(child->output.length >= FRAME_HEADER_LENGTH);
	buffer_append(&frame, child->output.data, child->output.length);
	packet_fini(&bulk->packet);
	packet_read_reply(&bulk->packet, &frame);
	end_child(sequence);
	return SEQUENCE_DONE;
}

static enum sequence_outcome send_run(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	const struct bulk_command command = {.run = bulk->run,
					     .time_left = sequence_time_left(sequence, input),
					     .request_id = sequence->next_request_id++,
					     .begun = sequence->begun};
	const struct sequence_input first = {.now = input->now,
					     .memory_short = input->memory_short};
	struct buffer frame = {0};
	struct match match;

	bulk_write_command(&bulk->bulk, &sequence->match.command, &command, &frame);
	packet_fini(&bulk->packet);
	packet_read(&bulk->packet, &frame);
	match_packet(sequence->match.cache, &bulk->packet, &match);
	if (match.verdict == VERDICT_FORWARD) {
		sequence->output = buffer_view(&bulk->packet.raw);
		return SEQUENCE_SEND;
	}
	bulk->child = sequence_new(&bulk->packet, &match);
	bulk->child->begun = sequence->begun;
	return resume_child(sequence, &first);
}

/* ---- a run that failed as a whole ---- */

static bool has_labels(struct bytes body)
{
	struct element labels;

	return document_find(body, "errorLabels", &labels);
}

/* Where nothing was applied, the client sends the whole again, or mongod would end it, the error is
 * the bulkWrite's. Else it is that of the run's ops: what has been done must be told. */
static bool take_failure(struct sequence *sequence, enum sequence_outcome *outcome)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	struct packet *reply = &bulk->packet;
	bool applied = bulk_reply_applied(&bulk->reply);
	struct bytes text = reply->summary.message;

	if (!applied || sequence_ends_all(reply->summary.code) || has_labels(reply->message.body) ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT)) {
		*outcome = sequence_pass_relabelled(sequence, reply, NULL,
						    applied ? "NoWritesPerformed" : NULL);
		return false;
	}
	if (!text.data)
		text = bytes_of("the command failed");
	bulk_reply_add_failure(&bulk->reply, &bulk->bulk, bulk->run, (int32_t)reply->summary.code,
			       text);
	return true;
}

/* The run's reply. False with the outcome where it is the end of all. */
static bool take_reply(struct sequence *sequence, enum sequence_outcome *outcome)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	struct packet *reply = &bulk->packet;

	if (reply->summary.readable && !reply->summary.ok)
		return take_failure(sequence, outcome);
	if (reply->summary.ok && bulk_reply_add(&bulk->reply, &bulk->bulk, bulk->run, reply))
		return true;
	*outcome = sequence_pass(sequence, reply);
	return false;
}

/* ---- the story ---- */

static enum sequence_outcome answer(struct sequence *sequence, const struct bulk_cursor *cursor)
{
	struct sequence_bulk *bulk = bulk_of(sequence);

	sequence->output = (struct bytes){0};
	if (!sequence->match.facts.answered)
		return SEQUENCE_DONE;
	if (!bulk->reply.some) {
		bulk->reply.last = packet_steal(&bulk->rejected.lender);
		bulk->reply.some = true;
	}
	sequence->buffer.length = 0;
	bulk_reply_append(&bulk->reply, &bulk->bulk, cursor, &sequence->buffer,
			  sequence->request.header.request_id);
	sequence->output = buffer_view(&sequence->buffer);
	return SEQUENCE_DONE;
}

/* All is written. Results behind the first batch wait in a cursor of the server's: an aggregate
 * over constants. */
static enum sequence_outcome finish(struct sequence *sequence)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	struct bytes rest = bulk_reply_rest(&bulk->reply, &bulk->bulk);
	size_t body;

	if (!sequence->match.facts.answered || rest.length == 0 || rest.length > REMAINDER_LIMIT)
		return answer(sequence, NULL);
	sequence->step = BULK_KEPT;
	body = sequence_begin_command(sequence);
	bulk_reply_write_rest(&sequence->buffer, rest);
	writer_string(&sequence->buffer, "$db", sequence->match.namespace->database);
	sequence_write_cursor_fields(sequence);
	return sequence_send_command(sequence, body);
}

/* The writes are done whatever the server says: without a cursor the client gets all results at
 * once. */
static enum sequence_outcome take_kept(struct sequence *sequence, const struct packet *reply)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	struct bulk_cursor cursor = {.rest = bulk_reply_rest(&bulk->reply, &bulk->bulk)};
	struct bytes made = reply->summary.cursor;
	bool kept = reply->summary.ok && made.length > 0 && document_find(made, "id", &cursor.id) &&
		    document_find(made, "ns", &cursor.ns);

	return answer(sequence, kept ? &cursor : NULL);
}

static bool is_over(struct sequence_bulk *bulk)
{
	static const char limit[] = "BulkWrite response size exceeded limit (16777216 bytes)";
	size_t next = bulk->run.first + bulk->run.count;

	if (next == bulk->bulk.count || (bulk->bulk.stops && bulk->reply.errors > 0))
		return true;
	if (bulk->reply.items.length < BULK_REPLY_ITEMS_MAX)
		return false;
	bulk_reply_add_failure(&bulk->reply, &bulk->bulk, (struct bulk_run){next, 1},
			       ERROR_EXCEEDED_MEMORY_LIMIT, bytes_of(limit));
	return true;
}

/* The next run, up to an op that mongod refuses. True if it is such an op: its result is there. */
static bool take_rejected(struct sequence_bulk *bulk)
{
	size_t first = bulk->run.first + bulk->run.count, count = 0;
	struct bytes text;
	int32_t code;

	if (refused_statements_find(&bulk->rejected, first, &code, &text)) {
		bulk->run = (struct bulk_run){first, 1};
		bulk_reply_add_failure(&bulk->reply, &bulk->bulk, bulk->run, code, text);
		return true;
	}
	bulk->run = bulk_write_run(&bulk->bulk, first);
	while (count < bulk->run.count &&
	       !refused_statements_find(&bulk->rejected, first + count, &code, &text))
		count++;
	bulk->run.count = count;
	return false;
}

static enum sequence_outcome go_on(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	enum sequence_outcome outcome;

	while (!is_over(bulk)) {
		if (sequence_time_left(sequence, input) == 0)
			return sequence_fail(sequence, ERROR_MAX_TIME_EXPIRED,
					     "operation exceeded time limit", NULL);
		if (take_rejected(bulk))
			continue;
		outcome = send_run(sequence, input);
		if (outcome != SEQUENCE_DONE || !take_reply(sequence, &outcome))
			return outcome;
	}
	return finish(sequence);
}

/* The run as a command of its own is longer than in the client's. In a transaction the error ends
 * all, as in take_failure. */
static enum sequence_outcome fail_run(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_bulk *bulk = bulk_of(sequence);

	if (!bulk_reply_applied(&bulk->reply) ||
	    command_has(&sequence->match.command, FIELD_AUTOCOMMIT))
		return sequence_fail(sequence, ERROR_OBJECT_TOO_LARGE, SEQUENCE_OUTGROWN, NULL);
	bulk_reply_add_failure(&bulk->reply, &bulk->bulk, bulk->run, ERROR_OBJECT_TOO_LARGE,
			       bytes_of(SEQUENCE_OUTGROWN));
	return go_on(sequence, input);
}

/* ---- ops that can't be served, but for mongod's error ---- */

/* As a command of its own the op is refused: its sequence asks mongod, and changes nothing. */
static bool is_refused_alone(struct sequence *sequence, size_t index, struct match *match)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	const struct bulk_command command = {
		.run = {index, 1}, .time_left = -1, .request_id = sequence->next_request_id};
	struct buffer frame = {0};

	bulk_write_command(&bulk->bulk, &sequence->match.command, &command, &frame);
	packet_fini(&bulk->packet);
	packet_read(&bulk->packet, &frame);
	match_packet(sequence->match.cache, &bulk->packet, match);
	if (match->verdict == VERDICT_WRITE)
		match_refuse_unserved(&bulk->packet, match);
	return match->verdict == VERDICT_REFUSE;
}

static enum sequence_outcome refuse_all(struct sequence *sequence)
{
	return sequence_fail(sequence, sequence->match.refusal.code,
			     sequence->match.refusal.message, NULL);
}

/* What the op's sequence has answered. False: nothing of the bulkWrite can be done. */
static bool take_judgement(struct sequence_bulk *bulk)
{
	const struct reply_summary *summary = &bulk->packet.summary;
	struct element error;
	struct cursor cursor;

	if (!summary->ok || summary->write_errors.length == 0 ||
	    !cursor_open(&cursor, summary->write_errors) ||
	    cursor_next(&cursor, &error) != CURSOR_ELEMENT || error.type != BSON_BYTE_DOCUMENT)
		return false;
	refused_statements_add(&bulk->rejected, error.value);
	packet_fini(&bulk->rejected.lender);
	bulk->rejected.lender = packet_steal(&bulk->packet);
	bulk->rejected.judged = bulk->bulk.stops ? bulk->bulk.count : bulk->rejected.judged + 1;
	return true;
}

static enum sequence_outcome judge_ops(struct sequence *sequence,
				       const struct sequence_input *input)
{
	const struct sequence_input first = {.now = input->now,
					     .memory_short = input->memory_short};
	struct sequence_bulk *bulk = bulk_of(sequence);
	struct refused_statements *rejected = &bulk->rejected;
	enum sequence_outcome outcome;
	struct match match;

	if (bulk->bulk.count > REFUSED_STATEMENTS_BYTES / sequence->match.command.body.length)
		return refuse_all(sequence);
	for (; rejected->judged < bulk->bulk.count; rejected->judged++) {
		if (!is_refused_alone(sequence, rejected->judged, &match))
			continue;
		if (rejected->questions++ == REFUSED_STATEMENTS_MOST)
			return refuse_all(sequence);
		sequence->step = BULK_JUDGED;
		bulk->child = sequence_new(&bulk->packet, &match);
		outcome = resume_child(sequence, &first);
		if (outcome != SEQUENCE_DONE)
			return outcome;
		return sequence_pass(sequence, &bulk->packet); /* without asking mongod */
	}
	sequence->step = BULK_RUNS;
	return go_on(sequence, input);
}

static enum sequence_outcome judge_on(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	enum sequence_outcome outcome = resume_child(sequence, input);

	if (outcome != SEQUENCE_DONE)
		return outcome;
	return take_judgement(bulk) ? judge_ops(sequence, input)
				    : sequence_pass(sequence, &bulk->packet);
}

/* It was read when it was matched; nothing of it was refused but what mongod is asked about. */
static enum sequence_outcome begin(struct sequence *sequence, const struct sequence_input *input)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	struct bulk_problem problem;

	sequence->step = BULK_RUNS;
	require(bulk_write_parse(&bulk->bulk, &sequence->request, &sequence->match.command,
				 &problem));
	return sequence->match.refuses ? judge_ops(sequence, input) : go_on(sequence, input);
}

static enum sequence_outcome take_step(struct sequence *sequence,
				       const struct sequence_input *input)
{
	struct sequence_bulk *bulk = bulk_of(sequence);
	enum sequence_outcome outcome;

	if (bulk->child) {
		outcome = resume_child(sequence, input);
		if (outcome != SEQUENCE_DONE)
			return outcome;
	} else {
		packet_fini(&bulk->packet);
		bulk->packet = packet_steal(input->reply);
	}
	return take_reply(sequence, &outcome) ? go_on(sequence, input) : outcome;
}

static enum sequence_outcome bulk_resume(struct sequence *sequence,
					 const struct sequence_input *input)
{
	switch ((enum bulk_step)sequence->step) {
	case BULK_BEGIN:
		return begin(sequence, input);
	case BULK_JUDGED:
		return judge_on(sequence, input);
	case BULK_RUNS:
		return take_step(sequence, input);
	case BULK_KEPT:
		return take_kept(sequence, input->reply);
	}
	require(!"a step of another sequence");
}

static void bulk_fini(struct sequence *sequence)
{
	struct sequence_bulk *bulk = bulk_of(sequence);

	sequence_free(bulk->child);
	packet_fini(&bulk->packet);
	bulk_write_fini(&bulk->bulk);
	bulk_reply_fini(&bulk->reply);
	refused_statements_fini(&bulk->rejected);
	buffer_fini(&bulk->notes);
	buffer_fini(&bulk->kept);
}

static size_t bulk_memory(const struct sequence *sequence)
{
	const struct sequence_bulk *bulk = const_bulk_of(sequence);

	return bulk->bulk.count * sizeof(*bulk->bulk.ops) + bulk->reply.items.capacity +
	       bulk->packet.raw.capacity + bulk->notes.capacity + bulk->kept.capacity +
	       (bulk->child ? sequence_memory(bulk->child) : 0);
}

struct sequence *sequence_bulk_write_new(void)
{
	struct sequence_bulk *bulk = must_calloc(1, sizeof(*bulk));

	bulk->sequence.resume = bulk_resume;
	bulk->sequence.notes = bulk_notes;
	bulk->sequence.fini = bulk_fini;
	bulk->sequence.outgrown = fail_run;
	bulk->sequence.memory = bulk_memory;
	return &bulk->sequence;
}
