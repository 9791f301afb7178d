/* What mongod allows a connection's user: nothing is done for a client on a namespace beside its
 * own commands, and nothing is told of the rules there, before mongod has accepted one of them. */
#include "proxy/client/session_aside.h"

#include "protocol/hello.h"
#include "rules/sequence/permission.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what is known ---- */

static uint64_t serial_of(const struct ruled_namespace *namespace)
{
	return namespace ? namespace->serial : 0;
}

static bool is_accepted(const struct accepted *accepted, uint64_t serial)
{
	if (accepted->count > 0 && accepted->last == serial)
		return true;
	for (size_t i = 0; i < accepted->count; i++)
		if (accepted->namespaces[i] == serial)
			return true;
	return false;
}

bool session_is_accepted(const struct session *session, const struct ruled_namespace *namespace)
{
	const struct accepted *accepted = &session->rights.accepted;

	if (accepted->everywhere || (!namespace && accepted->count > 0))
		return true;
	return is_accepted(accepted, serial_of(namespace));
}

static void accepted_put(struct accepted *accepted, uint64_t serial)
{
	size_t most = ACCEPTED_MOST, count = accepted->count;

	if ((count & (count - 1)) == 0 && count < most)
		accepted->namespaces = must_realloc(
			accepted->namespaces, (2 * count + 1) * sizeof(*accepted->namespaces));
	if (count < most)
		accepted->namespaces[accepted->count++] = serial;
	else
		accepted->namespaces[accepted->next++ % most] = serial;
	accepted->last = serial;
}

/* Where nobody has signed in, mongod asks nobody who he is. */
void session_accept(struct session *session, const struct ruled_namespace *namespace)
{
	struct accepted *accepted = &session->rights.accepted;
	uint64_t serial = serial_of(namespace);

	if (accepted->everywhere || (accepted->count > 0 && accepted->last == serial))
		return;
	if (!session->rights.signed_in)
		accepted->everywhere = true;
	else if (!session_is_accepted(session, namespace))
		accepted_put(accepted, serial);
}

void session_forget_rights(struct session *session)
{
	struct accepted *accepted = &session->rights.accepted;

	session->rights.proven = false;
	if (session->ruled)
		memset(session->ruled->readable, 0, sizeof(session->ruled->readable));
	accepted->everywhere = false;
	accepted->count = 0;
	accepted->last = 0;
}

void session_signs_in(struct session *session)
{
	session->rights.signed_in = true;
	session->rights.secret = true;
	session_forget_rights(session);
	if (!session->rights.logged_in && !session_awaits(session, DEADLINE_LOGIN))
		session_await(session, DEADLINE_LOGIN);
}

void session_note_sign_in(struct session *session, struct bytes body)
{
	if (!session->rights.signed_in || !hello_signed_in(body))
		return;
	session->rights.logged_in = session->rights.proven = true;
	atomic_store(&session->loop->service->users, true);
	session_await_no_more(session, DEADLINE_LOGIN);
}

/* ---- what has to be asked ---- */

/* What goes to mongod first is the client's own command, and nothing else happens before its reply.
 */
static bool begins_by_itself(const struct sequence *sequence)
{
	const struct match *match = &sequence->match;

	if (!match->facts.answered || sequence->asks_indexes)
		return false;
	switch (match->verdict) {
	case VERDICT_READ:
		return !command_has(&match->command, FIELD_PROJECTION);
	case VERDICT_STREAM:
		return true;
	case VERDICT_WRITE:
		return !match->edits;
	case VERDICT_WATCH:
		return !match->onto;
	case VERDICT_HIDE: /* or the sequence asks by itself whether the client may drop */
		return true;
	default:
		return false;
	}
}

/* A refusal is no secret where it says nothing of the rules. */
static bool must_ask(const struct session *session)
{
	const struct sequence *sequence = session->sequence;
	const struct match *match = &sequence->match;

	if (session_is_refused(session))
		return false;
	if (match->verdict == VERDICT_REFUSE)
		return !session->rights.accepted.everywhere && match->refusal.rule[0] != '\0' &&
		       match->facts.answered;
	return !session_is_accepted(session, match->namespace) && !begins_by_itself(sequence);
}

static void send_question(struct session *session, struct buffer *frame)
{
	struct rights_question *question = &session_ruled(session)->question;

	question->open = true;
	session->sequence->next_request_id = session->next_request_id;
	pending_push(&session->pending,
		     (struct pending_entry){.request_id = question->text.request_id,
					    .kind = PENDING_SEQUENCE});
	stream_write_owned(&session->server, frame);
}

static void tell_nobody_can_be_asked(struct match *match)
{
	snprintf(match->refusal.message, sizeof(match->refusal.message),
		 "Spillway: the request is not supported, and names nothing that the server could "
		 "be asked about");
}

static void write_question(struct session_work *work)
{
	const struct sequence *sequence = work->sequence;

	work->flag =
		permission_ask(&work->question, &sequence->request, &sequence->match, &work->bytes);
}

static void take_question(struct session *session, struct session_work *work)
{
	struct rights_question *question = &session_ruled(session)->question;

	question->text = work->question;
	if (work->flag) {
		send_question(session, &work->bytes);
	} else if (question->first) {
		tell_nobody_can_be_asked(&session->sequence->match);
		session_begin_sequence(session);
	} else {
		session_finish(session);
	}
}

static void ask_elsewhere(struct session *session)
{
	static const struct session_task task = {write_question, take_question};
	struct session_work work = {.question = session_ruled(session)->question.text};

	session_give_work(session, &task, &work);
}

/* True where mongod is asked. The question of a long request is written elsewhere. */
static bool ask(struct session *session)
{
	const struct sequence *sequence = session->sequence;
	struct rights_question *question = &session_ruled(session)->question;
	auto_buffer struct buffer frame = {0};

	question->asked = true;
	question->text = (struct permission_question){.request_id = session->next_request_id++,
						      .number = PERMISSION_LEAST + arc4random()};
	if (session_is_long_packet(&sequence->request, sequence->match.command.kind)) {
		ask_elsewhere(session);
		return true;
	}
	if (!permission_ask(&question->text, &sequence->request, &sequence->match, &frame))
		return false;
	send_question(session, &frame);
	return true;
}

bool session_asks_first(struct session *session)
{
	struct rights_question *question = &session_ruled(session)->question;
	struct sequence *sequence = session->sequence;

	*question = (struct rights_question){0};
	if (!must_ask(session)) {
		question->tries = !session_is_accepted(session, sequence->match.namespace) ||
				  !sequence->match.namespace;
		return false;
	}
	question->first = true;
	if (ask(session))
		return true;
	tell_nobody_can_be_asked(&sequence->match);
	return false;
}

/* An error of mongod's that another command than the client's own has met, or a refusal. */
static bool is_in_doubt(struct session *session)
{
	const struct sequence *sequence = session->sequence;
	struct bytes output = sequence->output;
	struct element first;
	struct cursor cursor;
	struct bytes body;

	if (sequence->end.code)
		return sequence->end.code == ERROR_COMMAND_NOT_SUPPORTED ||
		       sequence->end.code == ERROR_UNAUTHORIZED;
	return !session_ruled(session)->question.own_sent && message_lone_body(output, &body) &&
	       cursor_open(&cursor, body) && cursor_next(&cursor, &first) == CURSOR_ELEMENT &&
	       element_is(&first, "ok") && !element_truth(&first) &&
	       reply_summarise(body).code == ERROR_UNAUTHORIZED;
}

bool session_asks_last(struct session *session)
{
	/* VERDICT_HIDE: mongod has judged the client's own command already. */
	if (session->sequence->match.verdict == VERDICT_HIDE ||
	    session_ruled(session)->question.asked || session->rights.accepted.everywhere ||
	    session_is_refused(session) || !session->sequence->match.facts.answered ||
	    session->sequence->output.length == 0 || !is_in_doubt(session))
		return false;
	session->sequence->reply.gives_up = false;
	return ask(session);
}

/* ---- what comes back ---- */

/* The first reply to the client's own command. */
void session_note_reply(struct session *session, const struct packet *reply)
{
	struct rights_question *question = &session_ruled(session)->question;

	if (!question->tries)
		return;
	question->tries = false;
	if (reply->summary.ok)
		session_accept(session, session->sequence->match.namespace);
}

static enum sequence_outcome fail_broken(struct sequence *sequence)
{
	return sequence_fail(sequence, ERROR_COMMAND_NOT_SUPPORTED,
			     "Spillway: the server did not say whether this client may run the "
			     "command: it is no mongod, or its reply can't be read",
			     NULL);
}

enum rights_answer session_take_answer(struct session *session, const struct packet *reply)
{
	struct rights_question *question = &session_ruled(session)->question;
	struct sequence *sequence = session->sequence;

	question->open = false;
	switch (permission_told(reply)) {
	case PERMISSION_GIVEN:
		if (question->first && sequence->match.command.kind != COMMAND_GET_MORE)
			session_accept(session, sequence->match.namespace);
		return RIGHTS_GO_ON;
	case PERMISSION_DENIED:
		return RIGHTS_PASS;
	case PERMISSION_OPEN:
		return question->first && question->text.own ? RIGHTS_PASS : RIGHTS_GO_ON;
	case PERMISSION_BROKEN:
		break;
	}
	if (!question->first)
		return RIGHTS_GO_ON;
	fail_broken(sequence);
	return RIGHTS_ANSWER;
}

static void write_answer(struct session_work *work)
{
	permission_pass(&work->question, work->sequence, &work->packet);
}

static void take_answer(struct session *session, struct session_work *work)
{
	(void)work;
	session_finish(session);
}

void session_pass_answer(struct session *session, struct packet *reply)
{
	static const struct session_task task = {write_answer, take_answer};
	struct session_work work = {.question = session_ruled(session)->question.text};

	if (!session_is_long_step(session->sequence, reply)) {
		permission_pass(&work.question, session->sequence, reply);
		session_finish(session);
		return;
	}
	work.packet = packet_steal(reply);
	session_give_work(session, &task, &work);
}
