/* Drives the running sequence: all asynchrony of a rewrite is here. */
#include "proxy/client/session.h"

#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "rules/read/plain_find.h"

#include <stdio.h>
#include <stdlib.h>

#define COMMAND_NAME_AT \
	((size_t)26) /* in a frame that begins with its body: the name, with its NUL */
#define TELL_SKIPPED_MS 60000
#define HEAVY_PAUSE_MS 250 /* two moves or so; no longer, since the mover may have no majority */

struct moved_task {
	struct loop_task task;
	struct session *session;
	bool moved;
};

/* The client's next requests are looked at. */
static void advance_relay(struct session *session)
{
	session_set_state(session, SESSION_RELAYING);
	request_continue(session);
	session_pass_ends(session);
}

/* What waited goes on, if the session is still there. */
static void advance_unpin(struct session *session, bool moved)
{
	session->pinned = false;
	if (session->state == SESSION_CLOSING) {
		session_free_if_gone(session);
		return;
	}
	if (session->sequence)
		session_advance(session, NULL, moved);
	else
		advance_relay(session);
	session_adjust_reading(session);
	if (session->loop->drain_until && session->state == SESSION_RELAYING)
		session_close_if_idle(session);
}

/* In the loop's own thread again. */
static void advance_on_moved(struct loop *loop, struct loop_task *task)
{
	struct moved_task *done = (struct moved_task *)(void *)task;
	struct session *session = done->session;
	bool moved = done->moved;

	(void)loop;
	free(done);
	advance_unpin(session, moved);
}

/* In a mover's thread. */
static void advance_on_mover_done(void *context, bool moved)
{
	struct moved_task *task = context;

	task->moved = moved;
	loop_post(task->session->loop, &task->task);
}

/* For the log of slow operations. */
static void advance_trace(struct session *session, struct bytes name)
{
	struct sequence_trace *trace = &session->sequence->trace;
	unsigned place = trace->count++;

	if (place >= SEQUENCE_STEPS)
		return;
	trace->steps[place].at = (uint32_t)(trace->resumed - trace->started);
	memcpy(trace->steps[place].name, name.data,
	       least(name.length, sizeof(trace->steps[place].name) - 1));
}

/* A frame of Spillway's own begins with its body, and that with the command's name. */
static void advance_trace_sent(struct session *session, struct bytes output)
{
	struct bytes name = session->sequence->match.command.first.name;

	if (!session->rights.question.own_sent)
		name = (struct bytes){output.data + COMMAND_NAME_AT,
				      strnlen((const char *)output.data + COMMAND_NAME_AT,
					      output.length - COMMAND_NAME_AT)};
	advance_trace(session, name);
}

static void advance_move(struct session *session)
{
	struct moved_task *task = must_calloc(1, sizeof(*task));

	advance_trace(session, bytes_of("move"));
	task->task.run = advance_on_moved;
	task->session = session;
	session->pinned = true;
	mover_move_now(session->loop->service->mover, &session->sequence->move.note,
		       advance_on_mover_done, task);
}

/* The same callbacks: what became of it doesn't matter to the client. */
static void advance_tend(struct session *session)
{
	const struct sequence *sequence = session->sequence;
	struct moved_task *task = must_calloc(1, sizeof(*task));

	advance_trace(session, bytes_of("tend"));
	task->task.run = advance_on_moved;
	task->session = session;
	session->pinned = true;
	mover_tend(session->loop->service->mover, &sequence->move.note, sequence->match.tending,
		   advance_on_mover_done, task);
}

struct pause_timer {
	uv_timer_t timer;
	struct session *session;
};

static void advance_on_timer_closed(uv_handle_t *handle)
{
	free(handle);
}

static void advance_on_timer(uv_timer_t *timer)
{
	struct session *session = ((struct pause_timer *)(void *)timer)->session;

	uv_close((uv_handle_t *)timer, advance_on_timer_closed);
	advance_unpin(session, false);
}

static void advance_pause(struct session *session, uint64_t milliseconds)
{
	struct pause_timer *pause = must_calloc(1, sizeof(*pause));

	pause->session = session;
	session->pinned = true;
	uv_timer_init(&session->loop->uv, &pause->timer);
	uv_timer_start(&pause->timer, advance_on_timer, milliseconds, 0);
}

/* Who pushes faster than the mover moves has its reply, and pauses before its next request is read:
 * the document would come to 16 MB. Not in a transaction, for whose end the mover waits. */
static void advance_take_note(void *context, const struct mover_note *note)
{
	struct session *session = context;
	bool heavy = mover_note(session->loop->service->mover, note);

	if (heavy && !session->pinned &&
	    !command_has(&session->sequence->match.command, FIELD_AUTOCOMMIT))
		advance_pause(session, HEAVY_PAUSE_MS);
}

/* Names one a minute, so that nobody is kept from the rest of the log. */
static void advance_tell_skipped(const struct session *session, const char *message)
{
	const struct ruled_namespace *namespace = session->sequence->match.namespace;
	static _Atomic int64_t next;
	int64_t now = clock_now(), due = atomic_load(&next);

	if (now < due || !atomic_compare_exchange_strong(&next, &due, now + TELL_SKIPPED_MS))
		return;
	log_warning("3003 rule '%s' on '%s.%s': a read left out a damaged document (damaged: "
		    "skip): %s; "
		    "run 'spillway verify'",
		    namespace->targets[0].rule->name, namespace->database, namespace->collection,
		    message);
}

static void advance_count(struct session *session)
{
	const struct sequence_counts *counts = &session->sequence->counts;
	struct metrics *metrics = session->loop->metrics;

	metric_add(&metrics->merged_documents, counts->merged);
	metric_add(&metrics->merge_repeats, counts->repeats);
	metric_add(&metrics->damaged_skipped, counts->skipped);
	if (counts->skipped_one)
		advance_tell_skipped(session, counts->skipped_one);
	metric_add(&metrics->overflow_fetches, counts->fetches);
	if (counts->fetches > 0)
		metric_add(&metrics->overflow_fetch_microseconds, counts->fetch_microseconds);
}

/* An error of ours that was found on the way is answered. (What the match refuses is counted as it
 * comes.) */
static void advance_count_refusal(struct session *session)
{
	const struct sequence *sequence = session->sequence;
	const struct match *match = &sequence->match;
	struct session_refusal refusal = {.code = sequence->end.code};
	struct bytes name = match->command.first.name;
	char what[64];

	if (!sequence->end.code || match->verdict == VERDICT_REFUSE)
		return;
	snprintf(what, sizeof(what), "%.*s: %s", (int)name.length, (const char *)name.data,
		 error_name(sequence->end.code));
	metric_add(&session->loop->metrics->commands_refused, 1);
	refusal.rule = match->namespace ? match->namespace->targets[0].rule->name : "";
	refusal.what = what;
	metrics_refused(refusal.rule, what);
	session_tell_refusal(session, match, &refusal);
}

/* A collection may have changed, or be another one now. */
static void advance_recheck(struct mover *mover, const struct match *match)
{
	const struct ruled_namespace *namespace = match->namespace, *onto = match->onto;

	if (!namespace) {
		mover_recheck_gone(mover, match->command.database, (struct bytes){0});
		return;
	}
	if (match->tending == MOVER_TEND_GONE)
		mover_recheck_gone(mover, bytes_of(namespace->database),
				   bytes_of(namespace->collection));
	else
		mover_recheck(mover, bytes_of(namespace->database),
			      bytes_of(namespace->collection));
	if (onto)
		mover_recheck(mover, bytes_of(onto->database), bytes_of(onto->collection));
}

static void advance_pass_note(void *context, const struct mover_note *note)
{
	mover_note(context, note);
}

/* Of a stranger's command nothing has come about that anybody would have to look at. */
static bool advance_leaves_notes(const struct session *session)
{
	return session_is_accepted(session, session->sequence->match.namespace);
}

void session_cut_sequence(struct session *session)
{
	if (session->sequence && advance_leaves_notes(session))
		sequence_cut(session->sequence, advance_pass_note, session->loop->service->mover);
}

static bool advance_knows_rights(const struct session *session)
{
	const struct ruled_namespace *namespace = session->sequence->match.namespace;

	for (size_t i = 0; namespace && i < SESSION_READABLE; i++)
		if (session->rights.readable[i] == namespace->serial)
			return true;
	return !session->rights.signed_in;
}

static void advance_learn_rights(struct session *session)
{
	session->rights.readable[session->rights.readable_next++ % SESSION_READABLE] =
		session->sequence->match.namespace->serial;
}

/* The sequence is over: what it leaves for the mover is noted. */
static void advance_finish(struct session *session)
{
	struct sequence *sequence = session->sequence;
	const struct match *match = &sequence->match;

	if (advance_leaves_notes(session)) {
		sequence_notes(sequence, advance_take_note, session);
		if (match->changes_fitness && !sequence->permission.denied)
			advance_recheck(session->loop->service->mover, match);
	}
	if (sequence->permission.proven)
		advance_learn_rights(session);
	advance_count(session);
	session_measure(session);
	session->next_request_id = sequence->next_request_id;
	session->sequence = NULL;
	sequence_free(sequence);
}

static void advance_end(struct session *session)
{
	advance_finish(session);
	if (!session->pinned)
		advance_relay(session);
}

/* The client's reply goes out compressed if its request came so; what is the server's own frame
 * goes as it is. */
static void advance_answer(struct session *session, const struct packet *request)
{
	struct sequence *sequence = session->sequence;
	auto_buffer struct buffer packed = {0};
	bool ours = sequence->output.length > 0 && sequence->output.data == sequence->buffer.data;

	if (ours && packet_compressed(request))
		compressed_pack(sequence->output, request->compressor, &packed);
	if (packed.length > 0) {
		stream_write_owned(&session->client, &packed);
	} else if (ours) {
		stream_write_owned(&session->client, &sequence->buffer);
	} else {
		stream_write(&session->client, sequence->output);
	}
}

/* A client that has gone, or a Spillway that is to end, gets no more of a stream than this part. */
static bool advance_may_stream(const struct session *session)
{
	return !session->loop->drain_until && !stream_has_ended(&session->client);
}

/* The last answer of the sequence. Where the client streams its cursor, the next getMore follows by
 * itself; its reply is not read before the client has taken what was sent. */
static void advance_done(struct session *session)
{
	struct packet next;

	advance_count_refusal(session);
	if (!advance_may_stream(session) || !sequence_streams(session->sequence, &next)) {
		advance_answer(session, &session->sequence->request);
		advance_end(session);
		return;
	}
	advance_answer(session, &next);
	advance_finish(session);
	session_set_state(session, SESSION_RELAYING);
	request_again(session, &next);
}

static void advance_send(struct session *session, bool answered)
{
	struct bytes output = session->sequence->output;

	require(output.length > COMMAND_NAME_AT ||
		output.data == session->sequence->request.raw.data);
	session->rights.question.own_sent = output.data == session->sequence->request.raw.data;
	advance_trace_sent(session, output);
	if (answered)
		pending_push(&session->pending,
			     (struct pending_entry){.request_id = load_int32(output.data + 4),
						    .kind = PENDING_SEQUENCE});
	stream_write(&session->server, output);
}

/* A driver that loses its connection tries a retryable write again by another one. What would still
 * be done here might come behind what that was answered, and mongod knows attempts apart only if
 * the first to come changed something. */
static bool advance_is_orphan(const struct session *session)
{
	const struct command *command = &session->sequence->match.command;

	return command_has(command, FIELD_TXN_NUMBER) && !command_has(command, FIELD_AUTOCOMMIT) &&
	       stream_has_ended(&session->client);
}

/* What it had to know is known now. */
static void advance_again(struct session *session)
{
	struct sequence *sequence = session->sequence;
	struct packet request = packet_steal(&sequence->request);

	session->next_request_id = sequence->next_request_id;
	session->sequence = NULL;
	sequence_free(sequence);
	session_set_state(session, SESSION_RELAYING);
	request_again(session, &request);
	request_continue(session);
	session_pass_ends(session);
}

/* Does what the sequence wants next. */
static void advance_by(struct session *session, enum sequence_outcome outcome, bool begins)
{
	switch (outcome) {
	case SEQUENCE_SEND:
		if (!begins && advance_is_orphan(session))
			session_close(session, SESSION_END_DONE);
		else
			advance_send(session, true);
		break;
	case SEQUENCE_SEND_LAST:
		advance_send(session, false);
		advance_end(session);
		break;
	case SEQUENCE_MOVE:
		advance_move(session);
		break;
	case SEQUENCE_TEND:
		advance_tend(session);
		break;
	case SEQUENCE_PAUSE:
		advance_trace(session, bytes_of("pause"));
		advance_pause(session, session->sequence->pause);
		break;
	case SEQUENCE_AGAIN:
		advance_again(session);
		break;
	case SEQUENCE_DONE:
		if (!session_asks_last(session))
			advance_done(session);
		break;
	}
}

/* mongod has said whether the client may run its command. */
static void advance_take_rights(struct session *session, struct packet *reply)
{
	const struct sequence_input input = {.now = uv_hrtime() / 1000};
	bool first = session->rights.question.first;

	if (session_take_answer(session, reply) == RIGHTS_ANSWER || !first)
		advance_done(session);
	else
		advance_by(session, sequence_resume(session->sequence, &input), false);
}

/* While the system gives no memory, the ballast is for the step under way. A read of arrays gives
 * up by itself. What else has begun ends as if the client's connection were lost. */
static bool advance_starves(struct session *session, bool begins)
{
	struct sequence *sequence = session->sequence;
	enum match_verdict verdict = sequence->match.verdict;

	if (verdict == VERDICT_READ || verdict == VERDICT_REFUSE || !session_system_short())
		return false;
	if (begins)
		advance_by(session, sequence_give_up(sequence), begins);
	else
		session_starve(session);
	return true;
}

void session_advance(struct session *session, struct packet *reply, bool moved)
{
	struct sequence_input input = {reply, moved, false, uv_hrtime() / 1000};
	bool begins;

	if (!session->sequence)
		return;
	if (session->rights.question.open) {
		if (reply)
			advance_take_rights(session, reply);
		return;
	}
	begins = session->sequence->next_request_id == 0;
	if (begins) {
		session->sequence->next_request_id = session->next_request_id;
		session->sequence->permission.unproven = !advance_knows_rights(session);
	}
	if (advance_starves(session, begins))
		return;
	if (begins) {
		if (session_asks_first(session))
			return;
	}
	if (reply)
		session_note_reply(session, reply);
	session_account(session);
	input.memory_short = session_gives_up(session);
	advance_by(session, sequence_resume(session->sequence, &input), begins);
}

void session_give_up(struct session *session)
{
	struct sequence_input input = {.memory_short = true, .now = uv_hrtime() / 1000};

	advance_by(session, sequence_resume(session->sequence, &input), false);
}

void session_leave_find(struct session *session)
{
	namespace_release(session->find.namespace);
	session->find.namespace = NULL;
}

must_check bool session_answer_find(struct session *session, struct bytes reply)
{
	if (!plain_find_passes(session->find.namespace, reply))
		return false;
	buffer_fini(&session->find.request);
	session_accept(session, session->find.namespace);
	session_measure_find(session);
	session_leave_find(session);
	stream_write(&session->client, reply);
	advance_relay(session);
	return true;
}

/* What its first step wants to send has been sent. */
void session_advance_find(struct session *session, struct packet *reply)
{
	struct sequence_input input = {.now = session->find.asked * 1000};
	struct packet request;

	packet_read(&request, &session->find.request);
	session->sequence = sequence_new_plain_find(&request, session->find.namespace);
	session->sequence->next_request_id = session->next_request_id;
	session->sequence->touched = true;
	session->rights.question = (struct rights_question){
		.tries = !session_is_accepted(session, session->find.namespace), .own_sent = true};
	session_leave_find(session);
	require(sequence_resume(session->sequence, &input) == SEQUENCE_SEND);
	advance_trace(session, bytes_of("find"));
	session_advance(session, reply, false);
}
