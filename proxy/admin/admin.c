/* The admin address: the status page, /rules, /connections, /metrics, /healthz and /readyz over
 * HTTP, by libmicrohttpd in a thread of its own. */
#include "proxy/admin/admin.h"

#include "proxy/base/address.h"
#include "proxy/client/listener.h"
#include "proxy/base/log.h"
#include "proxy/base/metrics.h"
#include "proxy/admin/status.h"

#include <bson/bson.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* libmicrohttpd's own thread would spin while there are no descriptors. Ours pauses then, and
 * gives away the spare one, so that a probe is told that clients are not accepted. */
struct admin {
	struct MHD_Daemon *daemon;
	struct status status;
	pthread_t thread;
	int events; /* libmicrohttpd's epoll */
	int wake;   /* an eventfd: ends the thread */
	int spare;  /* a descriptor kept for who asks while there are no others; -1: lent */
};

/* Who is slow, or says nothing, may not keep a probe of /healthz out for long; nor may all that one
 * address has. */
#define CONNECTIONS_MAX 500u
#define CONNECTIONS_OF_ADDRESS 250u
#define IDLE_SECONDS 5u

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, const char *type,
			       const void *text, size_t length)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		length, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	MHD_add_response_header(response, "Content-Security-Policy",
				"default-src 'none'; style-src 'unsafe-inline'");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result respond_text(struct MHD_Connection *connection, unsigned status,
				    const char *text)
{
	return respond(connection, status, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result respond_not_ready(struct MHD_Connection *connection,
					 const struct status *status)
{
	char reason[1024], text[sizeof(reason) + 32];

	status_not_ready(status, reason, sizeof(reason));
	snprintf(text, sizeof(text), "not ready: %s\n", reason);
	return respond_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

/* Clients are served, also where what they write waits for a majority. */
static enum MHD_Result respond_ready(struct MHD_Connection *connection, struct mover *mover)
{
	char lacking[1024], text[sizeof(lacking) + 32];

	snprintf(text, sizeof(text), "ready%s%s\n",
		 mover_lacks(mover, lacking, sizeof(lacking)) ? ", but " : "", lacking);
	return respond_text(connection, MHD_HTTP_OK, text);
}

static void print_metrics(struct buffer *out, const struct status *status)
{
	(void)status;
	metrics_print(out);
}

static const struct page {
	const char *path;
	const char *type;
	void (*print)(struct buffer *out, const struct status *status);
} pages[] = {
	{"/", "text/html; charset=utf-8", status_page},
	{"/rules", "application/json", status_rules},
	{"/connections", "application/json", status_connections},
	{"/metrics", "text/plain; version=0.0.4; charset=utf-8", print_metrics},
};

static enum MHD_Result respond_page(struct MHD_Connection *connection, const struct page *page,
				    const struct status *status)
{
	auto_buffer struct buffer text = {0};

	page->print(&text, status);
	return respond(connection, MHD_HTTP_OK, page->type, text.data, text.length);
}

/* The parameters are libmicrohttpd's. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result admin_on_request(void *context, struct MHD_Connection *connection,
					const char *url, const char *method, const char *version,
					const char *upload, size_t *upload_size, void **request)
{
	struct admin *admin = context;

	(void)version;
	(void)upload;
	(void)upload_size;
	(void)request;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return respond_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
	if (strcmp(url, "/healthz") == 0)
		return respond_text(connection, MHD_HTTP_OK, "ok\n");
	if (strcmp(url, "/readyz") == 0 && status_ready(&admin->status))
		return respond_ready(connection, admin->status.mover);
	if (strcmp(url, "/readyz") == 0)
		return respond_not_ready(connection, &admin->status);
	for (size_t i = 0; i < ARRAY_LENGTH(pages); i++) {
		if (strcmp(url, pages[i].path) == 0)
			return respond_page(connection, &pages[i], &admin->status);
	}
	return respond_text(connection, MHD_HTTP_NOT_FOUND,
			    "there are /, /rules, /connections, /metrics, /healthz and /readyz\n");
}

#define IDLE_MS 1000
#define SHORT_MS 100 /* between two looks while there are no descriptors */

/* Milliseconds until libmicrohttpd is to look at its connections. At least once a second: it
 * listens again after a shortage of descriptors only when it is called. */
static int due_in(struct admin *admin)
{
	MHD_UNSIGNED_LONG_LONG milliseconds;

	if (MHD_get_timeout(admin->daemon, &milliseconds) != MHD_YES || milliseconds > IDLE_MS)
		return IDLE_MS;
	return (int)milliseconds;
}

/* False: no descriptor is left, but the spare one. */
static bool descriptor_left(struct admin *admin)
{
	int another;

	if (admin->spare < 0)
		admin->spare = fcntl(admin->events, F_DUPFD_CLOEXEC, 0);
	another = admin->spare < 0 ? -1 : fcntl(admin->events, F_DUPFD_CLOEXEC, 0);
	if (another >= 0)
		close(another);
	return another >= 0;
}

static void run_short(struct admin *admin)
{
	struct pollfd wake = {.fd = admin->wake, .events = POLLIN};

	if (admin->spare >= 0)
		close(admin->spare);
	admin->spare = -1;
	MHD_run(admin->daemon);
	(void)poll(&wake, 1, SHORT_MS);
}

static void *admin_run(void *context)
{
	struct admin *admin = context;
	struct pollfd waited[] = {{.fd = admin->wake, .events = POLLIN},
				  {.fd = admin->events, .events = POLLIN}};

	while (!(waited[0].revents & POLLIN)) {
		(void)poll(waited, ARRAY_LENGTH(waited), due_in(admin));
		if (descriptor_left(admin))
			MHD_run(admin->daemon);
		else
			run_short(admin);
	}
	return NULL;
}

static void admin_start_thread(struct admin *admin)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(admin->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	require(info && info->epoll_fd >= 0);
	admin->events = info->epoll_fd;
	admin->wake = eventfd(0, EFD_CLOEXEC);
	require(admin->wake >= 0);
	admin->spare = -1;
	require(pthread_create(&admin->thread, NULL, admin_run, admin) == 0);
}

must_check bool admin_start(struct admin **admin, const struct service *service)
{
	const struct config *config = service->config;
	struct sockaddr_storage address = {0};
	/* Not select: it knows no descriptor beyond 1,023. */
	unsigned flags = MHD_USE_EPOLL;
	struct admin *made;
	char reason[256] = "cannot be resolved";

	*admin = NULL;
	if (!config->admin)
		return true;
	if (!listener_probe(config->admin, reason, sizeof(reason)) ||
	    !address_resolve_now(config->admin, &address)) {
		log_error("the admin address: %s", reason);
		return false;
	}
	if (address.ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	made = must_calloc(1, sizeof(*made));
	made->status = (struct status){config, service->mover, &service->paused,
				       bson_get_monotonic_time()};
	made->daemon =
		MHD_start_daemon(flags, 0, NULL, NULL, admin_on_request, made, MHD_OPTION_SOCK_ADDR,
				 &address, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
				 MHD_OPTION_PER_IP_CONNECTION_LIMIT, CONNECTIONS_OF_ADDRESS,
				 MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_END);
	if (made->daemon) {
		admin_start_thread(made);
		*admin = made;
		return true;
	}
	free(made);
	log_error("cannot listen on the admin address '%s'", config->admin);
	return false;
}

void admin_stop(struct admin *admin)
{
	if (!admin)
		return;
	require(eventfd_write(admin->wake, 1) == 0);
	pthread_join(admin->thread, NULL);
	close(admin->wake);
	if (admin->spare >= 0)
		close(admin->spare);
	MHD_stop_daemon(admin->daemon);
	free(admin);
}
