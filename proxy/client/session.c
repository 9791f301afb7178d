/* A client's connection and the server connection that belongs to it: opened together, closed
 * together. */
#include "proxy/client/session.h"

#include "proxy/base/address.h"
#include "proxy/base/ballast.h"
#include "proxy/base/log.h"
#include "proxy/base/spare_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#define REPLY_ROOM (2 * LOOP_READ_BUFFER) /* what is made for a reply that is taken to be large */
#define LEAST_ROOM \
	(LOOP_READ_BUFFER / 4)              /* for less, what comes behind would take another read \
					     */
#define GOOD_PART 16                        /* one part in so many of a frame */
#define READ_AT_ONCE (4 * LOOP_READ_BUFFER) /* libuv reads 32 times in a turn at most */

/* Clients can come as often as they like. */
static struct log_limit resets;
static struct log_limit unsecured;

void session_set_state(struct session *session, enum session_state state)
{
	static const bool allowed[4][4] = {
		[SESSION_OPENING] = {[SESSION_RELAYING] = true, [SESSION_CLOSING] = true},
		[SESSION_RELAYING] = {[SESSION_REWRITING] = true, [SESSION_CLOSING] = true},
		[SESSION_REWRITING] = {[SESSION_RELAYING] = true, [SESSION_CLOSING] = true},
	};

	require(allowed[session->state][state]);
	session->state = state;
}

void session_link(struct session *session)
{
	struct loop *loop = session->loop;

	session->next = loop->sessions;
	if (session->next)
		session->next->previous = session;
	loop->sessions = session;
	session_await(session, DEADLINE_HANDSHAKE);
}

void session_await(struct session *session, enum deadline_kind kind)
{
	struct loop *loop = session->loop;

	if (!session->deadlines) {
		session->deadlines = must_malloc(sizeof *session->deadlines);
		*session->deadlines = (struct session_deadlines){.session = session};
	}
	deadline_begin(&loop->deadlines[kind], &session->deadlines->each[kind], uv_now(&loop->uv));
	loop_need_ticks(loop);
}

void session_await_no_more(struct session *session, enum deadline_kind kind)
{
	if (!session_awaits(session, kind))
		return;
	deadline_end(&session->loop->deadlines[kind], &session->deadlines->each[kind]);
	for (int other = 0; other < DEADLINE_KINDS; other++)
		if (session_awaits(session, other))
			return;
	free(session->deadlines);
	session->deadlines = NULL;
}

void session_on_overdue(struct session *session, enum deadline_kind kind)
{
	static const enum strangers_kind told[DEADLINE_KINDS] = {
		[DEADLINE_HANDSHAKE] = STRANGERS_SILENT,
		[DEADLINE_LOGIN] = STRANGERS_LOGIN,
		[DEADLINE_PROGRESS] = STRANGERS_PROGRESS,
	};

	session_await_no_more(session, kind);
	if (session->state == SESSION_CLOSING)
		return;
	if (kind == DEADLINE_LOOK || kind == DEADLINE_UNREAD) {
		(kind == DEADLINE_LOOK ? session_look_again : session_look_at_reader)(session);
		return;
	}
	if (kind == DEADLINE_HANDSHAKE && session_awaits_server(session)) {
		session_give_server_up(session);
		return;
	}
	session_tell(session, told[kind]);
	session_close(session, SESSION_END_DONE);
}

/* Bytes are awaited only while they are read. */
void session_watch_progress(struct session *session, bool progressed)
{
	const struct session_request *request = &session->request;
	bool waits = session->state == SESSION_RELAYING && session->client.reading &&
		     (request->shed ||
		      (request->held.length > 0 && request->held.length < request->wanted));

	if (!waits)
		session_await_no_more(session, DEADLINE_PROGRESS);
	else if (progressed || !session_awaits(session, DEADLINE_PROGRESS))
		session_await(session, DEADLINE_PROGRESS);
}

static void session_unlink(struct session *session)
{
	for (int kind = 0; kind < DEADLINE_KINDS; kind++)
		session_await_no_more(session, kind);
	if (session->previous)
		session->previous->next = session->next;
	else
		session->loop->sessions = session->next;
	if (session->next)
		session->next->previous = session->previous;
}

/* An idle session has no claim. */
static void session_claim(struct session *session, int64_t held, int64_t excess)
{
	struct claims *claims = &session->loop->service->claims;
	struct session_memory *memory = &session->memory;

	if (!memory->claim && held >= CLAIMS_LEAST)
		memory->claim = claims_new();
	if (memory->claim)
		claims_set(claims, memory->claim, held, excess);
	else if (excess > 0)
		claims_tell(claims, excess);
	if (held < CLAIMS_LEAST) {
		claims_drop(claims, memory->claim);
		memory->claim = NULL;
	}
}

static void session_leave_peer(struct session *session)
{
	if (session->peer.counted)
		peers_leave(&session->loop->service->peers, &session->peer.address);
	free(session->peer.application);
	free(session->peer.driver);
	clients_leave(session->peer.entry);
}

static void session_leave_ruled(struct session *session)
{
	if (!session->ruled)
		return;
	buffer_fini(&session->ruled->find.request);
	session_leave_find(session);
	free(session->ruled);
}

void session_free_if_gone(struct session *session)
{
	struct loop *loop = session->loop;

	if (session->handles > 0 || session->pinned || session->memory.away)
		return;
	session_unlink(session);
	places_leave(loop->service->places, session->listen_index);
	stream_fini(&session->client);
	stream_fini(&session->server);
	buffer_wipe(&session->request.held);
	buffer_wipe(&session->response.held);
	pending_fini(&session->pending);
	skim_free(session->request.shed);
	sequence_free(session->sequence);
	session_leave_ruled(session);
	free(session->rights.accepted.namespaces);
	session_leave_peer(session);
	atomic_fetch_sub(&loop->service->memory, (int64_t)session->memory.accounted);
	loop->unproven -= (int64_t)session->memory.unproven;
	claims_drop(&loop->service->claims, session->memory.claim);
	if (session_is_refused(session))
		atomic_fetch_sub(&loop->service->refused, 1);
	free(session);
	loop_on_session_gone(loop);
}

static void session_on_closed(uv_handle_t *handle)
{
	struct session *session = handle->data;

	session->handles--;
	session_free_if_gone(session);
}

static void session_close_stream(struct stream *stream, enum session_end how)
{
	uv_handle_t *handle = (uv_handle_t *)(void *)&stream->tcp;

	stream->reading = false;
	if (!handle->data || uv_is_closing(handle))
		return;
	if (how == SESSION_END_RESET && !stream->shutting &&
	    uv_tcp_close_reset(&stream->tcp, session_on_closed) == 0)
		return;
	stream_say_farewell(stream);
	uv_close(handle, session_on_closed);
}

void session_works(struct session *session)
{
	if (session->works)
		return;
	session->works = true;
	atomic_fetch_add(&session->loop->service->working, 1);
}

void session_close(struct session *session, enum session_end how)
{
	if (session->state == SESSION_CLOSING)
		return;
	session_set_state(session, SESSION_CLOSING);
	session_cut_sequence(session);
	if (session->works)
		atomic_fetch_sub(&session->loop->service->working, 1);
	if (session->server.resolution)
		address_give_up(session->server.resolution);
	session_close_stream(&session->client, how);
	session_close_stream(&session->server, how);
}

/* Nothing is owed to anybody on this connection (what a monitor waits for doesn't count). */
static bool session_idle(const struct session *session)
{
	return session->state == SESSION_RELAYING && session->request.left == 0 &&
	       session->request.held.length == 0 && session->response.left == 0 &&
	       session->response.held.length == 0 && !session->in_transaction &&
	       pending_only_hello(&session->pending) && stream_backlog(&session->client) == 0 &&
	       stream_backlog(&session->server) == 0;
}

/* A driver whose monitor loses its connection drops the others, transactions and all: monitors go
 * last. */
static bool session_is_needed(const struct session *session)
{
	return !session->works && atomic_load(&session->loop->service->working) > 0;
}

void session_close_if_idle(struct session *session)
{
	if (session->state == SESSION_OPENING ||
	    (session_idle(session) && !session_is_needed(session)))
		session_close(session, SESSION_END_DONE);
}

/* After the first hello, a connection of a pool is about to be used. */
void session_close_if_monitor(struct session *session)
{
	if (!session->works && session->request.hellos > 1 && session_idle(session))
		session_close(session, SESSION_END_DONE);
}

/* What the session could free by giving up. Of room for a frame what has come: the rest is nobody's
 * memory yet. */
static size_t session_held(const struct session *session)
{
	return session->request.held.length + session->response.held.length +
	       stream_backlog(&session->client) + session->memory.away +
	       (session->sequence ? sequence_memory(session->sequence) : 0);
}

void session_account(struct session *session)
{
	struct service *service = session->loop->service;
	size_t held = session_held(session), all = held + stream_backlog(&session->server);
	size_t strange;
	int64_t sum;
	bool reads;

	session_watch_reader(session);
	strange = session->state == SESSION_CLOSING || session_is_proven(session) ? 0 : all;
	session->loop->unproven += (int64_t)strange - (int64_t)session->memory.unproven;
	session->memory.unproven = strange;
	if (all == session->memory.accounted)
		return;
	sum = (int64_t)all - (int64_t)session->memory.accounted;
	sum += atomic_fetch_add(&service->memory, sum);
	spare_memory_adjust(&service->scarce, sum, service->config->limits.memory);
	session->memory.accounted = all;
	reads = session->sequence || session->memory.away || session_finds(session);
	session_claim(session, reads ? (int64_t)held : 0, sum - service->config->limits.memory);
}

bool session_system_short(void)
{
	static struct log_limit told;

	if (ballast_suffices())
		return false;
	log_limited(
		&told, CONFIG_LOG_WARNING,
		"2050 the system gives Spillway no more memory: requests on arrays are refused; "
		"raise "
		"the limit of the process (ulimit -v) or of the machine, or lower limits.memory");
	return true;
}

bool session_memory_short(const struct session *session, size_t more)
{
	const struct service *service = session->loop->service;
	bool is = atomic_load(&service->memory) + (int64_t)more > service->config->limits.memory ||
		  session_system_short();

	if (is)
		session_note_shortage(session);
	return is;
}

bool session_gives_up(const struct session *session)
{
	return session_memory_short(session, 0) && claims_give_up(session->memory.claim);
}

void session_keep(struct session *session, struct buffer *held, struct bytes bytes, size_t wanted)
{
	/* Without room for more, more can still be thrown away when it comes. */
	(void)!buffer_try_reserve(held, least(wanted, 2 * bytes.length));
	if (!buffer_try_append(held, bytes))
		session_starve(session);
}

must_check bool session_hold(struct buffer *held, struct bytes bytes)
{
	if (!session_stands_there(held, bytes))
		return buffer_try_append(held, bytes);
	held->length += bytes.length;
	return true;
}

void session_starve(struct session *session)
{
	static struct log_limit told;

	log_limited(
		&told, CONFIG_LOG_WARNING,
		"2051 session %llu: closed: the system gives no memory for what it sends or reads",
		(unsigned long long)session->id);
	metric_add(&session->loop->metrics->connections_starved, 1);
	session_close(session, SESSION_END_RESET);
}

void session_adjust_reading(struct session *session)
{
	bool client, server;

	if (session->state == SESSION_CLOSING || session->state == SESSION_OPENING ||
	    session_is_refused(session))
		return;
	/* Errors and merged replies grow in front of a client that reads nothing. */
	client = stream_backlog(&session->server) < SESSION_BACKLOG_MAX &&
		 session->pending.count < SESSION_PENDING_MAX && !session_client_lags(session);
	/* While a sequence runs, the first bytes that come are kept; then reading stops. */
	if (session->request.blocked ||
	    (session->state == SESSION_REWRITING && session->request.held.length > 0))
		client = false;
	server = !session_client_lags(session) && !session->memory.away;
	(client ? stream_start_reading : stream_stop_reading)(&session->client);
	(server ? stream_start_reading : stream_stop_reading)(&session->server);
	session_watch_progress(session, false);
}

void session_pass_ends(struct session *session)
{
	if (session->state == SESSION_CLOSING || session->state == SESSION_OPENING ||
	    session_is_refused(session) || session->memory.away)
		return;
	if (session->client.ended && session->state == SESSION_RELAYING &&
	    !session->server.shutting && !session->request.blocked && !session_client_lags(session))
		stream_shutdown(&session->server);
	if (session->server.ended && !session->client.shutting)
		stream_shutdown(&session->client);
	if (session->server.ended && (session->client.ended || session->client.broken) &&
	    stream_backlog(&session->client) == 0)
		session_close(session, SESSION_END_DONE);
}

void session_on_drained(struct session *session)
{
	if (session->state == SESSION_CLOSING)
		return;
	request_continue(session);
	if (session->state == SESSION_CLOSING)
		return;
	session_update_reading(session);
	session_pass_ends(session);
	if (session->state != SESSION_CLOSING && session->loop->drain_until)
		session_close_if_idle(session);
}

/* A reply that is taken to be large is read to where it stays from its first byte on. Room for what
 * a sequence expects costs nothing before bytes come, and spares the copies of growing. */
static bool session_alloc_reply(struct session *session, uv_buf_t *room)
{
	struct buffer *held = &session->response.held;

	if (!session->sequence || session->sequence->reply.expected == 0 || held->length > 0 ||
	    session->response.left > 0)
		return false;
	session->response.wanted = 0;
	if (!buffer_try_reserve(held, session->sequence->reply.expected > REPLY_ROOM
					      ? session->sequence->reply.expected
					      : REPLY_ROOM))
		return false;
	*room = stream_room(held->data, least(held->capacity, READ_AT_ONCE));
	return true;
}

/* While a large frame is awaited, its bytes are read to where they stay. Room is made as bytes
 * come, never by the claimed length alone: at most as much again as is there. Once a good part of
 * the frame is there, room is made for all of it, since to copy a long one takes long. */
static bool session_alloc_held(struct buffer *held, size_t wanted, uv_buf_t *room)
{
	size_t missing = wanted > held->length ? wanted - held->length : 0;
	size_t more = held->length < wanted / GOOD_PART ? least(missing, held->length) : missing;

	if (held->length < LOOP_READ_BUFFER || missing < LEAST_ROOM)
		return false;
	if (held->capacity - held->length < LEAST_ROOM && !buffer_try_reserve(held, more))
		return false;
	*room = stream_room(held->data + held->length,
			    least(held->capacity - held->length, READ_AT_ONCE));
	return true;
}

void session_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
	struct session *session = handle->data;
	bool from_server = (void *)handle == (void *)&session->server.tcp;

	(void)suggested;
	if (from_server && session_alloc_reply(session, buffer))
		return;
	if (from_server
		    ? session_alloc_held(&session->response.held, session->response.wanted, buffer)
		    : session_alloc_held(&session->request.held, session->request.wanted, buffer))
		return;
	*buffer = stream_room(session->loop->read_buffer, LOOP_READ_BUFFER);
}

/* libuv takes a reset for an end where bytes came with it in one turn; the socket knows better. */
static bool was_reset(const struct stream *stream)
{
	uv_os_fd_t descriptor;
	int error = 0;
	socklen_t length = sizeof(error);

	return uv_fileno((const uv_handle_t *)(const void *)&stream->tcp, &descriptor) == 0 &&
	       getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length) == 0 &&
	       error == ECONNRESET;
}

/* With TLS 1.3 a server says only behind the handshake that it wants a certificate. */
static void session_tell_reset(const struct session *session, const struct stream *stream,
			       ssize_t status)
{
	if (stream == &session->server && status == UV_EPROTO && stream->tls)
		log_limited(&unsecured, CONFIG_LOG_WARNING,
			    "2014 session %llu: TLS with server '%s' failed: %s",
			    (unsigned long long)session->id, session_server_name(session),
			    tls_reason(stream->tls));
	else
		log_limited(&resets, CONFIG_LOG_DEBUG,
			    "2015 session %llu: '%s' reset the connection: %s",
			    (unsigned long long)session->id,
			    stream == &session->server ? session_server_name(session) : "client",
			    uv_strerror((int)status));
}

bool session_must_go_on(const struct session *session)
{
	const struct sequence *sequence = session->sequence;

	return session->memory.away ||
	       (sequence && (sequence->end.holds || sequence_may_stream(sequence)));
}

/* The server has said nothing on this connection: it may say nothing to any client. */
static bool session_heard_nothing(const struct session *session)
{
	return !session->works && session->request.hellos < 2 &&
	       session->pending.count == session->request.hellos;
}

static void session_lose_server(const struct session *session, int status)
{
	if (session_heard_nothing(session))
		session_fail_upstream(session, status);
	else
		metric_add(&session->loop->metrics->upstream_failures, 1);
}

/* Not inlined: what is read costs nothing for it. */
static __attribute__((noinline)) void session_on_end(struct session *session, struct stream *stream,
						     ssize_t status)
{
	if (status == UV_EOF && was_reset(stream))
		status = UV_ECONNRESET;
	stream_stop_reading(stream);
	if (stream == &session->server && !session->client.ended)
		session_lose_server(session, (int)status);
	if (status != UV_EOF) {
		session_tell_reset(session, stream, status);
		if (stream != &session->client || !session_must_go_on(session)) {
			session_close(session, SESSION_END_RESET);
			return;
		}
		stream->broken = true; /* it goes on as behind a FIN */
	}
	stream->ended = true;
	if (stream == &session->server &&
	    (session->state == SESSION_REWRITING || session->request.blocked)) {
		/* No reply where none came; what had come before still goes out. */
		stream_stop_reading(&session->client);
		session->client.ended = true;
		session->request.blocked = false;
	}
	if (session_is_refused(session))
		session_close(session, SESSION_END_DONE);
	else
		session_pass_ends(session);
}

void session_on_read(uv_stream_t *handle, ssize_t length, const uv_buf_t *buffer)
{
	struct session *session = handle->data;
	struct stream *stream = (struct stream *)(void *)handle;
	struct bytes bytes = {(const uint8_t *)buffer->base, (size_t)length};

	if (session->response.held.length == 0 && length <= 0)
		buffer_fini(&session->response.held); /* room that was made for nothing */
	if (session->state == SESSION_CLOSING || length == 0)
		return;
	if (length < 0)
		session_on_end(session, stream, length);
	else if (stream == &session->client)
		request_on_bytes(session, bytes);
	else
		response_on_bytes(session, bytes);
	if (session->loop->drain_until && session->state != SESSION_CLOSING)
		session_close_if_idle(session);
}

must_check bool session_take_frame(struct bytes bytes, size_t length, struct buffer *owner,
				   struct buffer *frame)
{
	*frame = (struct buffer){0};
	if (!owner || owner->data != bytes.data || owner->length != length)
		return buffer_try_append(frame, (struct bytes){bytes.data, length});
	*frame = buffer_steal(owner);
	return true;
}
