/* Connections of load balancers that say by a PROXY header where a client comes from. Just the
 * header is read; what is behind it stays in the kernel. */
#include "proxy/client/session.h"

#include "protocol/proxied.h"

bool session_expects_header(const struct session *session)
{
	const struct config_listen *listen =
		&session->loop->service->config->listen[session->listen_index];
	struct network network;

	for (char *const *text = listen->proxied; text && *text; text++)
		if (network_parse(bytes_of(*text), &network) &&
		    network_holds(&network, session->peer.address.address))
			return true;
	return false;
}

static void proxied_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
	struct session *session = handle->data;
	struct buffer *held = &session->request.held;

	(void)suggested;
	buffer_reserve(held, session->request.wanted);
	*buffer = stream_room(held->data + held->length, session->request.wanted);
}

static void proxied_break(struct session *session)
{
	metric_add(&session->loop->metrics->connections_strange, 1);
	session_tell(session, STRANGERS_UNPROXIED);
	session_close(session, SESSION_END_DONE);
}

static void proxied_on_bytes(struct session *session)
{
	struct proxied proxied;

	switch (proxied_read(buffer_view(&session->request.held), &proxied,
			     &session->request.wanted)) {
	case PROXIED_SHORT:
		return;
	case PROXIED_INVALID:
		proxied_break(session);
		return;
	case PROXIED_READY:
		break;
	}
	if (proxied.known) {
		memcpy(session->peer.address.address, proxied.address, NETWORK_ADDRESS);
		session->peer.address.port = proxied.port;
	}
	buffer_fini(&session->request.held);
	session->request.wanted = 0;
	stream_stop_reading(&session->client);
	session_enter(session);
}

static void proxied_on_read(uv_stream_t *handle, ssize_t length, const uv_buf_t *buffer)
{
	struct session *session = handle->data;

	(void)buffer;
	if (session->state == SESSION_CLOSING || length == 0)
		return;
	if (length < 0) {
		session_close(session, length == UV_EOF ? SESSION_END_DONE : SESSION_END_RESET);
		return;
	}
	session->request.held.length += (size_t)length;
	proxied_on_bytes(session);
}

void session_read_header(struct session *session)
{
	struct proxied proxied;

	require(proxied_read((struct bytes){0}, &proxied, &session->request.wanted) ==
		PROXIED_SHORT);
	session->client.reading = true;
	uv_read_start((uv_stream_t *)(void *)&session->client.tcp, proxied_on_alloc,
		      proxied_on_read);
}
