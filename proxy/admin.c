/* The admin address: /healthz, /readyz, /metrics over HTTP, in libmicrohttpd's own thread. */
#include "proxy/admin.h"

#include "proxy/address.h"
#include "proxy/log.h"
#include "proxy/metrics.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

struct admin {
	struct MHD_Daemon *daemon;
	struct mover *mover;
};

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, const char *type,
			       const void *text, size_t length)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		length, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	MHD_add_response_header(response, "Content-Type", type);
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result respond_text(struct MHD_Connection *connection, unsigned status,
				    const char *text)
{
	return respond(connection, status, "text/plain; charset=utf-8", text, strlen(text));
}

static enum MHD_Result respond_not_ready(struct MHD_Connection *connection, struct mover *mover)
{
	char reason[1024], text[sizeof(reason) + 32];

	mover_not_ready(mover, reason, sizeof(reason));
	snprintf(text, sizeof(text), "not ready: %s\n", reason);
	return respond_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

static enum MHD_Result respond_metrics(struct MHD_Connection *connection)
{
	auto_buffer struct buffer text = {0};

	metrics_print(&text);
	return respond(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
		       text.data, text.length);
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
	if (strcmp(url, "/readyz") == 0 && mover_ready(admin->mover))
		return respond_text(connection, MHD_HTTP_OK, "ready\n");
	if (strcmp(url, "/readyz") == 0)
		return respond_not_ready(connection, admin->mover);
	if (strcmp(url, "/metrics") == 0)
		return respond_metrics(connection);
	return respond_text(connection, MHD_HTTP_NOT_FOUND,
			    "there are /healthz, /readyz and /metrics\n");
}

must_check bool admin_start(struct admin **admin, const struct config *config, struct mover *mover)
{
	struct sockaddr_storage address = {0};
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD;
	struct admin *made;

	*admin = NULL;
	if (!config->admin)
		return true;
	if (!address_resolve_now(config->admin, &address)) {
		log_error("cannot resolve the admin address '%s'", config->admin);
		return false;
	}
	if (address.ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	made = must_calloc(1, sizeof(*made));
	made->mover = mover;
	made->daemon = MHD_start_daemon(flags, 0, NULL, NULL, admin_on_request, made,
					MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT,
					50u, MHD_OPTION_CONNECTION_TIMEOUT, 30u, MHD_OPTION_END);
	if (made->daemon) {
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
	MHD_stop_daemon(admin->daemon);
	free(admin);
}
