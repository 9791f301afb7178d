/* A listening socket of one loop. */
#include "proxy/client/listener.h"

#include "proxy/base/address.h"
#include "proxy/process/inherited.h"
#include "proxy/base/log.h"
#include "proxy/client/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ACCEPT_BURST 64

static int bind_socket(const char *address, bool shared, char *reason, size_t size)
{
	struct sockaddr_storage where = {0};
	socklen_t length;
	int on = 1, socket_number;

	if (!address_resolve_now(address, &where)) {
		snprintf(reason, size, "cannot resolve the address '%s'", address);
		return -1;
	}
	length = where.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					     : sizeof(struct sockaddr_in);
	socket_number = socket(where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (socket_number < 0) {
		snprintf(reason, size, "cannot make a socket for '%s': %s", address,
			 strerror(errno));
		return -1;
	}
	setsockopt(socket_number, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (shared)
		setsockopt(socket_number, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (bind(socket_number, (struct sockaddr *)&where, length) == 0 &&
	    listen(socket_number, 1024) == 0)
		return socket_number;
	snprintf(reason, size, "cannot listen on '%s': %s", address, strerror(errno));
	close(socket_number);
	return -1;
}

must_check int listener_bind(const char *address, char *reason, size_t size)
{
	int passed_on = inherited_take(address);

	return passed_on >= 0 ? passed_on : bind_socket(address, true, reason, size);
}

must_check bool listener_probe(const char *address, bool ours, char *reason, size_t size)
{
	bool shared = ours || inherited_overlaps(address);
	int socket_number = inherited_has(address) ? 0 : bind_socket(address, shared, reason, size);

	if (socket_number == 0)
		return true;
	if (socket_number < 0)
		return false;
	close(socket_number);
	return true;
}

static bool descriptors_left(const struct service *service)
{
	return 2 * (atomic_load(&service->connections) + 1) <= service->descriptors;
}

static void listener_pause(struct listener *listener, const char *why)
{
	static struct log_limit paused;

	if (listener->paused)
		return;
	listener->paused = true;
	uv_poll_stop(&listener->poll);
	loop_need_ticks(listener->loop);
	if (listener->told)
		return;
	listener->told = true;
	atomic_fetch_add(&listener->loop->service->paused, 1);
	metric_add(&listener->loop->metrics->accept_pauses, 1);
	log_limited(&paused, CONFIG_LOG_WARNING, "2002 accepting on '%s' is paused: %s",
		    listener->address, why);
}

static void listener_served_all(struct listener *listener)
{
	if (!listener->told)
		return;
	listener->told = false;
	atomic_fetch_sub(&listener->loop->service->paused, 1);
}

static void listener_on_readable(uv_poll_t *poll, int status, int events)
{
	struct listener *listener = (struct listener *)(void *)poll;

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPT_BURST; i++) {
		struct sockaddr_storage from = {0};
		socklen_t length = sizeof(from);
		struct peer peer;
		int accepted;

		if (!descriptors_left(listener->loop->service)) {
			listener_pause(listener,
				       "descriptors are used up; raise the limit of open files");
			return;
		}
		accepted = accept4(listener->socket, (struct sockaddr *)&from, &length,
				   SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (accepted >= 0) {
			peer = peer_of((const struct sockaddr *)&from);
			session_open(listener->loop, listener->listen_index, accepted, &peer);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			listener_pause(listener, strerror(errno));
		else if (errno == EAGAIN)
			listener_served_all(listener);
		if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

void listener_open(struct loop *loop, const char *address, uint32_t listen_index, int socket)
{
	struct listener *listener = must_calloc(1, sizeof(*listener));

	listener->loop = loop;
	listener->address = must_strndup(address, strlen(address));
	listener->listen_index = listen_index;
	listener->socket = socket;
	listener->next = loop->listeners;
	loop->listeners = listener;
	uv_poll_init(&loop->uv, &listener->poll, socket);
	uv_poll_start(&listener->poll, UV_READABLE, listener_on_readable);
}

static void listener_on_closed(uv_handle_t *handle)
{
	struct listener *listener = (struct listener *)(void *)handle;

	close(listener->socket);
	free(listener->address);
	free(listener);
}

void listener_accept(struct listener *listener)
{
	if (!listener->paused)
		listener_on_readable(&listener->poll, 0, UV_READABLE);
}

void listener_close(struct listener *listener)
{
	struct listener **at = &listener->loop->listeners;

	while (*at != listener)
		at = &(*at)->next;
	*at = listener->next;
	listener_served_all(listener);
	uv_close((uv_handle_t *)(void *)&listener->poll, listener_on_closed);
}

void listener_resume(struct listener *listener)
{
	if (!listener->paused || !descriptors_left(listener->loop->service))
		return;
	listener->paused = false;
	uv_poll_start(&listener->poll, UV_READABLE, listener_on_readable);
	/* Nobody may wait any more: then nothing would say that all are served. */
	listener_on_readable(&listener->poll, 0, UV_READABLE);
}
