/* One side of a session: writes at once what the kernel takes and queues the rest. */
#include "proxy/client/stream.h"

#include "proxy/client/session.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#define SEALED_AT_ONCE 65536 /* plain bytes */
#define IN_A_TURN \
	(1 << 20)          /* bytes that are sealed, or copied to the kernel, about a millisecond */
#define ANSWERED_MAX 65536 /* sealed bytes */

/* What waits for the kernel, in the order in which it goes out. There is none while nothing waits.
 */
struct stream_waiting {
	uv_write_t request;
	size_t part;             /* so many bytes are in flight with it */
	struct buffer in_flight; /* of which it is a part, and not empty while others wait */
	size_t gone;             /* what has left of it */
	struct buffer queue;
	struct buffer unsealed; /* to be sealed behind what is in flight, a part in each turn */
	size_t begun;           /* so many bytes of it have been sealed */
	bool secret;            /* some of it signs somebody in */
};

static uv_stream_t *stream_handle(struct stream *stream)
{
	return (uv_stream_t *)(void *)&stream->tcp;
}

/* Whether what the other end gets next has to stand behind others. */
static bool stream_has_queue(const struct stream *stream)
{
	const struct stream_waiting *waiting = stream->waiting;

	return waiting && (waiting->in_flight.length > 0 || waiting->queue.length > 0);
}

static bool stream_has_unsealed(const struct stream *stream)
{
	return stream->waiting && stream->waiting->unsealed.length > 0;
}

static struct stream_waiting *stream_wait(struct stream *stream)
{
	const struct session *session = stream->tcp.data;

	if (!stream->waiting)
		stream->waiting = must_calloc(1, sizeof(*stream->waiting));
	if (session->rights.secret)
		stream->waiting->secret = true;
	return stream->waiting;
}

static void stream_free_bytes(const struct stream_waiting *waiting, struct buffer *bytes)
{
	(waiting->secret ? buffer_wipe : buffer_fini)(bytes);
}

/* Nobody gets what the kernel has not been given yet. */
static void stream_drop(struct stream_waiting *waiting)
{
	stream_free_bytes(waiting, &waiting->in_flight);
	stream_free_bytes(waiting, &waiting->queue);
	stream_free_bytes(waiting, &waiting->unsealed);
	waiting->gone = waiting->begun = 0;
}

static void stream_on_written(uv_write_t *request, int status);

/* The next part of what is in flight, or of the queue. */
static void stream_send(struct stream *stream)
{
	struct stream_waiting *waiting = stream->waiting;
	uv_buf_t view;

	if (waiting->part > 0 || stream->broken)
		return;
	if (waiting->in_flight.length == 0)
		waiting->in_flight = buffer_steal(&waiting->queue);
	if (waiting->in_flight.length == 0)
		return;
	waiting->part = least(waiting->in_flight.length - waiting->gone, IN_A_TURN);
	view = stream_room(waiting->in_flight.data + waiting->gone, waiting->part);
	if (uv_write(&waiting->request, stream_handle(stream), &view, 1, stream_on_written) == 0)
		return;
	waiting->part = 0;
	stream->broken = true;
}

/* How many of the bytes the kernel took at once. */
static size_t stream_try(struct stream *stream, struct bytes bytes)
{
	uv_buf_t view = stream_room((void *)(uintptr_t)bytes.data, least(bytes.length, IN_A_TURN));
	int taken;

	if (stream_has_queue(stream))
		return 0;
	taken = uv_try_write(stream_handle(stream), &view, 1);
	if (taken >= 0)
		return (size_t)taken;
	if (taken != UV_EAGAIN)
		stream->broken = true;
	return 0;
}

/* The other end sees the connection end in the middle of a message: nobody takes what came for
 * whole. Reading tells the session. */
static void stream_starve(struct stream *stream)
{
	struct session *session = stream->tcp.data;
	uv_os_fd_t descriptor;

	metric_add(&session->loop->metrics->connections_starved, 1);
	stream->broken = true;
	if (uv_fileno((const uv_handle_t *)(const void *)&stream->tcp, &descriptor) == 0)
		(void)shutdown(descriptor, SHUT_RDWR);
}

/* Bytes as the other end gets them, behind all that is queued. */
static void stream_queue(struct stream *stream, struct bytes bytes)
{
	if (stream->broken || stream->said)
		return;
	if (buffer_try_append(&stream_wait(stream)->queue, bytes))
		stream_send(stream);
	else
		stream_starve(stream);
}

/* The same at once, as far as the kernel takes them. */
static void stream_put(struct stream *stream, struct bytes bytes)
{
	size_t taken;

	if (stream->broken || stream->said)
		return;
	taken = stream_try(stream, bytes);
	if (taken < bytes.length)
		stream_queue(stream, (struct bytes){bytes.data + taken, bytes.length - taken});
}

/* What TLS has sealed goes out; the room for it is kept for the next. */
static void stream_put_sealed(struct stream *stream)
{
	struct session *session = stream->tcp.data;
	struct buffer *sealed = &session->loop->sealed;

	if (sealed->length > 0)
		stream_put(stream, buffer_view(sealed));
	sealed->length = 0;
}

/* Seals as many of the bytes as one turn of the loop may, and returns their number. If some are
 * left, the last part does not go out at once: stream_on_written will come in another turn. */
static size_t stream_seal(struct stream *stream, struct bytes bytes)
{
	struct session *session = stream->tcp.data;
	struct buffer *sealed = &session->loop->sealed;
	size_t most = least(bytes.length, IN_A_TURN), done = 0;

	while (done < most && !stream->broken) {
		struct bytes part = {bytes.data + done, least(most - done, SEALED_AT_ONCE)};

		if (!tls_write(stream->tls, part, sealed))
			stream->broken = true;
		done += part.length;
		if (done == most && done < bytes.length) {
			stream_queue(stream, buffer_view(sealed));
			sealed->length = 0;
		} else {
			stream_put_sealed(stream);
		}
	}
	return done;
}

/* Goes on with what another turn has begun. */
static void stream_seal_on(struct stream *stream)
{
	struct stream_waiting *waiting = stream->waiting;
	struct bytes unsealed = buffer_view(&waiting->unsealed);

	if (unsealed.length == 0 || stream_has_queue(stream))
		return;
	unsealed.data += waiting->begun;
	unsealed.length -= waiting->begun;
	waiting->begun += stream_seal(stream, unsealed);
	if (waiting->begun < waiting->unsealed.length)
		return;
	stream_free_bytes(waiting, &waiting->unsealed);
	waiting->begun = 0;
}

/* What has been sealed does not take more room than what has not. */
static void stream_append_unsealed(struct stream *stream, struct bytes bytes)
{
	struct stream_waiting *waiting = stream_wait(stream);

	if (waiting->begun > waiting->unsealed.length / 2) {
		buffer_consume(&waiting->unsealed, waiting->begun);
		waiting->begun = 0;
	}
	if (!buffer_try_append(&waiting->unsealed, bytes))
		stream_starve(stream);
}

/* Not inlined: without TLS a write costs nothing for it. */
static __attribute__((noinline)) void stream_seal_all(struct stream *stream, struct bytes bytes)
{
	if (!stream_has_unsealed(stream)) {
		size_t sealed = stream_seal(stream, bytes);

		bytes = (struct bytes){bytes.data + sealed, bytes.length - sealed};
	}
	if (bytes.length > 0 && !stream->broken)
		stream_append_unsealed(stream, bytes);
}

void stream_write(struct stream *stream, struct bytes bytes)
{
	if (bytes.length == 0 || stream->broken || stream->shutting)
		return;
	if (stream->tls)
		stream_seal_all(stream, bytes);
	else
		stream_put(stream, bytes);
}

static void stream_seal_owned(struct stream *stream, struct buffer *bytes)
{
	size_t sealed = stream_seal(stream, buffer_view(bytes));
	struct stream_waiting *waiting;

	if (stream->broken)
		return;
	waiting = stream_wait(stream);
	waiting->unsealed = buffer_steal(bytes);
	waiting->begun = sealed;
}

void stream_write_owned(struct stream *stream, struct buffer *bytes)
{
	size_t copied = stream->tls ? IN_A_TURN : LOOP_READ_BUFFER - 1;
	bool behind = stream->tls ? stream_has_unsealed(stream) : stream_has_queue(stream);

	if (stream->broken || stream->shutting || behind || bytes->length <= copied) {
		stream_write(stream, buffer_view(bytes));
	} else if (stream->tls) {
		stream_seal_owned(stream, bytes);
	} else {
		stream_wait(stream)->queue = buffer_steal(bytes);
		stream_send(stream);
	}
	buffer_fini(bytes);
}

size_t stream_backlog(const struct stream *stream)
{
	const struct stream_waiting *waiting = stream->waiting;

	return waiting ? waiting->in_flight.length + waiting->queue.length +
				 waiting->unsealed.length
		       : 0;
}

size_t stream_unwritten(const struct stream *stream)
{
	const struct stream_waiting *waiting = stream->waiting;

	return waiting ? uv_stream_get_write_queue_size(
				 (const uv_stream_t *)(const void *)&stream->tcp) +
				 waiting->in_flight.length - waiting->gone - waiting->part +
				 waiting->queue.length + waiting->unsealed.length - waiting->begun
		       : 0;
}

static void stream_on_shutdown(uv_shutdown_t *request, int status)
{
	uv_handle_t *handle = (uv_handle_t *)request->handle;

	(void)status;
	free(request);
	if (!uv_is_closing(handle))
		session_on_drained(handle->data);
}

/* Nothing may stand behind it. */
void stream_say_farewell(struct stream *stream)
{
	struct session *session = stream->tcp.data;

	if (!stream->tls || stream->shaking || stream->broken || stream->said ||
	    stream_has_unsealed(stream))
		return;
	tls_end(stream->tls, &session->loop->sealed);
	stream_put_sealed(stream);
	stream->said = true;
}

/* Sends our FIN once nothing is left to write. */
static void stream_finish(struct stream *stream)
{
	uv_shutdown_t *request;

	if (!stream->shutting || stream->shut)
		return;
	stream_say_farewell(stream);
	if (stream_backlog(stream) > 0)
		return;
	stream->shut = true;
	request = must_calloc(1, sizeof(*request));
	if (uv_shutdown(request, stream_handle(stream), stream_on_shutdown) != 0)
		free(request);
}

void stream_shutdown(struct stream *stream)
{
	stream->shutting = true;
	stream_finish(stream);
}

/* A part has left. */
static void stream_take_off(struct stream_waiting *waiting)
{
	waiting->gone += waiting->part;
	waiting->part = 0;
	if (waiting->gone < waiting->in_flight.length)
		return;
	stream_free_bytes(waiting, &waiting->in_flight);
	waiting->gone = 0;
}

static void stream_on_written(uv_write_t *request, int status)
{
	struct stream *stream = (struct stream *)(void *)request->handle;
	struct session *session = stream->tcp.data;
	struct stream_waiting *waiting = stream->waiting;

	stream_take_off(waiting);
	if (status < 0)
		stream->broken = true;
	if (uv_is_closing((uv_handle_t *)(void *)&stream->tcp))
		return;
	stream_send(stream);
	stream_seal_on(stream);
	if (stream->broken && waiting->part == 0)
		stream_drop(waiting);
	if (stream_backlog(stream) == 0) {
		free(waiting);
		stream->waiting = NULL;
	}
	stream_finish(stream);
	session_on_drained(session);
}

/* What TLS itself answers (to updates of keys, to wishes to negotiate again) grows with what the
 * other end sends. False: it sends on, and does not read. */
static bool stream_answer(struct stream *stream)
{
	struct session *session = stream->tcp.data;
	size_t length = session->loop->sealed.length;

	stream_put_sealed(stream);
	if (stream_backlog(stream) == 0)
		stream->answered = 0;
	else
		stream->answered += (uint32_t)length;
	return stream->answered <= ANSWERED_MAX;
}

/* Reads plain bytes to where the session wants them, as many as there are room for. */
static enum tls_step stream_open_sealed(struct stream *stream, uv_buf_t *room, size_t *length)
{
	struct session *session = stream->tcp.data;
	enum tls_step step = TLS_DONE;

	*length = 0;
	while (step == TLS_DONE && *length < room->len) {
		size_t part = 0;

		step = tls_read(stream->tls, room->base + *length, room->len - *length, &part,
				&session->loop->sealed);
		*length += part;
	}
	return stream_answer(stream) ? step : TLS_FAILED;
}

/* What has come is handed on whole, also if the session has stopped reading meanwhile: it is no
 * more than one buffer. */
static void stream_pull(struct stream *stream)
{
	uv_handle_t *handle = (uv_handle_t *)(void *)&stream->tcp;
	enum tls_step step = TLS_DONE;

	while (step == TLS_DONE && !uv_is_closing(handle)) {
		uv_buf_t room;
		size_t length;

		session_on_alloc(handle, SEALED_AT_ONCE, &room);
		step = stream_open_sealed(stream, &room, &length);
		session_on_read(stream_handle(stream), (ssize_t)length, &room);
	}
	if (step == TLS_MORE || uv_is_closing(handle) || stream->ended)
		return;
	session_on_read(stream_handle(stream), step == TLS_ENDED ? UV_EOF : UV_EPROTO,
			&(uv_buf_t){0});
}

/* The other end is told, also of why the handshake failed. */
static void stream_shake(struct stream *stream)
{
	struct session *session = stream->tcp.data;
	enum tls_step step = tls_handshake(stream->tls, &session->loop->sealed);

	stream_put_sealed(stream);
	if (step == TLS_MORE)
		return;
	stream->shaking = false;
	uv_read_stop(stream_handle(stream));
	tls_keep(stream->tls);
	session_on_secured(session, stream, step == TLS_DONE ? NULL : tls_reason(stream->tls));
}

static void stream_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
	struct session *session = handle->data;

	(void)suggested;
	*buffer = stream_room(session->loop->sealed_buffer, LOOP_READ_BUFFER);
}

static void stream_on_sealed(uv_stream_t *handle, ssize_t length, const uv_buf_t *buffer)
{
	struct stream *stream = (struct stream *)(void *)handle;
	struct bytes sealed = {(const uint8_t *)buffer->base, (size_t)length};

	if (length == 0)
		return;
	if (length < 0 && stream->shaking) {
		session_on_secured(handle->data, stream, uv_strerror((int)length));
	} else if (length < 0) {
		session_on_read(handle, length, buffer);
	} else {
		tls_feed(stream->tls, sealed);
		(stream->shaking ? stream_shake : stream_pull)(stream);
	}
}

void stream_secure(struct stream *stream, struct tls *tls)
{
	stream->tls = tls;
	stream->shaking = true;
	uv_read_start(stream_handle(stream), stream_on_alloc, stream_on_sealed);
	stream_shake(stream);
}

void stream_deliver(struct stream *stream)
{
	if (!stream->tls || stream->ended)
		return;
	stream_pull(stream);
	tls_keep(stream->tls); /* frees what has been read */
}

void stream_start_reading(struct stream *stream)
{
	if (stream->reading || stream->ended)
		return;
	stream->reading = true;
	if (stream->tls)
		uv_read_start(stream_handle(stream), stream_on_alloc, stream_on_sealed);
	else
		uv_read_start(stream_handle(stream), session_on_alloc, session_on_read);
}

void stream_stop_reading(struct stream *stream)
{
	if (!stream->reading)
		return;
	stream->reading = false;
	uv_read_stop(stream_handle(stream));
}

bool stream_has_ended(const struct stream *stream)
{
	struct pollfd other = {.events = POLLRDHUP};

	return stream->ended ||
	       (uv_fileno((const uv_handle_t *)(const void *)&stream->tcp, &other.fd) == 0 &&
		poll(&other, 1, 0) > 0);
}

void stream_fini(struct stream *stream)
{
	if (stream->waiting) {
		stream->waiting->secret = true;
		stream_drop(stream->waiting);
	}
	free(stream->waiting);
	tls_free(stream->tls);
	stream->tls = NULL;
}
