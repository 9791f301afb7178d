/* One side of a session: writes at once what the kernel takes and queues the rest. */
#include "proxy/client/stream.h"

#include "proxy/client/session.h"

#include <poll.h>
#include <stdlib.h>

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

	stream->in_flight = NULL;
	stream->in_flight_length = 0;
	buffer_fini(&write->bytes);
	free(write);
	if (status < 0)
		stream->broken = true;
	if (uv_is_closing((uv_handle_t *)(void *)&stream->tcp))
		return;
	stream_send_queue(stream);
	stream_finish(stream);
	session_on_drained(stream->tcp.data);
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

void stream_write(struct stream *stream, struct bytes bytes)
{
	size_t taken;

	if (stream->broken || stream->shutting || bytes.length == 0)
		return;
	taken = stream_try(stream, bytes);
	if (taken == bytes.length || stream->broken)
		return;
	buffer_append(&stream->queue, bytes.data + taken, bytes.length - taken);
	stream_send_queue(stream);
}

void stream_write_owned(struct stream *stream, struct buffer *bytes)
{
	if (stream->broken || stream->shutting || stream->in_flight || stream->queue.length > 0 ||
	    bytes->length < 65536) {
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

void stream_shutdown(struct stream *stream)
{
	stream->shutting = true;
	stream_finish(stream);
}

void stream_start_reading(struct stream *stream)
{
	if (stream->reading || stream->ended)
		return;
	stream->reading = true;
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
	buffer_fini(&stream->queue);
}
