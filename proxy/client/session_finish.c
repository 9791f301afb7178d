/* What comes behind a sequence's last step: its answer goes to the client, and what it did is
 * counted and noted for the mover. What is long of that is done elsewhere. */
#include "proxy/client/session_aside.h"

#include "proxy/base/clock.h"
#include "proxy/base/log.h"

#include <stdio.h>

#define TELL_SKIPPED_MS 60000
#define HEAVY_PAUSE_MS 250 /* two moves or so; no longer, since the mover may have no majority */

/* Who pushes faster than the mover moves has its reply, and pauses before its next request is read:
 * the document would come to 16 MB. Not in a transaction, for whose end the mover waits. */
static void finish_take_note(void *context, const struct mover_note *note)
{
	struct session *session = context;
	bool heavy = mover_note(session->loop->service->mover, note);

	if (heavy && !session->pinned &&
	    !command_has(&session->sequence->match.command, FIELD_AUTOCOMMIT))
		session_pause(session, HEAVY_PAUSE_MS);
}

/* Names one a minute, so that nobody is kept from the rest of the log. */
static void finish_tell_skipped(const struct session *session, const char *message)
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

static void finish_count(struct session *session)
{
	const struct sequence_counts *counts = &session->sequence->counts;
	struct metrics *metrics = session->loop->metrics;

	metric_add(&metrics->merged_documents, counts->merged);
	metric_add(&metrics->merge_repeats, counts->repeats);
	metric_add(&metrics->damaged_skipped, counts->skipped);
	if (counts->skipped_one)
		finish_tell_skipped(session, counts->skipped_one);
	metric_add(&metrics->overflow_fetches, counts->fetches);
	if (counts->fetches > 0)
		metric_add(&metrics->overflow_fetch_microseconds, counts->fetch_microseconds);
}

static void finish_tell_refusal(struct session *session, const struct session_refusal *refusal)
{
	metric_add(&session->loop->metrics->commands_refused, 1);
	metrics_refused(refusal->rule, refusal->what);
	session_tell_refusal(session, &session->sequence->match, refusal);
}

/* An error of ours is answered: by the match, or found on the way. A refused connection, and a
 * request that there was no memory for, were counted as they came. */
static void finish_count_refusal(struct session *session)
{
	const struct sequence *sequence = session->sequence;
	const struct match *match = &sequence->match;
	const struct match_refusal *refused = &match->refusal;
	struct bytes name = match->command.first.name;
	const char *rule = match->namespace ? match->namespace->targets[0].rule->name : "";
	char what[64];

	if (match->verdict == VERDICT_REFUSE) {
		if (!sequence->end.code)
			metric_add(&session->loop->metrics->commands_sequenced, 1);
		else if (refused->what[0])
			finish_tell_refusal(session,
					    &(struct session_refusal){refused->rule, refused->what,
								      sequence->end.code});
	} else if (sequence->end.code) {
		snprintf(what, sizeof(what), "%.*s: %s", (int)name.length, (const char *)name.data,
			 error_name(sequence->end.code));
		finish_tell_refusal(session,
				    &(struct session_refusal){rule, what, sequence->end.code});
	}
}

/* A collection may have changed, or be another one now. */
static void finish_recheck(struct mover *mover, const struct match *match)
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

static void finish_pass_note(void *context, const struct mover_note *note)
{
	mover_note(context, note);
}

/* Of a stranger's command nothing has come about that anybody would have to look at. */
static bool finish_leaves_notes(const struct session *session)
{
	return session_is_accepted(session, session->sequence->match.namespace);
}

/* A long command may have as many. Of any other what is held is freed at once: the client may have
 * its answer, and what it asks next must not meet a lack of memory. */
static bool finish_has_many_notes(const struct session *session)
{
	const struct sequence *sequence = session->sequence;

	return sequence->notes &&
	       session_is_long_packet(&sequence->request, sequence->match.command.kind);
}

static void finish_cut(struct session_work *work)
{
	sequence_cut(work->sequence, finish_pass_note, work->facts.mover);
	sequence_free(work->sequence);
	work->sequence = NULL;
}

static void finish_cut_elsewhere(struct session *session)
{
	static const struct session_task task = {finish_cut, NULL};
	struct session_work work = {.facts = session_facts(session),
				    .namespaces = session->sequence->match.cache};

	session_give_work(session, &task, &work);
}

void session_cut_sequence(struct session *session)
{
	if (!session->sequence || !finish_leaves_notes(session))
		return;
	if (finish_has_many_notes(session))
		finish_cut_elsewhere(session);
	else
		sequence_cut(session->sequence, finish_pass_note, session->loop->service->mover);
}

static void finish_learn_rights(struct session *session)
{
	struct session_ruled *ruled = session_ruled(session);

	ruled->readable[ruled->readable_next++ % SESSION_READABLE] =
		session->sequence->match.namespace->serial;
}

/* What the session keeps of its sequence. */
static void finish_learn(struct session *session)
{
	const struct sequence *sequence = session->sequence;
	const struct match *match = &sequence->match;

	if (match->changes_fitness && !sequence->permission.denied && finish_leaves_notes(session))
		finish_recheck(session->loop->service->mover, match);
	if (sequence->permission.proven)
		finish_learn_rights(session);
	finish_count(session);
	session_measure(session);
	session->next_request_id = sequence->next_request_id;
	if (sequence->end.own.number > 0)
		session_ruled(session)->own = sequence->end.own;
}

static void finish_at_once(struct session *session)
{
	struct sequence *sequence = session->sequence;

	if (finish_leaves_notes(session))
		sequence_notes(sequence, finish_take_note, session);
	finish_learn(session);
	session->sequence = NULL;
	sequence_free(sequence);
}

static void finish_keep_note(void *context, const struct mover_note *note)
{
	struct session_work *work = context;

	if (mover_note(work->facts.mover, note) &&
	    !command_has(&work->sequence->match.command, FIELD_AUTOCOMMIT))
		work->flag = true;
}

static void finish_note(struct session_work *work)
{
	sequence_notes(work->sequence, finish_keep_note, work);
	sequence_free(work->sequence);
	work->sequence = NULL;
}

static void finish_noted(struct session *session, struct session_work *work)
{
	if (work->flag)
		session_pause(session, HEAVY_PAUSE_MS);
	else
		session_next_request(session);
}

static void finish_elsewhere(struct session *session)
{
	static const struct session_task task = {finish_note, finish_noted};
	struct session_work work = {.facts = session_facts(session),
				    .namespaces = session->sequence->match.cache};

	finish_learn(session);
	session_give_work(session, &task, &work);
}

void session_end_sequence(struct session *session)
{
	bool refused;

	if (finish_has_many_notes(session) && finish_leaves_notes(session)) {
		finish_elsewhere(session);
		return;
	}
	refused = session->sequence->end.code != 0;
	finish_at_once(session);
	if (!session->pinned)
		(refused ? session_rest_after_refusal : session_next_request)(session);
}

/* The client's reply goes out compressed if its request came so; what is the server's own frame
 * goes as it is. */
static bool finish_packs(const struct sequence *sequence, const struct packet *request)
{
	return sequence->output.length > 0 && sequence->output.data == sequence->buffer.data &&
	       packet_compressed(request);
}

/* The server's reply is the answer, and nobody looks into it any more. */
static bool finish_gives_reply(const struct sequence *sequence)
{
	const struct buffer *reply = &sequence->held.raw;

	return reply->length > 0 && sequence->output.data == reply->data &&
	       sequence->output.length == reply->length && !sequence_may_stream(sequence);
}

/* `packed`: empty if nothing was to be, or there was no memory for it. */
static void finish_answer(struct session *session, struct buffer *packed)
{
	struct sequence *sequence = session->sequence;

	if (packed->length > 0)
		stream_write_owned(&session->client, packed);
	else if (sequence->output.length > 0 && sequence->output.data == sequence->buffer.data)
		stream_write_owned(&session->client, &sequence->buffer);
	else if (finish_gives_reply(sequence))
		stream_write_owned(&session->client, &sequence->held.raw);
	else
		stream_write(&session->client, sequence->output);
}

static void finish_pack(struct session_work *work)
{
	compressed_pack(work->sequence->output, (enum compressor)work->kind, &work->bytes);
}

/* The answer goes out. `next`: behind a part of a stream, the request for the next one. */
static void finish_packed(struct session *session, struct buffer *packed, struct packet *next)
{
	finish_answer(session, packed);
	if (sequence_close_stream(session->sequence)) {
		session_send(session);
		return;
	}
	if (!next->raw.data) {
		session_end_sequence(session);
		return;
	}
	finish_at_once(session);
	session_set_state(session, SESSION_RELAYING);
	request_again(session, next, COMMAND_GET_MORE);
}

static void finish_packed_elsewhere(struct session *session, struct session_work *work)
{
	struct packet next = packet_steal(&work->packet);

	finish_packed(session, &work->bytes, &next);
}

static void finish_pack_elsewhere(struct session *session, enum compressor compressor,
				  struct packet *next)
{
	static const struct session_task task = {finish_pack, finish_packed_elsewhere};
	struct session_work work = {.packet = packet_steal(next), .kind = (int)compressor};

	session_give_work(session, &task, &work);
}

/* Where the client streams its cursor and has not gone, the next getMore follows by itself; its
 * reply is not read before the client has taken what was sent. If it has gone, the cursor is
 * closed. */
void session_finish(struct session *session)
{
	struct sequence *sequence = session->sequence;
	auto_buffer struct buffer packed = {0};
	struct packet next = {0};
	bool may, gone, streams, packs;
	enum compressor compressor;

	finish_count_refusal(session);
	may = sequence_may_stream(sequence);
	gone = may && stream_has_ended(&session->client);
	streams = may && !gone && sequence_streams(sequence, &next);
	if (gone)
		sequence_leave_stream(sequence);
	compressor = (streams ? &next : &sequence->request)->compressor;
	packs = finish_packs(sequence, streams ? &next : &sequence->request);
	if (packs && sequence->output.length >= ASIDE_REQUEST) {
		finish_pack_elsewhere(session, compressor, &next);
		return;
	}
	if (packs)
		compressed_pack(sequence->output, compressor, &packed);
	finish_packed(session, &packed, &next);
}
