/* Drives the running sequence: all asynchrony of a rewrite is here. */
#include "proxy/client/session_aside.h"

#include <stdlib.h>

#define COMMAND_NAME_AT \
	((size_t)26) /* in a frame that begins with its body: the name, with its NUL */

struct moved_task {
	struct loop_task task;
	struct session *session;
	bool moved;
};

void session_next_request(struct session *session)
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
		session_next_request(session);
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

	if (!session_ruled(session)->question.own_sent)
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

void session_pause(struct session *session, uint64_t milliseconds)
{
	struct pause_timer *pause = must_calloc(1, sizeof(*pause));

	pause->session = session;
	session->pinned = true;
	uv_timer_init(&session->loop->uv, &pause->timer);
	uv_timer_start(&pause->timer, advance_on_timer, milliseconds, 0);
}

static bool advance_knows_rights(struct session *session)
{
	const struct ruled_namespace *namespace = session->sequence->match.namespace;
	const struct session_ruled *ruled = session_ruled(session);

	for (size_t i = 0; namespace && i < SESSION_READABLE; i++)
		if (ruled->readable[i] == namespace->serial)
			return true;
	return !session->rights.signed_in;
}

/* `copy` of what goes out, which has been made already, or NULL. */
static void advance_send(struct session *session, struct buffer *copy, bool answered)
{
	struct bytes output = session->sequence->output;

	require(output.length > COMMAND_NAME_AT ||
		output.data == session->sequence->request.raw.data);
	session_ruled(session)->question.own_sent =
		output.data == session->sequence->request.raw.data;
	advance_trace_sent(session, output);
	if (answered)
		pending_push(&session->pending,
			     (struct pending_entry){.request_id = load_int32(output.data + 4),
						    .kind = PENDING_SEQUENCE});
	if (copy && copy->length > 0)
		stream_write_owned(&session->server, copy);
	else
		stream_write(&session->server, output);
}

void session_send(struct session *session)
{
	advance_send(session, NULL, true);
}

/* A driver that loses its connection tries a retryable write again by another one. What would still
 * be done here might come behind what that was answered, and mongod knows attempts apart only if
 * the first to come changed something. (A transaction of Spillway's own changes nothing that
 * shows.) */
static bool advance_is_orphan(const struct session *session)
{
	const struct command *command = &session->sequence->match.command;

	return command_has(command, FIELD_TXN_NUMBER) && !command_has(command, FIELD_AUTOCOMMIT) &&
	       !session->sequence->end.holds && stream_has_ended(&session->client);
}

/* What it had to know is known now. */
static void advance_again(struct session *session)
{
	struct sequence *sequence = session->sequence;
	struct packet request = packet_steal(&sequence->request);
	enum command_kind kind = sequence->match.command.kind;

	session->next_request_id = sequence->next_request_id;
	session->sequence = NULL;
	sequence_free(sequence);
	session_set_state(session, SESSION_RELAYING);
	request_again(session, &request, kind);
	request_continue(session);
	session_pass_ends(session);
}

/* Does what the sequence wants next. `copy`: see advance_send. */
static void advance_by(struct session *session, enum sequence_outcome outcome, bool begins,
		       struct buffer *copy)
{
	switch (outcome) {
	case SEQUENCE_SEND:
		if (!begins && advance_is_orphan(session))
			session_close(session, SESSION_END_DONE);
		else
			advance_send(session, copy, true);
		break;
	case SEQUENCE_SEND_LAST:
		advance_send(session, copy, false);
		session_end_sequence(session);
		break;
	case SEQUENCE_MOVE:
		advance_move(session);
		break;
	case SEQUENCE_TEND:
		advance_tend(session);
		break;
	case SEQUENCE_PAUSE:
		advance_trace(session, bytes_of("pause"));
		session_pause(session, session->sequence->pause);
		break;
	case SEQUENCE_AGAIN:
		advance_again(session);
		break;
	case SEQUENCE_DONE:
		if (!session_asks_last(session))
			session_finish(session);
		break;
	}
}

/* What goes out is copied here, where the time for that is nobody's. Without memory for the copy
 * the stream makes its own. */
static void advance_work(struct session_work *work)
{
	struct sequence *sequence = work->sequence;

	if (work->input.reply)
		work->input.reply = &work->packet;
	work->outcome = sequence_resume(sequence, &work->input);
	packet_fini(&work->packet);
	if ((work->outcome == SEQUENCE_SEND || work->outcome == SEQUENCE_SEND_LAST) &&
	    sequence->output.length >= ASIDE_REQUEST)
		(void)!buffer_try_append(&work->bytes, sequence->output);
}

static void advance_worked(struct session *session, struct session_work *work)
{
	advance_by(session, work->outcome, work->flag, &work->bytes);
}

static void advance_give(struct session *session, const struct sequence_input *input, bool begins)
{
	static const struct session_task task = {advance_work, advance_worked};
	struct session_work work = {.facts = session_facts(session),
				    .namespaces = session->sequence->match.cache,
				    .input = *input,
				    .flag = begins};

	if (input->reply)
		work.packet = packet_steal(input->reply);
	session_give_work(session, &task, &work);
}

static void advance_step(struct session *session, const struct sequence_input *input, bool begins)
{
	struct sequence *sequence = session->sequence;

	if (session_is_long_step(sequence, input->reply))
		advance_give(session, input, begins);
	else
		advance_by(session, sequence_resume(sequence, input), begins, NULL);
}

/* mongod has said whether the client may run its command. */
static void advance_take_rights(struct session *session, struct packet *reply)
{
	const struct sequence_input input = {.now = uv_hrtime() / 1000};
	enum rights_answer answer = session_take_answer(session, reply);

	if (answer == RIGHTS_PASS)
		session_pass_answer(session, reply);
	else if (answer == RIGHTS_ANSWER || !session_ruled(session)->question.first)
		session_finish(session);
	else
		advance_step(session, &input, false);
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
		advance_by(session, sequence_give_up(sequence), begins, NULL);
	else
		session_starve(session);
	return true;
}

static void advance_with_memory(struct session *session, struct sequence_input *input, bool begins)
{
	session_account(session);
	input->memory_short = session_gives_up(session);
	advance_step(session, input, begins);
}

void session_begin_sequence(struct session *session)
{
	struct sequence_input input = {.now = uv_hrtime() / 1000};

	advance_with_memory(session, &input, true);
}

void session_advance(struct session *session, struct packet *reply, bool moved)
{
	struct sequence_input input = {reply, moved, false, uv_hrtime() / 1000};
	bool begins;

	if (!session->sequence)
		return;
	if (session_ruled(session)->question.open) {
		if (reply)
			advance_take_rights(session, reply);
		return;
	}
	begins = session->sequence->next_request_id == 0;
	if (begins) {
		session->sequence->next_request_id = session->next_request_id;
		session->sequence->end.own = session_ruled(session)->own;
		session->sequence->permission.unproven = !advance_knows_rights(session);
	}
	if (advance_starves(session, begins))
		return;
	if (begins && session_asks_first(session))
		return;
	if (reply)
		session_note_reply(session, reply);
	advance_with_memory(session, &input, begins);
}

void session_give_up(struct session *session)
{
	struct sequence_input input = {.memory_short = true, .now = uv_hrtime() / 1000};

	advance_by(session, sequence_resume(session->sequence, &input), false, NULL);
}

void session_leave_find(struct session *session)
{
	struct session_find *find = &session_ruled(session)->find;

	namespace_release(find->namespace);
	find->namespace = NULL;
}

void session_end_find(struct session *session)
{
	struct session_find *find = &session_ruled(session)->find;

	buffer_fini(&session->loop->find);
	find->request.length = 0;
	session->loop->find = buffer_steal(&find->request);
	session_accept(session, find->namespace);
	session_measure_find(session);
	session_leave_find(session);
}

/* What its first step wants to send has been sent. */
void session_advance_find(struct session *session, struct packet *reply)
{
	struct session_ruled *ruled = session_ruled(session);
	struct sequence_input input = {.now = ruled->find.asked * 1000};
	struct packet request;

	packet_read(&request, &ruled->find.request);
	session->sequence = sequence_new_plain_find(&request, ruled->find.namespace);
	session->sequence->next_request_id = session->next_request_id;
	session->sequence->touched = true;
	ruled->question = (struct rights_question){
		.tries = !session_is_accepted(session, ruled->find.namespace), .own_sent = true};
	session_leave_find(session);
	require(sequence_resume(session->sequence, &input) == SEQUENCE_SEND);
	advance_trace(session, bytes_of("find"));
	session_advance(session, reply, false);
}
