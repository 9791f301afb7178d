/* A session's long work, done by another thread than the loop's. */
#include "proxy/client/session_aside.h"

#include "proxy/client/aside.h"

#include <stdlib.h>

struct given {
	struct aside_job job; /* first */
	struct session *session;
	const struct session_task *task;
	struct session_work work;
};

/* Commands whose stages, if they have any, are not many for their bytes. */
static bool is_data(enum command_kind kind)
{
	switch (kind) {
	case COMMAND_BULK_WRITE:
	case COMMAND_COUNT:
	case COMMAND_DELETE:
	case COMMAND_DISTINCT:
	case COMMAND_FIND:
	case COMMAND_FIND_AND_MODIFY:
	case COMMAND_GET_MORE:
	case COMMAND_INSERT:
	case COMMAND_UPDATE:
		return true;
	default:
		return false;
	}
}

bool session_is_long_request(struct bytes frame)
{
	struct message_prefix prefix;
	uint8_t compressor;

	if (frame.length < ASIDE_PIPELINE)
		return load_int32(frame.data + 12) == OPCODE_COMPRESSED &&
		       frame.length >= COMPRESSED_HEAD &&
		       compressed_look(frame, &compressor) >= ASIDE_PACKED;
	if (frame.length >= ASIDE_REQUEST)
		return true;
	if (load_int32(frame.data + 12) == OPCODE_COMPRESSED)
		return compressed_look(frame, &compressor) >= ASIDE_PACKED;
	return message_prefix(frame, &prefix) != PREFIX_KNOWN ||
	       !is_data(command_named(prefix.name)->kind);
}

static size_t packet_size(const struct packet *packet)
{
	return packet->raw.length + packet->unpacked.length;
}

bool session_is_long_packet(const struct packet *packet, enum command_kind kind)
{
	return packet_size(packet) >= (is_data(kind) ? ASIDE_REQUEST : ASIDE_PIPELINE);
}

bool session_is_long_step(const struct sequence *sequence, const struct packet *reply)
{
	if (session_is_long_packet(&sequence->request, sequence->match.command.kind))
		return true;
	return sequence_memory(sequence) + (reply ? packet_size(reply) : 0) >= ASIDE_MEMORY;
}

static void given_work(struct aside_job *job)
{
	struct given *given = (struct given *)(void *)job;

	given->task->work(&given->work);
}

static void given_free(struct given *given)
{
	packet_wipe(&given->work.packet);
	buffer_fini(&given->work.bytes);
	free(given);
}

/* The session goes on as it does behind a reply. */
static void given_go_on(struct session *session, struct given *given)
{
	given->task->then(session, &given->work);
	if (session->state == SESSION_CLOSING)
		return;
	session_update_reading(session);
	session_pass_ends(session);
	if (session->loop->drain_until && session->state == SESSION_RELAYING)
		session_close_if_idle(session);
}

static void given_on_done(struct aside_job *job)
{
	struct given *given = (struct given *)(void *)job;
	struct session *session = given->session;

	session->sequence = given->work.sequence;
	session->memory.away = 0;
	if (session->state == SESSION_CLOSING) {
		session_cut_sequence(session);
		session_free_if_gone(session);
	} else if (session->client.ended && session->client.broken &&
		   !session_must_go_on(session)) {
		session_close(session, SESSION_END_RESET); /* it was reset meanwhile */
	} else {
		given_go_on(session, given);
	}
	given_free(given);
}

struct session_facts session_facts(const struct session *session)
{
	return (struct session_facts){session->loop->service->mover,
				      {session->client.tls, session->server.tls}};
}

void session_give_work(struct session *session, const struct session_task *task,
		       struct session_work *work)
{
	struct given *given = must_calloc(1, sizeof(*given));
	size_t held = work->packet.raw.capacity + work->packet.unpacked.capacity +
		      work->bytes.capacity + 1;

	if (session->sequence)
		held += sequence_memory(session->sequence);
	given->job.work = given_work;
	given->job.done = given_on_done;
	given->session = session;
	given->task = task;
	given->job.namespaces = work->namespaces;
	given->work = *work;
	given->work.sequence = session->sequence;
	session->sequence = NULL;
	session->memory.away = (uint32_t)least(held, UINT32_MAX);
	aside_give(session->loop->aside, &given->job);
}
