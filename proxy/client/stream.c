/* One side of a session: writes at once what the kernel takes and queues the rest. */
#include "proxy/client/stream.h"

#include "proxy/client/session.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#define SEALED_AT_ONCE 65536 /* plain bytes */
#define ANSWERED_MAX 65536   /* sealed bytes */

struct stream_write {
	uv_write_t request;
	struct buffer bytes;
};

static uv_stream_t *stream_handle(struct stream *stream)
{
	return (uv_stream_t *)(void *)&stream->tcp;
}

static void stream_send_queue(struct stream *stream);
static void stream_finish(struct stream *stream);

static void stream_on_written(uv_write_t *request, int status)
{
	struct stream_write *write = (struct stream_write *)(void *)request;
	struct stream *stream = (struct stream *)(void *)request->handle;
	struct session *session = stream->tcp.data;

	stream->in_flight = NULL;
	stream->in_flight_length = 0;
	(session->rights.secret ? buffer_wipe : buffer_fini)(&write->bytes);
	free(write);
	if (status < 0)
		stream->broken = true;
	if (uv_is_closing((uv_handle_t *)(void *)&stream->tcp))
		return;
	stream_send_queue(stream);
	stream_finish(stream);
	session_on_drained(session);
}

static void stream_send_queue(struct stream *stream)
{
	struct stream_write *write;
	uv_buf_t view;

	if (stream->in_flight || stream->queue.length == 0)
		return;
	if (stream->broken) {
		buffer_fini(&stream->queue);
		return;
	}
	write = must_calloc(1, sizeof(*write));
	write->bytes = buffer_steal(&stream->queue);
	view = uv_buf_init((char *)write->bytes.data, (unsigned)write->bytes.length);
	stream->in_flight = write;
	stream->in_flight_length = (uint32_t)write->bytes.length;
	if (uv_write(&write->request, stream_handle(stream), &view, 1, stream_on_written) == 0)
		return;
	stream->in_flight = NULL;
	stream->in_flight_length = 0;
	stream->broken = true;
	buffer_fini(&write->bytes);
	free(write);
}

/* How many of the bytes the kernel took at once. */
static size_t stream_try(struct stream *stream, struct bytes bytes)
{
	uv_buf_t view = uv_buf_init((char *)(uintptr_t)bytes.data, (unsigned)bytes.length);
	int taken;

	if (stream->in_flight || stream->queue.length > 0)
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

/* Bytes as the other end gets them. */
static void stream_put(struct stream *stream, struct bytes bytes)
{
	size_t taken;

	if (stream->broken || stream->shutting || bytes.length == 0)
		return;
	taken = stream_try(stream, bytes);
	if (taken == bytes.length || stream->broken)
		return;
	bytes = (struct bytes){bytes.data + taken, bytes.length - taken};
	if (buffer_try_append(&stream->queue, bytes))
		stream_send_queue(stream);
	else
		stream_starve(stream);
}

/* What TLS has sealed goes out; the room for it is kept for the next. */
static void stream_put_sealed(struct stream *stream)
{
	struct session *session = stream->tcp.data;
	struct buffer *sealed = &session->loop->sealed;

	stream_put(stream, buffer_view(sealed));
	sealed->length = 0;
}

static void stream_seal(struct stream *stream, struct bytes bytes)
{
	struct session *session = stream->tcp.data;

	while (bytes.length > 0 && !stream->broken && !stream->shutting) {
		struct bytes part = {bytes.data, least(bytes.length, SEALED_AT_ONCE)};

		if (!tls_write(stream->tls, part, &session->loop->sealed))
			stream->broken = true;
		stream_put_sealed(stream);
		bytes.data += part.length;
		bytes.length -= part.length;
	}
}

void stream_write(struct stream *stream, struct bytes bytes)
{
	if (stream->tls)
		stream_seal(stream, bytes);
	else
		stream_put(stream, bytes);
}

void stream_write_owned(struct stream *stream, struct buffer *bytes)
{
	if (stream->broken || stream->shutting || stream->in_flight || stream->queue.length > 0 ||
	    stream->tls || bytes->length < 65536) {
		stream_write(stream, buffer_view(bytes));
		buffer_fini(bytes);
		return;
	}
	stream->queue = buffer_steal(bytes);
	stream_send_queue(stream);
}

size_t stream_backlog(const struct stream *stream)
{
	return stream->in_flight_length + stream->queue.length;
}

static void stream_on_shutdown(uv_shutdown_t *request, int status)
{
	uv_handle_t *handle = (uv_handle_t *)request->handle;

	(void)status;
	free(request);
	if (!uv_is_closing(handle))
		session_on_drained(handle->data);
}

/* Sends our FIN once nothing is left to write. */
static void stream_finish(struct stream *stream)
{
	uv_shutdown_t *request;

	if (!stream->shutting || stream->shut || stream_backlog(stream) > 0)
		return;
	stream->shut = true;
	request = must_calloc(1, sizeof(*request));
	if (uv_shutdown(request, stream_handle(stream), stream_on_shutdown) != 0)
		free(request);
}

void stream_say_farewell(struct stream *stream)
{
	struct session *session = stream->tcp.data;

	if (!stream->tls || stream->shaking || stream->broken || stream->shutting)
		return;
	tls_end(stream->tls, &session->loop->sealed);
	stream_put_sealed(stream);
}

void stream_shutdown(struct stream *stream)
{
	stream_say_farewell(stream);
	stream->shutting = true;
	stream_finish(stream);
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
	*buffer = uv_buf_init(session->loop->sealed_buffer, LOOP_READ_BUFFER);
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
	buffer_wipe(&stream->queue);
	tls_free(stream->tls);
	stream->tls = NULL;
}
