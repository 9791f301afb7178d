/* The way from a client's socket to two streams that relay: limits, TLS with the client, the
 * connection to the server, TLS with the server. */
#include "proxy/client/session.h"

#include "proxy/base/address.h"
#include "proxy/base/log.h"
#include "proxy/crowd/addresses.h"

#include <stdlib.h>

#define KEEPALIVE_SECONDS 60
#define LOOKED_AT 512 /* sessions */
#define CROWD 16      /* connections of one address; fewer may be its drivers' monitors */
#define CROWD_SHARE 4 /* and this part of all that are looked at */

static _Atomic uint64_t last_id;
/* Clients can come as often as they like. */
static struct log_limit unreachable, unresolved, unsecured;

static void session_secure(struct session *session, struct stream *stream);

/* Nothing is said about the server. */
static bool session_lacks_room(int status)
{
	return status == UV_EMFILE || status == UV_ENFILE || status == UV_ENOBUFS ||
	       status == UV_ENOMEM || status == UV_EADDRNOTAVAIL;
}

/* The mover asks whether clients reach the server at all, unless it was Spillway that had no room
 * for the connection. */
void session_fail_upstream(const struct session *session, int status)
{
	metric_add(&session->loop->metrics->upstream_failures, 1);
	if (!session_lacks_room(status))
		mover_doubt(session->loop->service->mover, session->listen_index);
}

/* That a server is lost is told once, by the mover (paths.h). */
static void session_tell_unreachable(const struct session *session, int status)
{
	enum config_log_level level =
		session_lacks_room(status) ? CONFIG_LOG_WARNING : CONFIG_LOG_DEBUG;

	log_limited(&unreachable, level, "2010 session %llu: cannot connect to server '%s': %s",
		    (unsigned long long)session->id, session_server_name(session),
		    uv_strerror(status));
}

static void session_on_connected(uv_connect_t *connect, int status)
{
	struct session *session = connect->handle->data;

	free(connect);
	if (session->state == SESSION_CLOSING)
		return;
	if (status < 0) {
		session_fail_upstream(session, status);
		session_tell_unreachable(session, status);
		session_close(session, SESSION_END_RESET);
		return;
	}
	uv_tcp_nodelay(&session->server.tcp, 1);
	uv_tcp_keepalive(&session->server.tcp, 1, KEEPALIVE_SECONDS);
	session_secure(session, &session->server);
}

static void session_connect(struct session *session, const struct sockaddr *address)
{
	uv_connect_t *connect = must_calloc(1, sizeof(*connect));
	int status = uv_tcp_connect(connect, &session->server.tcp, address, session_on_connected);

	if (status == 0)
		return;
	free(connect);
	session_tell_unreachable(session, status);
	session_fail_upstream(session, status);
	session_close(session, SESSION_END_RESET);
}

static void session_on_resolved(void *context, const struct sockaddr *address)
{
	struct session *session = context;

	session->pinned = false;
	session->server.resolution = NULL;
	if (session->state == SESSION_CLOSING) {
		session_free_if_gone(session);
		return;
	}
	if (address) {
		session_connect(session, address);
		return;
	}
	log_limited(&unresolved, CONFIG_LOG_DEBUG, "2011 session %llu: cannot resolve server '%s'",
		    (unsigned long long)session->id, session_server_name(session));
	session_fail_upstream(session, UV_EAI_FAIL);
	session_close(session, SESSION_END_RESET);
}

static void session_init_stream(struct session *session, struct stream *stream)
{
	uv_tcp_init(&session->loop->uv, &stream->tcp);
	stream->tcp.data = session;
	session->handles++;
}

static void session_open_upstream(struct session *session)
{
	session_init_stream(session, &session->server);
	session->pinned = true; /* the resolver holds on to the session */
	session->server.resolution = address_resolve(
		&session->loop->uv, session_server_name(session), session_on_resolved, session);
}

static void session_fail_secured(struct session *session, const struct stream *stream,
				 const char *failure)
{
	struct metrics *metrics = session->loop->metrics;

	metric_add(&metrics->tls_failures, 1);
	if (stream == &session->server) {
		session_fail_upstream(session, UV_EPROTO);
		log_limited(&unsecured, CONFIG_LOG_WARNING,
			    "2012 session %llu: no TLS connection to server '%s': %s",
			    (unsigned long long)session->id, session_server_name(session), failure);
	} else {
		session_tell_unsecured(session, failure);
	}
	session_close(session, SESSION_END_DONE);
}

bool session_awaits_server(const struct session *session)
{
	return session->state == SESSION_OPENING && session->server.tcp.data;
}

void session_give_server_up(struct session *session)
{
	if (session->server.tls) {
		session_fail_secured(session, &session->server,
				     "it does not answer within limits.handshake");
		return;
	}
	session_fail_upstream(session, UV_ETIMEDOUT);
	session_tell_unreachable(session, UV_ETIMEDOUT);
	session_close(session, SESSION_END_DONE);
}

static void session_relay(struct session *session)
{
	session_set_state(session, SESSION_RELAYING);
	if (session_is_refused(session))
		stream_start_reading(&session->client);
	else
		session_update_reading(session);
	stream_deliver(&session->client);
	if (session->state != SESSION_CLOSING && !session_is_refused(session))
		stream_deliver(&session->server);
}

/* What comes after a side's handshake, or after its connection if there is none. */
static void session_go_on(struct session *session, const struct stream *stream)
{
	if (stream == &session->client && !session_is_refused(session))
		session_open_upstream(session);
	else
		session_relay(session);
}

void session_on_secured(struct session *session, struct stream *stream, const char *failure)
{
	if (session->state == SESSION_CLOSING)
		return;
	if (failure) {
		session_fail_secured(session, stream, failure);
		return;
	}
	metric_add(&session->loop->metrics->tls_handshakes, 1);
	if (tls_resumed(stream->tls))
		metric_add(&session->loop->metrics->tls_resumed, 1);
	session_go_on(session, stream);
}

/* TLS comes first where the configuration wants it. */
static void session_secure(struct session *session, struct stream *stream)
{
	const struct tls_pair *pair =
		tls_pairs_at(session->loop->service->tls, session->listen_index);
	bool client = stream == &session->client;
	struct tls_side *side = client ? pair->client : pair->server;
	SSL *connection;

	if (!side) {
		session_go_on(session, stream);
		return;
	}
	connection = client ? tls_side_accept(side)
			    : tls_side_connect(side, session_server_name(session));
	if (connection)
		stream_secure(stream, tls_new(connection));
	else
		session_fail_secured(session, stream, "no memory for a connection");
}

static bool session_is_stranger(const struct session *session)
{
	return session->state != SESSION_CLOSING && session->admission == SESSION_ADMITTED &&
	       session->peer.address.known && !session->rights.proven;
}

/* Of the loop's newest sessions: the newest stranger of the address that has a crowd of them. */
static struct session *session_find_crowd(struct loop *loop)
{
	struct addresses addresses = {.count = 0};
	struct session *at = loop->sessions;
	size_t looked = 0, count;
	const struct peer *most;

	for (; at && looked < LOOKED_AT; at = at->next, looked++)
		if (session_is_stranger(at))
			addresses_add(&addresses, &at->peer.address);
	most = addresses_most(&addresses, &count);
	if (count < CROWD || count < looked / CROWD_SHARE)
		return NULL;
	for (at = loop->sessions; at; at = at->next)
		if (session_is_stranger(at) && peer_same_address(&at->peer.address, most))
			return at;
	return NULL;
}

/* Where limits.connections is reached: somebody of a crowd of another address goes (decision 96).
 * Where nobody signs in at all, strangers can't be told from clients. */
static bool session_make_room(struct session *session)
{
	struct service *service = session->loop->service;
	struct session *other;

	if (!atomic_load(&service->users) || !session->peer.address.known)
		return false;
	other = session_find_crowd(session->loop);
	if (!other || peer_same_address(&other->peer.address, &session->peer.address))
		return false;
	metric_add(&session->loop->metrics->connections_refused, 1);
	session_tell(other, STRANGERS_SHED);
	session_close(other, SESSION_END_DONE);
	return true;
}

/* `open` counts all connections, with this one and with those that were refused; `same` those of
 * its address. */
static enum session_admission session_admit(struct session *session, int64_t open, int64_t same)
{
	struct service *service = session->loop->service;
	int64_t most = service->config->limits.connections_per_address;

	if (most > 0 && same > 2 * most)
		return SESSION_FAR_TOO_MANY;
	if (!mover_admits(service->mover))
		return SESSION_TOO_EARLY;
	if (most > 0 && same > most)
		return SESSION_TOO_MANY_THERE;
	if (open - atomic_load(&service->refused) > service->config->limits.connections &&
	    !session_make_room(session))
		return SESSION_TOO_MANY;
	return SESSION_ADMITTED;
}

static int64_t session_join_peer(struct session *session)
{
	struct service *service = session->loop->service;

	if (service->config->limits.connections_per_address == 0 || !session->peer.address.known)
		return 0;
	session->peer.counted = true;
	return peers_join(&service->peers, &session->peer.address);
}

void session_enter(struct session *session)
{
	struct service *service = session->loop->service;
	int64_t open = atomic_load(&service->connections);

	session->admission = session_admit(session, open, session_join_peer(session));
	if (session_is_refused(session))
		atomic_fetch_add(&service->refused, 1);
	if (session->admission == SESSION_FAR_TOO_MANY) {
		session_tell(session, STRANGERS_ADDRESS);
		session_close(session, SESSION_END_DONE);
	} else {
		session_secure(session, &session->client);
	}
}

void session_open(struct loop *loop, uint32_t listen_index, int socket, const struct peer *peer)
{
	struct session *session = must_calloc(1, sizeof(*session));

	atomic_fetch_add(&loop->service->connections, 1);
	session->loop = loop;
	session->id = atomic_fetch_add(&last_id, 1) + 1;
	session->listen_index = listen_index;
	session->peer.address = *peer;
	session->next_request_id = 0x5b000000;
	session_init_stream(session, &session->client);
	session_link(session);
	places_join(loop->service->places, listen_index);
	uv_tcp_open(&session->client.tcp, socket);
	uv_tcp_nodelay(&session->client.tcp, 1);
	uv_tcp_keepalive(&session->client.tcp, 1, KEEPALIVE_SECONDS);
	metric_add(&loop->metrics->connections_accepted, 1);
	metric_add(&loop->metrics->connections_open, 1);
	if (session_expects_header(session))
		session_read_header(session);
	else
		session_enter(session);
}
