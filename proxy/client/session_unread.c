/* Clients that do not take their replies: while memory is short, those are closed. */
#include "proxy/client/session.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#define LEAST_TAKEN 65536 /* bytes between two looks; who takes less stalls */
#define STALLS_MOST 2     /* looks in a row */
#define SHORT_FOR_MS 10000

void session_note_shortage(const struct session *session)
{
	atomic_store(&session->loop->service->short_at, uv_now(&session->loop->uv));
}

/* What the client has not acknowledged, in our memory or in the kernel's. */
static size_t unread(const struct session *session)
{
	const struct stream *stream = &session->client;
	uv_os_fd_t descriptor;
	int in_kernel = 0;

	if (uv_fileno((const uv_handle_t *)(const void *)&stream->tcp, &descriptor) == 0)
		(void)ioctl(descriptor, SIOCOUTQ, &in_kernel);
	return stream_unwritten(stream) + (size_t)(in_kernel > 0 ? in_kernel : 0);
}

void session_watch_reader(struct session *session)
{
	if (stream_backlog(&session->client) < CLAIMS_LEAST ||
	    session_awaits(session, DEADLINE_UNREAD) || session->state == SESSION_CLOSING)
		return;
	session->memory.unread = unread(session);
	session->memory.stalls = 0;
	session_await(session, DEADLINE_UNREAD);
}

static bool is_short(const struct loop *loop, int64_t freed)
{
	const struct service *service = loop->service;
	uint64_t at = atomic_load(&service->short_at);

	return at > 0 && uv_now(&loop->uv) < at + SHORT_FOR_MS &&
	       atomic_load(&service->memory) - freed > service->config->limits.memory / 4;
}

static bool is_worse(const struct session *one, const struct session *other)
{
	if (!other || session_is_proven(one) != session_is_proven(other))
		return !other || !session_is_proven(one);
	if (one->memory.accounted != other->memory.accounted)
		return one->memory.accounted > other->memory.accounted;
	return one->id > other->id;
}

static struct session *worst(const struct loop *loop)
{
	struct session *found = NULL;

	for (struct session *at = loop->sessions; at; at = at->next)
		if (at->state != SESSION_CLOSING && session_awaits(at, DEADLINE_UNREAD) &&
		    at->memory.stalls >= STALLS_MOST && is_worse(at, found))
			found = at;
	return found;
}

/* Their memory is free when their sockets are closed. */
static void close_stalled(struct loop *loop)
{
	struct session *session;
	int64_t freed = 0;

	while (is_short(loop, freed) && (session = worst(loop))) {
		freed += (int64_t)session->memory.accounted;
		session_tell(session, STRANGERS_UNREAD);
		session_close(session, SESSION_END_RESET);
	}
}

void session_look_at_reader(struct session *session)
{
	size_t now = unread(session), before = session->memory.unread;

	if (stream_backlog(&session->client) < CLAIMS_LEAST)
		return;
	session->memory.unread = now;
	session->memory.stalls =
		before < now + LEAST_TAKEN ? (uint8_t)least(session->memory.stalls + 1u, 100) : 0;
	session_await(session, DEADLINE_UNREAD);
	if (session->memory.stalls >= STALLS_MOST && is_short(session->loop, 0))
		close_stalled(session->loop);
}
