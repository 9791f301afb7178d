/* `spillway serve`: loops, the mover and the admin page, from start to drain. */
#include "proxy/serve.h"

#include "proxy/admin/admin.h"
#include "proxy/base/ballast.h"
#include "proxy/base/clock.h"
#include "proxy/base/config_file.h"
#include "proxy/process/inherited.h"
#include "proxy/client/listener.h"
#include "proxy/client/listeners.h"
#include "proxy/base/log.h"
#include "proxy/base/process_metrics.h"
#include "proxy/client/loop.h"
#include "proxy/base/spare_memory.h"
#include "proxy/process/descriptors.h"
#include "proxy/process/launcher.h"
#include "proxy/process/notify.h"
#include "proxy/process/root.h"
#include "proxy/process/sandbox.h"
#include "proxy/process/takeover.h"
#include "proxy/reload/reload.h"
#include "proxy/upgrade.h"
#include "proxy/watchdog.h"
#include "rules/config/config_listen.h"
#include "rules/rule/text.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define BALLAST_OF_LOOP ((size_t)64 << 20) /* bytes */
#define SIGNAL_MS 100                      /* how often it is looked for while the servers are */
#define LATE_MS 1000                       /* behind the deadline of the drain */
#define LEAVE_MS 15000                     /* what ending takes besides the drain, at most */
#define MICROSECONDS 1000                  /* of a millisecond */

struct server {
	struct service service;
	struct loop **loops;
	pthread_t *threads;
	size_t loop_count;
	struct listeners *listeners;
	struct admin *admin;
	struct {
		pthread_t thread;
		bool runs;
		atomic_bool stopping;
	} follower; /* of a replica set's members */
	struct watchdog *watchdog;
	struct reload_desk desk;
	struct reload reload;
	struct reload_desk upgrade_desk;
	struct upgrade upgrade;
};

static void *run_loop(void *loop)
{
	log_name_thread("loop");
	loop_run(loop);
	return NULL;
}

static bool find_room(struct service *service)
{
	bson_error_t error;

	if (descriptors_raise(service->config->limits.connections, &service->descriptors, &error))
		return true;
	log_error("1010 %s", error.message);
	return false;
}

static bool probe_addresses(const struct config *config)
{
	char reason[256];

	for (size_t i = 0; i < config->listen_count && !config->replica_set.on; i++) {
		if (listener_probe(config->listen[i].address, false, reason, sizeof(reason)))
			continue;
		log_error("1011 %s", reason);
		return false;
	}
	return true;
}

/* By the configuration of the start: its list of listeners is that of the process. */
static bool open_listeners(struct server *server, char *reason, size_t size)
{
	struct listeners_change *change = listeners_prepare(server->listeners, server->reload.first,
							    server->service.places, reason, size);

	if (change)
		listeners_take(change);
	return change;
}

/* Listeners appear and disappear with the members of the set. */
static void *follow_members(void *context)
{
	struct server *server = context;
	char reason[256] = "", told[256] = "";
	uint64_t seen = 0;
	bool good = true;

	while (!atomic_load(&server->follower.stopping)) {
		if (!places_await_change(server->service.places, &seen, SIGNAL_MS) && good)
			continue;
		good = open_listeners(server, reason, sizeof(reason));
		if (!good && strcmp(reason, told) != 0)
			log_error("1012 %s", reason);
		snprintf(told, sizeof(told), "%s", good ? "" : reason);
	}
	return NULL;
}

static void start_follower(struct server *server)
{
	server->follower.runs = server->service.config->replica_set.on;
	if (server->follower.runs)
		require(pthread_create(&server->follower.thread, NULL, follow_members, server) ==
			0);
}

static void stop_follower(struct server *server)
{
	atomic_store(&server->follower.stopping, true);
	if (server->follower.runs)
		pthread_join(server->follower.thread, NULL);
	server->follower.runs = false;
}

static bool start_loops(struct server *server)
{
	char reason[256];
	bool good;

	server->loop_count = (size_t)server->service.config->workers;
	server->loops = must_calloc(server->loop_count, sizeof(*server->loops));
	server->threads = must_calloc(server->loop_count, sizeof(*server->threads));
	for (size_t i = 0; i < server->loop_count; i++)
		server->loops[i] = loop_new(&server->service);
	server->listeners = listeners_new(server->loops, server->loop_count);
	good = open_listeners(server, reason, sizeof(reason));
	if (!good)
		log_error("1015 %s", reason);
	for (size_t i = 0; i < server->loop_count; i++) {
		if (!good)
			loop_start_drain(server->loops[i]);
		require(pthread_create(&server->threads[i], NULL, run_loop, server->loops[i]) == 0);
	}
	return good;
}

static void tell_listeners(const struct server *server)
{
	const struct config *config = server->service.config;

	for (size_t i = 0; i < config->listen_count; i++)
		if (places_server(server->service.places, i))
			listeners_tell(config->listen[i].address,
				       places_server(server->service.places, i));
}

/* Who still waits for the mover behind the drain's deadline waits for a server that hangs. */
static void stop_loops(struct server *server)
{
	const struct service *service = &server->service;
	struct timespec until =
		clock_timespec(clock_now() + service->config->limits.drain_ms + LATE_MS);

	for (size_t i = 0; i < server->loop_count; i++)
		loop_start_drain(server->loops[i]);
	for (size_t i = 0; i < server->loop_count; i++) {
		if (pthread_clockjoin_np(server->threads[i], NULL, CLOCK_MONOTONIC, &until) == 0)
			continue;
		mover_end(service->mover);
		pthread_join(server->threads[i], NULL);
	}
}

static void free_loops(struct server *server)
{
	listeners_free(server->listeners);
	for (size_t i = 0; i < server->loop_count; i++)
		loop_free(server->loops[i]);
	free(server->loops);
	free(server->threads);
}

/* SIGTERM and SIGINT end Spillway; SIGHUP has the configuration read again, SIGUSR2 the program
 * started anew. */
static void set_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGUSR2);
}

static void reload(struct server *server)
{
	log_info("1030 SIGHUP: the configuration is read again");
	reload_start(&server->reload);
}

/* The manager is told once that is over, be it at once since there is no thread for it. */
static void reload_and_tell(struct server *server)
{
	notify_send("RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_now() * MICROSECONDS);
	reload(server);
	if (!server->reload.running)
		notify_send("READY=1");
}

/* The manager waits for the drain, and for no sign of life from loops that end. */
static void tell_end(const struct server *server)
{
	const struct config *config = server->service.config;
	int64_t most = (config->limits.drain_ms + LEAVE_MS) * MICROSECONDS;

	notify_send("STOPPING=1\nSTATUS=draining: connections finish what they do\n"
		    "EXTEND_TIMEOUT_USEC=%" PRId64 "\nWATCHDOG_USEC=%" PRId64,
		    most, most);
}

/* A reload that has ended. */
static void poll_reload(struct server *server)
{
	bool ran = server->reload.running;

	reload_poll(&server->reload);
	if (ran && !server->reload.running)
		notify_send("READY=1");
}

/* The next signal; 0: none has come in the time that the watchdog, a reload or another process
 * leaves. */
static int next_signal(const struct server *server, const sigset_t *set, bool shared)
{
	const struct timespec soon = {.tv_nsec = SIGNAL_MS * 1000000L / 2};
	bool busy = server->reload.running || upgrade_runs(&server->upgrade) || shared;
	int number = sigtimedwait(set, NULL, busy ? &soon : watchdog_pause(server->watchdog));

	return number > 0 ? number : 0;
}

static bool ends(int number)
{
	return number == SIGTERM || number == SIGINT;
}

static void refuse_reload(struct reload_desk *desk)
{
	static const char why[] = "an upgrade runs: reload once it has ended";

	log_warning("1058 reload: refused: %s", why);
	reload_desk_begin(desk);
	reload_desk_end(desk, false, must_strndup(why, strlen(why)));
}

/* One at a time: the file that a new process has read is the one that it goes on with. */
static void obey(struct server *server, int number)
{
	if (number == SIGHUP && upgrade_runs(&server->upgrade))
		refuse_reload(&server->desk);
	else if (number == SIGHUP)
		reload_and_tell(server);
	server->upgrade.wanted = server->upgrade.wanted || number == SIGUSR2;
}

/* Connections are served until they end by themselves, for limits.handover at most. The admin
 * address and new connections are the other process's, which knows of no process before this one:
 * this one ends behind that. */
static void serve_to_the_end(struct server *server)
{
	const struct timespec pause = {.tv_nsec = SIGNAL_MS * 1000000L};
	const struct service *service = &server->service;
	int64_t until = clock_now() + service->config->limits.handover_ms;
	sigset_t set;

	stop_follower(server);
	for (size_t i = 0; i < server->loop_count; i++)
		loop_start_leaving(server->loops[i]);
	admin_leave(server->admin);
	server->admin = NULL;
	log_info("1060 upgrade: %" PRId64 " connections are served here until they end",
		 atomic_load(&service->connections));
	set_signals(&set);
	while ((atomic_load(&service->connections) > 0 || takeover_before_lives()) &&
	       clock_now() < until && !ends(sigtimedwait(&set, NULL, &pause)))
		continue;
	log_info("1061 upgrade: %" PRId64 " connections are left: this process ends",
		 atomic_load(&service->connections));
}

static void await_signal(struct server *server)
{
	sigset_t set;
	int number = 0;
	bool handed_over = false, shared;

	server->reload.loops = server->loops;
	server->reload.loop_count = server->loop_count;
	server->reload.admin = server->admin;
	server->reload.listeners = server->listeners;
	server->upgrade.listeners = server->listeners;
	server->upgrade.admin = server->admin;
	set_signals(&set);
	notify_send("READY=1\nSTATUS=accepts connections");
	while (!ends(number) && !handed_over) {
		watchdog_beat(server->watchdog);
		shared = takeover_before_lives();
		mover_share(server->service.mover, shared);
		number = next_signal(server, &set, shared);
		obey(server, number);
		poll_reload(server);
		if (server->upgrade.wanted && !server->reload.running)
			upgrade_start(&server->upgrade);
		handed_over = upgrade_poll(&server->upgrade);
	}
	upgrade_cancel(&server->upgrade);
	reload_stop(&server->reload);
	if (handed_over) {
		serve_to_the_end(server);
		return;
	}
	log_info("1032 signal %d: draining", number);
	tell_end(server);
}

/* False: a signal came before. Thousands of namespaces take minutes. */
static bool await_first_check(struct server *server, enum mover_check *check)
{
	const struct timespec now = {.tv_nsec = 1000000L};
	sigset_t set;

	set_signals(&set);
	while (!mover_first_check(server->service.mover, SIGNAL_MS, check) ||
	       server->reload.running) {
		int number = sigtimedwait(&set, NULL, &now);

		reload_poll(&server->reload);
		if (number == SIGHUP) {
			reload(server);
		} else if (ends(number)) {
			reload_stop(&server->reload);
			log_info("1033 signal %d: ending before the servers are looked at", number);
			return false;
		}
	}
	return true;
}

static void block_signals(void)
{
	sigset_t set;

	set_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* A list that no reload changes stays as it is. */
static bool open_tls(struct server *server)
{
	char reason[400];

	if (!server->reload.first->replica_set.on)
		config_listen_spread(server->reload.first);
	server->service.tls =
		tls_pairs_new(server->service.config, server->reload.path, reason, sizeof(reason));
	if (!server->service.tls)
		log_error("1013 %s", reason);
	return server->service.tls;
}

/* One step of a loop may need so much at worst. */
static void load_ballast(const struct config *config)
{
	if (!ballast_load(BALLAST_OF_LOOP * (size_t)config->workers))
		log_warning("1042 the system has no room for a ballast of memory: Spillway will "
			    "end where "
			    "it gets no memory");
}

/* Adds an array to the details, and its texts to the line. */
static void add_list(bson_t *details, struct buffer *line, const char *key,
		     const char *const *texts, size_t count)
{
	char place[24];
	bson_t list;

	bson_append_array_begin(details, key, -1, &list);
	text_append(line, "; %s:%s", key, count == 0 ? " none" : "");
	for (size_t i = 0; i < count; i++) {
		snprintf(place, sizeof(place), "%zu", i);
		bson_append_utf8(&list, place, -1, texts[i], -1);
		text_append(line, "%s '%s'", i > 0 ? "," : "", texts[i]);
	}
	bson_append_array_end(details, &list);
}

/* What starts, in one line. Of a replica set no member is known yet: the ports of all of them. */
static void tell_start(const struct config *config, const char *path)
{
	bool set = config->replica_set.on;
	size_t rules = rule_set_count(config->rules), listeners = set ? 1 : config->listen_count;
	const char **names = must_calloc(rules + listeners, sizeof(*names));
	bson_t *details = bson_new();
	const struct log_event event = {CONFIG_LOG_INFO, 1000, NULL, details};
	auto_buffer struct buffer line = {0};

	for (size_t i = 0; i < rules; i++)
		names[i] = rule_set_at(config->rules, i)->name;
	for (size_t i = 0; i < listeners; i++)
		names[rules + i] = set ? config->replica_set.listen : config->listen[i].address;
	BSON_APPEND_UTF8(details, "version", program_version());
	BSON_APPEND_UTF8(details, "file", path);
	add_list(details, &line, "listeners", names + rules, listeners);
	add_list(details, &line, "rules", names, rules);
	buffer_append(&line, "", 1);
	log_event(&event, "Spillway %s starts with the file '%s'%s", program_version(), path,
		  (const char *)line.data);
	bson_destroy(details);
	free(names);
}

/* The process before this one may reach servers that this one does not reach. */
static bool may_take_over(enum mover_check check)
{
	if (check == MOVER_CHECK_GOOD || !takeover_runs())
		return true;
	log_error("1062 upgrade: no server has answered the new process");
	return false;
}

/* What was passed on is in use, or is closed. */
static bool takes_over(void)
{
	inherited_close();
	return takeover_end();
}

static void init_reload(struct server *server, struct config *config,
			const struct command_line *line, bool sandboxed)
{
	const char *path = line->values[OPTION_CONFIG];

	reload_desk_init(&server->desk, SIGHUP);
	reload_desk_init(&server->upgrade_desk, SIGUSR2);
	pthread_mutex_init(&server->service.reading, NULL);
	server->service.desk = &server->desk;
	server->service.upgrade_desk = &server->upgrade_desk;
	server->upgrade = (struct upgrade){.service = &server->service,
					   .desk = &server->upgrade_desk,
					   .path = path,
					   .channel = -1};
	server->reload = (struct reload){.service = &server->service,
					 .desk = &server->desk,
					 .path = path,
					 .first = config,
					 .sandboxed = sandboxed,
					 .root_allowed = line->values[OPTION_ALLOW_ROOT]};
}

static void fini_reload(struct server *server, const struct config *config)
{
	const struct config *latest = server->service.config;

	if (latest != config)
		config_free((struct config *)(uintptr_t)latest);
	pthread_mutex_destroy(&server->service.reading);
	reload_desk_fini(&server->desk);
	reload_desk_fini(&server->upgrade_desk);
}

static int serve(struct config *config, const struct command_line *line, bool sandboxed)
{
	struct server server = {.service = {.config = config}};
	struct metrics *shared;
	enum mover_check check;
	int code = 1;

	tell_start(config, line->values[OPTION_CONFIG]);
	block_signals();
	init_reload(&server, config, line, sandboxed);
	spare_memory_keep();
	load_ballast(config);
	if (!find_room(&server.service) || !probe_addresses(config) || !open_tls(&server)) {
		tls_pairs_free(server.service.tls);
		fini_reload(&server, config);
		return 1;
	}
	server.service.places = places_new(config);
	claims_init(&server.service.claims);
	strangers_init(&server.service.strangers);
	peers_init(&server.service.peers);
	server.service.observers = observers_new(config->observe_sample);
	shared = metrics_new();
	log_count_dropped(&shared->log_lines_dropped);
	server.service.mover = mover_start(
		&(struct reach){config, server.service.tls, server.service.places}, shared);
	mover_share(server.service.mover, takeover_runs());
	notify_send("STATUS=looks at the servers");
	/* What is wrong with the servers is told before anybody can connect. */
	if (!await_first_check(&server, &check)) {
		code = 0;
	} else if (check != MOVER_CHECK_BAD && may_take_over(check)) {
		/* The admin page comes last: who is told that all is ready can connect. */
		if (start_loops(&server) && admin_start(&server.admin, &server.service) &&
		    takes_over()) {
			start_follower(&server);
			tell_listeners(&server);
			server.watchdog = watchdog_new(server.loops, server.loop_count);
			await_signal(&server);
			code = 0;
		}
		stop_follower(&server);
		stop_loops(&server);
	}
	admin_stop(server.admin);
	mover_stop(server.service.mover);
	free_loops(&server);
	places_free(server.service.places);
	watchdog_free(server.watchdog);
	claims_fini(&server.service.claims);
	strangers_fini(&server.service.strangers);
	peers_fini(&server.service.peers);
	tls_pairs_free(server.service.tls);
	observers_free(server.service.observers);
	log_count_dropped(NULL);
	metrics_free_all();
	latencies_free_all();
	fini_reload(&server, config);
	return code;
}

static bool may_serve(const struct config *config, const struct command_line *line)
{
	bson_error_t error;

	if (root_may_serve(config, line->values[OPTION_ALLOW_ROOT], &error))
		return true;
	log_error("1014 %s", error.message);
	return false;
}

static int serve_in_sandbox(struct config *config, const struct command_line *line,
			    const struct sandbox *sandbox)
{
	log_configure(config->log_level, config->log_json);
	sandbox_tell(sandbox);
	notify_complain();
	return may_serve(config, line) ? serve(config, line, sandbox->landlock > 0) : EXIT_USAGE;
}

int serve_run(const struct command_line *line)
{
	auto_free char *problems = NULL;
	struct config *config;
	struct sandbox sandbox = {.wanted = false};
	char digest[CONFIG_DIGEST];
	int code = EXIT_USAGE;

	inherited_open();
	takeover_open();
	launcher_start(line->all);
	if (takeover_runs())
		config_file_wait_for_none();
	config = config_load(line->values[OPTION_CONFIG], &problems);
	config_loaded_digest(digest);
	log_open();
	notify_open();
	process_metrics_open();
	/* The log's thread is the first one: the sandbox holds for those that come later. */
	if (config && !line->values[OPTION_NO_SANDBOX])
		sandbox = sandbox_enter(config);
	log_start();
	if (!config)
		log_plain(problems);
	else if (takeover_finds(digest))
		code = serve_in_sandbox(config, line, &sandbox);
	config_free(config);
	launcher_stop();
	notify_close();
	log_stop();
	return code;
}
