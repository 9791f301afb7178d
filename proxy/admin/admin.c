/* The admin address: the status page, /status, /rules, /explain, /connections, /suggestions,
 * /metrics, /healthz and /readyz over HTTP, by libmicrohttpd. */
#include "proxy/admin/admin.h"

#include "proxy/admin/admin_thread.h"
#include "proxy/admin/crowd.h"
#include "proxy/admin/guard.h"
#include "proxy/admin/suggestions.h"
#include "proxy/base/address.h"
#include "proxy/client/unfit.h"
#include "proxy/explain/explain.h"
#include "proxy/base/admin_files.h"
#include "proxy/process/inherited.h"
#include "proxy/client/listener.h"
#include "proxy/base/log.h"
#include "proxy/base/latency.h"
#include "proxy/base/process_metrics.h"
#include "proxy/admin/reload_desk.h"
#include "proxy/admin/status.h"

#include <bson/bson.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

struct admin {
	struct service *service;
	struct MHD_Daemon *daemon;
	struct admin_thread thread;
	struct status status;
	struct admin_files files;
	struct guard guard;
	struct crowd *crowd;
	char *policy;
	bool only_1_3; /* of TLS: a reload does not change it */
};

/* Who is slow, or says nothing, may not keep a probe of /healthz out for long; nor may all that one
 * address has. */
#define CONNECTIONS_MAX (CROWD_MAX + CROWD_SPARE)
#define CONNECTIONS_OF_ADDRESS (CROWD_OF_ADDRESS + CROWD_SPARE)
#define IDLE_SECONDS 5u

/* Nobody's page may read, frame or keep what is answered; without a policy, nothing in it runs. */
static void add_headers(struct MHD_Response *response, const char *policy)
{
	static const struct {
		const char *name, *value;
	} headers[] = {{"Cache-Control", "no-store"},
		       {"X-Content-Type-Options", "nosniff"},
		       {"X-Frame-Options", "DENY"},
		       {"Referrer-Policy", "no-referrer"},
		       {"Cross-Origin-Resource-Policy", "same-origin"},
		       {"Cross-Origin-Opener-Policy", "same-origin"}};

	for (size_t i = 0; i < ARRAY_LENGTH(headers); i++)
		MHD_add_response_header(response, headers[i].name, headers[i].value);
	MHD_add_response_header(response, "Content-Security-Policy",
				policy ? policy : "default-src 'none'; frame-ancestors 'none'");
}

struct answer {
	unsigned status;
	const char *type;
	const char *policy; /* NULL: the strictest */
};

static enum MHD_Result respond(struct MHD_Connection *connection, struct answer answer,
			       const void *text, size_t length)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		length, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	MHD_add_response_header(response, "Content-Type", answer.type);
	add_headers(response, answer.policy);
	if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	if (answer.status == MHD_HTTP_UNAUTHORIZED) {
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"Spillway\"");
		MHD_add_response_header(response, "WWW-Authenticate",
					"Basic realm=\"Spillway\", charset=\"UTF-8\"");
	}
	result = MHD_queue_response(connection, answer.status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result respond_text(struct MHD_Connection *connection, unsigned status,
				    const char *text)
{
	return respond(connection, (struct answer){status, "text/plain; charset=utf-8", NULL}, text,
		       strlen(text));
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
static enum MHD_Result respond_ready(struct MHD_Connection *connection, const struct status *status)
{
	char lacking[1024], text[sizeof(lacking) + 32];

	snprintf(text, sizeof(text), "ready%s%s\n",
		 mover_lacks(status->mover, lacking, sizeof(lacking)) ? ", but " : "", lacking);
	return respond_text(connection, MHD_HTTP_OK, text);
}

/* Anybody may ask; the reasons name servers, and are for those who may see the status page. */
static enum MHD_Result respond_readiness(struct MHD_Connection *connection,
					 const struct status *status, bool reasons)
{
	bool serves = status_ready(status);

	if (reasons)
		return (serves ? respond_ready : respond_not_ready)(connection, status);
	return respond_text(connection, serves ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
			    serves ? "ready\n" : "not ready\n");
}

static void print_metrics(struct buffer *out, const struct status *status)
{
	metrics_print(out);
	latencies_print(out, status->config->rules);
	process_metrics_print(out);
}

static const struct page {
	const char *path;
	const char *type;
	void (*print)(struct buffer *out, const struct status *status);
} pages[] = {
	{"/", "text/html; charset=utf-8", status_page},
	{"/rules", "application/json", status_rules},
	{"/connections", "application/json", status_connections},
	{"/suggestions", "application/json", status_suggestions},
	{"/status", "application/json", status_now},
	{"/metrics", "text/plain; version=0.0.4; charset=utf-8", print_metrics},
};

static enum MHD_Result respond_page(struct MHD_Connection *connection, const struct page *page,
				    const struct admin *admin)
{
	struct answer answer = {MHD_HTTP_OK, page->type, NULL};
	auto_buffer struct buffer text = {0};

	if (page->print == status_page)
		answer.policy = admin->policy;
	page->print(&text, &admin->status);
	return respond(connection, answer, text.data, text.length);
}

/* A reason may quote a document. */
static void judge_match(void *context, struct match *match)
{
	const struct status *status = context;

	unfit_judge(status->mover, match);
	if (status->hidden && match->verdict == VERDICT_REFUSE &&
	    strcmp(match->refusal.what, "unfit") == 0)
		match_refuse(match, match->namespace->targets[0].rule, "unfit", STATUS_HIDDEN);
}

static enum MHD_Result respond_explain(struct MHD_Connection *connection,
				       const struct status *status)
{
	const char *json =
		MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "command");
	const struct match_judge judge = {judge_match, (void *)(uintptr_t)status};
	struct explain explain = {.judge = &judge};
	auto_free char *mistake = NULL;
	bson_t *command = explain_read(json ? json : "", NULL, &mistake), *explained;
	enum MHD_Result result;
	char *text;

	if (!command)
		return respond_text(connection, MHD_HTTP_BAD_REQUEST, mistake);
	explained = bson_new();
	explain.namespaces = namespace_cache_new(status->config->rules);
	explain_command(&explain, command, explained);
	namespace_cache_free(explain.namespaces);
	text = bson_as_relaxed_extended_json(explained, NULL);
	result = respond(connection, (struct answer){MHD_HTTP_OK, "application/json", NULL},
			 text ? text : "{}", strlen(text ? text : "{}"));
	bson_free(text);
	bson_destroy(explained);
	bson_destroy(command);
	return result;
}

static enum MHD_Result respond_refusal(struct MHD_Connection *connection,
				       enum guard_verdict verdict)
{
	if (verdict == GUARD_OTHER_SITE)
		return respond_text(connection, MHD_HTTP_FORBIDDEN,
				    "a page of another site may not ask this address\n");
	if (verdict == GUARD_OTHER_HOST)
		return respond_text(connection, MHD_HTTP_MISDIRECTED_REQUEST,
				    "this address does not go by the name in the header Host: add "
				    "the name to admin.hosts\n");
	return respond_text(connection, MHD_HTTP_UNAUTHORIZED,
			    "the token of admin.token_file is needed: as 'Authorization: Bearer "
			    "TOKEN', or as the password of any user\n");
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result admin_on_header(void *count, enum MHD_ValueKind kind, const char *name,
				       const char *value)
{
	(void)kind;
	(void)value;
	if (strcasecmp(name, "Host") == 0)
		++*(size_t *)count;
	return MHD_YES;
}

static enum guard_verdict judge(const struct admin *admin, struct MHD_Connection *connection,
				const char *url)
{
	size_t hosts = 0;
	struct guard_request request = {
		.path = url,
		.host = header(connection, "Host"),
		.authorization = header(connection, "Authorization"),
		.fetch_site = header(connection, "Sec-Fetch-Site"),
		.fetch_mode = header(connection, "Sec-Fetch-Mode"),
		.fetch_dest = header(connection, "Sec-Fetch-Dest"),
	};

	MHD_get_connection_values(connection, MHD_HEADER_KIND, admin_on_header, &hosts);
	request.hosts = hosts > 1;
	return guard_judge(&admin->guard, &request);
}

/* What was asked for at the path; NULL: nothing can be. */
static struct reload_desk *desk_of(const struct admin *admin, const char *url)
{
	if (strcmp(url, "/reload") == 0)
		return admin->service->desk;
	return strcmp(url, "/upgrade") == 0 ? admin->service->upgrade_desk : NULL;
}

static enum MHD_Result respond_outcome(struct MHD_Connection *connection, struct reload_desk *desk)
{
	struct reload_outcome outcome = reload_desk_outcome(desk);
	auto_buffer struct buffer text = {0};

	status_reload(&text, &outcome);
	free(outcome.report);
	return respond(connection, (struct answer){MHD_HTTP_OK, "application/json", NULL},
		       text.data, text.length);
}

static enum MHD_Result respond_get(const struct admin *admin, struct MHD_Connection *connection,
				   const char *url)
{
	enum guard_verdict verdict = judge(admin, connection, url);

	if (strcmp(url, "/healthz") == 0)
		return respond_text(connection, MHD_HTTP_OK, "ok\n");
	if (strcmp(url, "/readyz") == 0)
		return respond_readiness(connection, &admin->status, verdict == GUARD_PASSES);
	if (verdict != GUARD_PASSES)
		return respond_refusal(connection, verdict);
	if (desk_of(admin, url))
		return respond_outcome(connection, desk_of(admin, url));
	for (size_t i = 0; i < ARRAY_LENGTH(pages); i++) {
		if (strcmp(url, pages[i].path) == 0)
			return respond_page(connection, &pages[i], admin);
	}
	if (strcmp(url, "/explain") == 0)
		return respond_explain(connection, &admin->status);
	return respond_text(
		connection, MHD_HTTP_NOT_FOUND,
		"there are /, /status, /rules, /explain, /connections, /suggestions, /metrics, "
		"/healthz and /readyz\n");
}

/* Another site's page, or another machine without a token, has no file to be read. */
static enum MHD_Result respond_wish(const struct admin *admin, struct MHD_Connection *connection,
				    const char *url)
{
	enum guard_verdict verdict = judge(admin, connection, url);
	const union MHD_ConnectionInfo *client =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	auto_buffer struct buffer text = {0};

	if (verdict != GUARD_PASSES)
		return respond_refusal(connection, verdict);
	if (!header(connection, "Spillway-Reload"))
		return respond_text(connection, MHD_HTTP_FORBIDDEN,
				    "the header Spillway-Reload is needed: a page in a browser "
				    "cannot send it\n");
	if (!admin->files.token &&
	    !address_is_loopback((const struct sockaddr_storage *)(void *)client->client_addr))
		return respond_text(connection, MHD_HTTP_FORBIDDEN,
				    "without admin.token_file, only this machine may ask for a "
				    "reload or an upgrade\n");
	status_reload_asked(&text, reload_desk_ask(desk_of(admin, url)));
	return respond(connection, (struct answer){MHD_HTTP_OK, "application/json", NULL},
		       text.data, text.length);
}

/* The parameters are libmicrohttpd's. NOLINTNEXTLINE(readability-function-size) */
static enum MHD_Result admin_on_request(void *context, struct MHD_Connection *connection,
					const char *url, const char *method, const char *version,
					const char *upload, size_t *upload_size, void **request)
{
	struct admin *admin = context;
	enum MHD_Result result;

	(void)version;
	(void)upload;
	(void)upload_size;
	(void)request;
	pthread_mutex_lock(&admin->service->reading);
	admin->status.config = admin->service->config;
	if (strcmp(method, "POST") == 0 && desk_of(admin, url))
		result = respond_wish(admin, connection, url);
	else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		result = respond_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
	else
		result = respond_get(admin, connection, url);
	admin->status.config = NULL; /* a reload may free it from here on */
	pthread_mutex_unlock(&admin->service->reading);
	return result;
}

static void admin_on_connection(void *context, struct MHD_Connection *connection, void **member,
				enum MHD_ConnectionNotificationCode code)
{
	struct admin *admin = context;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED)
		crowd_leave(admin->crowd, *member);
	else
		*member = crowd_enter(
			admin->crowd,
			MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
				->client_addr,
			MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
				->connect_fd);
}

static void warn_of_exposure(const struct config *config)
{
	enum admin_exposure exposure = admin_exposure(config);

	if (exposure == ADMIN_OPEN)
		log_warning(
			"6001 the admin address '%s' can be reached from other machines and asks "
			"for no token: set admin.token_file",
			config->admin.address);
	if (exposure == ADMIN_CLEAR)
		log_warning(
			"6002 the admin address '%s' can be reached from other machines without "
			"TLS, so its token can be read on the way: set admin.tls",
			config->admin.address);
}

static bool resolve(const struct config *config, struct sockaddr_storage *address)
{
	char reason[256] = "cannot be resolved";

	if (listener_probe(config->admin.address, false, reason, sizeof(reason)) &&
	    address_resolve_now(config->admin.address, address))
		return true;
	log_error("6003 the admin address: %s", reason);
	return false;
}

/* The options for TLS end at once if there is none. `socket`: where it listens, if that is there
 * already; else -1. */
static struct MHD_Daemon *start_daemon(struct admin *admin, const struct admin_files *files,
				       const struct sockaddr_storage *address, int socket)
{
	/* Not select: it knows no descriptor beyond 1,023. */
	unsigned flags = MHD_USE_EPOLL;
	const char *versions = admin->only_1_3 ? "NORMAL:-VERS-ALL:+VERS-TLS1.3"
					       : "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_END, 0, NULL},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, files->key},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)versions},
		{MHD_OPTION_END, 0, NULL}};

	struct MHD_OptionItem where[] = {{MHD_OPTION_SOCK_ADDR, 0, (void *)(uintptr_t)address},
					 {MHD_OPTION_END, 0, NULL}};

	if (address->ss_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	if (files->cert) {
		flags |= MHD_USE_TLS;
		tls[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, files->cert};
	}
	if (socket >= 0)
		where[0] = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, socket, NULL};
	return MHD_start_daemon(flags, 0, NULL, NULL, admin_on_request, admin, MHD_OPTION_ARRAY,
				where, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
				MHD_OPTION_PER_IP_CONNECTION_LIMIT, CONNECTIONS_OF_ADDRESS,
				MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS,
				MHD_OPTION_NOTIFY_CONNECTION, admin_on_connection, admin,
				MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
}

static struct admin *admin_new(struct service *service)
{
	const struct config *config = service->config;
	struct admin *admin = must_calloc(1, sizeof(*admin));
	auto_free char *mistake = NULL;

	if (!admin_files_load(&admin->files, config, &mistake)) {
		log_error("6004 the admin address cannot be started: %s", mistake);
		free(admin);
		return NULL;
	}
	admin->service = service;
	admin->status = (struct status){NULL, /* each request's */
					service->mover,
					service->places,
					&service->paused,
					service->observers,
					bson_get_monotonic_time(),
					.hidden = !admin->files.token};
	admin->guard = (struct guard){&config->admin, admin->files.token};
	admin->crowd = crowd_new();
	admin->policy = status_page_policy();
	admin->only_1_3 = config->admin.tls.only_1_3;
	return admin;
}

static void admin_free(struct admin *admin)
{
	crowd_free(admin->crowd);
	admin_files_fini(&admin->files);
	bson_free(admin->policy);
	free(admin);
}

must_check bool admin_start(struct admin **admin, struct service *service)
{
	const struct config *config = service->config;
	struct sockaddr_storage address = {0};
	struct admin *made;

	*admin = NULL;
	if (!config->admin.address)
		return true;
	if (!resolve(config, &address))
		return false;
	made = admin_new(service);
	if (!made)
		return false;
	made->daemon = start_daemon(made, &made->files, &address,
				    inherited_take_more(config->admin.address));
	if (made->daemon) {
		admin_thread_start(&made->thread, made->daemon);
		warn_of_exposure(config);
		*admin = made;
		return true;
	}
	admin_free(made);
	log_error("6005 cannot listen on the admin address '%s'%s", config->admin.address,
		  config->admin.tls.cert ? ", or not with its certificate" : "");
	return false;
}

/* ---- A reload. */

struct admin_load {
	struct admin_files files;
	struct MHD_Daemon *daemon; /* with another certificate; NULL: it stays */
};

static bool same_text(const char *one, const char *other)
{
	return one && other ? strcmp(one, other) == 0 : one == other;
}

int admin_socket(const struct admin *admin)
{
	const union MHD_DaemonInfo *info =
		admin ? MHD_get_daemon_info(admin->daemon, MHD_DAEMON_INFO_LISTEN_FD) : NULL;

	return info ? info->listen_fd : -1;
}

/* One that listens where the present one does. It does nothing before its thread runs. */
static bool prepare_daemon(struct admin *admin, struct admin_load *load)
{
	static const struct sockaddr_storage nowhere;
	int socket = admin_socket(admin);

	if (same_text(load->files.cert, admin->files.cert) &&
	    same_text(load->files.key, admin->files.key))
		return true;
	socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
	if (socket < 0)
		return false;
	load->daemon = start_daemon(admin, &load->files, &nowhere, socket);
	if (!load->daemon)
		close(socket);
	return load->daemon;
}

struct admin_load *admin_load(struct admin *admin, const struct config *config, char **mistake)
{
	static const char unusable[] = "the admin address cannot use its certificate";
	struct admin_load *load = must_calloc(1, sizeof(*load));

	if (!admin_files_load(&load->files, config, mistake)) {
		free(load);
		return NULL;
	}
	if (prepare_daemon(admin, load))
		return load;
	*mistake = must_strndup(unusable, sizeof(unusable) - 1);
	admin_load_free(load);
	return NULL;
}

/* The socket stays open: nobody is turned away. */
static void stop_daemon(struct admin *admin)
{
	MHD_socket socket;

	admin_thread_run_out(&admin->thread);
	socket = MHD_quiesce_daemon(admin->daemon);
	MHD_stop_daemon(admin->daemon);
	if (socket != MHD_INVALID_SOCKET)
		close(socket);
}

void admin_take(struct admin *admin, struct admin_load *load)
{
	struct admin_files before;

	pthread_mutex_lock(&admin->service->reading);
	before = admin->files;
	admin->files = load->files;
	load->files = before;
	admin->guard = (struct guard){&admin->service->config->admin, admin->files.token};
	admin->status.hidden = !admin->files.token;
	pthread_mutex_unlock(&admin->service->reading);
	if (!load->daemon)
		return;
	stop_daemon(admin);
	admin->daemon = load->daemon;
	load->daemon = NULL;
	admin_thread_start(&admin->thread, admin->daemon);
}

void admin_load_free(struct admin_load *load)
{
	if (!load)
		return;
	if (load->daemon) {
		close(MHD_quiesce_daemon(load->daemon));
		MHD_stop_daemon(load->daemon);
	}
	admin_files_fini(&load->files);
	free(load);
}

void admin_leave(struct admin *admin)
{
	if (!admin)
		return;
	stop_daemon(admin);
	admin_free(admin);
}

void admin_stop(struct admin *admin)
{
	if (!admin)
		return;
	admin_thread_stop(&admin->thread);
	MHD_stop_daemon(admin->daemon);
	admin_free(admin);
}
