/* One side of a session: a TCP handle with what the kernel has not taken yet behind it.
 *
 *      written at once by uv_try_write | in flight (one uv_write) | queue | unsealed
 *
 * Ordinary messages never touch the queue: no request, no allocation. With TLS, what is written and
 * queued are sealed bytes; session_on_alloc and session_on_read see plain ones. Of a long message
 * the first part is sealed at once, and each further part in a turn of the loop of its own, when
 * what was in flight before has left. Until then it is unsealed. */
#pragma once

#include "proxy/tls/tls.h"

#include <uv.h>

struct session;

struct stream {
	uv_tcp_t tcp;                   /* data: the session */
	struct tls *tls;                /* NULL: plain bytes */
	struct stream_waiting *waiting; /* what the kernel has not taken; NULL: nothing */
	struct resolution *resolution;  /* the other end's name is looked up; NULL: it is not */
	uint32_t
		answered; /* TLS's own answers since the other end last took all that was written */
	bool shaking;     /* the handshake of TLS is under way */
	bool reading;     /* bytes of the other end are asked for */
	bool ended;       /* the other end has sent its FIN */
	bool shutting;    /* our FIN is to go out, or has gone, behind all that was written */
	bool said;        /* TLS's farewell has been sealed: nothing may stand behind it */
	bool shut;        /* our FIN has been handed to the kernel */
	bool broken;      /* writing failed: what comes is thrown away, reading says why */
};

/* As uv_buf_init, without a call. */
static inline uv_buf_t stream_room(void *start, size_t length)
{
	return (uv_buf_t){.base = start, .len = length};
}

/* The connection is to be TLS's, before any other byte is read or written; takes `tls` over.
 * session_on_secured tells of the end of the handshake. Then reading has stopped. */
void stream_secure(struct stream *stream, struct tls *tls);
/* Delivers what came behind the other end's handshake in one go with it. */
void stream_deliver(struct stream *stream);
/* TLS's farewell, if there is time for it: the connection will be closed. */
void stream_say_farewell(struct stream *stream);
/* Hands bytes to the kernel, keeping a copy of what it doesn't take. */
void stream_write(struct stream *stream, struct bytes bytes);
/* As stream_write for a buffer that the stream may keep: taken over, empty afterwards. */
void stream_write_owned(struct stream *stream, struct buffer *bytes);
/* What has been written and is still in our memory: it counts until all of a part has left. */
size_t stream_backlog(const struct stream *stream);
/* How much of it the kernel has not taken. */
size_t stream_unwritten(const struct stream *stream);
/* FIN behind all that was written. */
void stream_shutdown(struct stream *stream);
void stream_start_reading(struct stream *stream);
void stream_stop_reading(struct stream *stream);
/* Whether the other end has closed, or at least says no more, even where nothing has been read of
 * it. */
bool stream_has_ended(const struct stream *stream);
/* Frees what an idle stream needs no more. */
void stream_fini(struct stream *stream);
