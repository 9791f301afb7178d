/* Reads the configuration again while Spillway serves. What may fail comes first; then nothing
 * fails any more. */
#include "proxy/reload/reload.h"

#include "proxy/base/ballast.h"
#include "proxy/base/clock.h"
#include "proxy/base/config_file.h"
#include "proxy/base/log.h"
#include "proxy/process/descriptors.h"
#include "proxy/reload/new_listeners.h"
#include "proxy/reload/try_rules.h"
#include "proxy/upstream/link.h"
#include "rules/config/config_change.h"
#include "rules/rule/text.h"

#include <stdio.h>
#include <stdlib.h>

#define ELECTION_MS 15000
#define AGAIN_MS 200
#define HOLD_MS 15000 /* for a round or a step of a sweep; a server that hangs takes longer */
#define REASON_MAX 1200

/* One reload. */
struct round_of_reload {
	struct reload *reload;
	struct config *config; /* the file as it is now */
	struct config_changes changes;
	struct new_listeners listeners;
	struct tls_load *tls;
	struct admin_load *admin;
	struct buffer report; /* for who asked: a line each */
	bool other_rules;
	bool held; /* the mover is */
};

static void say(struct round_of_reload *round, const char *text)
{
	text_append(&round->report, "%s\n", text);
}

/* ---- What may fail. */

#define OUTSIDE \
	"; the sandbox lets a running Spillway read only folders that it knew at its start: put " \
	"the file into one of them, or restart"

static bool refuse_with(struct round_of_reload *round, const char *reason, const char *more)
{
	auto_buffer struct buffer text = {0};
	size_t length = strlen(reason);

	while (length > 0 && reason[length - 1] == '\n')
		length--;
	text_append(&text, "%.*s%s", (int)length, reason, more);
	buffer_append(&text, "", 1);
	say(round, (const char *)text.data);
	return false;
}

/* False: why is said. */
static bool refuse(struct round_of_reload *round, const char *reason)
{
	return refuse_with(round, reason, "");
}

/* What was to be read. */
static bool refuse_file(struct round_of_reload *round, const char *reason)
{
	bool outside = round->reload->sandboxed && strstr(reason, "Permission denied");

	return refuse_with(round, reason, outside ? OUTSIDE : "");
}

static bool load(struct round_of_reload *round)
{
	auto_free char *problems = NULL;

	round->config = config_load(round->reload->path, &problems);
	return round->config || refuse_file(round, problems);
}

static void tell_change(struct buffer *text, const struct config_change *change)
{
	if (!change->before)
		text_append(text, "'%s': '%s' is new", change->name, change->after);
	else if (!change->after)
		text_append(text, "'%s': '%s' is gone", change->name, change->before);
	else
		text_append(text, "'%s' is '%s', it was '%s'", change->name, change->after,
			    change->before);
	buffer_append(text, "", 1);
}

/* All of them are named. */
static bool compare(struct round_of_reload *round)
{
	const struct config *before = round->reload->service->config;
	bool good = true;

	config_compare(before, round->config, &round->changes);
	for (size_t i = 0; i < round->changes.count; i++) {
		const struct config_change *change = &round->changes.list[i];
		auto_buffer struct buffer text = {0};

		if (!change->setting->restart)
			continue;
		tell_change(&text, change);
		text.length--;
		text_append(&text, ": a running process does not change it; 'spillway upgrade' "
				   "starts one that "
				   "does");
		buffer_append(&text, "", 1);
		good = refuse(round, (const char *)text.data);
	}
	return good;
}

/* The same ones in the same order stay what they are. */
must_check bool reload_same_rules(const struct rule_set *one, const struct rule_set *other)
{
	if (rule_set_count(one) != rule_set_count(other))
		return false;
	for (size_t i = 0; i < rule_set_count(one); i++) {
		const struct rule *rule = rule_set_at(one, i);

		if (strcmp(rule->name, rule_set_at(other, i)->name) != 0 ||
		    !config_rule_equals(rule, rule_set_at(other, i)))
			return false;
	}
	return true;
}

static enum mover_check ask_for_rules(struct round_of_reload *round, char *reason)
{
	struct reload *reload = round->reload;

	return try_rules_now(reload->service->mover, round->config->rules, &reload->stopping,
			     reason, REASON_MAX);
}

static enum mover_check ask_for_listeners(struct round_of_reload *round, char *reason)
{
	return new_listeners_try(&round->listeners, &round->reload->stopping, reason, REASON_MAX);
}

/* An election is waited for: nobody takes writes meanwhile. */
static bool ask_servers(struct round_of_reload *round,
			enum mover_check (*ask)(struct round_of_reload *round, char *reason))
{
	int64_t until = clock_now() + ELECTION_MS;
	enum mover_check check;
	char reason[REASON_MAX];

	do
		check = ask(round, reason);
	while (check == MOVER_CHECK_NO_SERVER && clock_now() < until &&
	       clock_pause(AGAIN_MS, &round->reload->stopping));
	return check == MOVER_CHECK_GOOD || refuse(round, reason);
}

/* They get their places, and their certificates are read; nobody can connect yet. */
static bool place_listeners(struct round_of_reload *round)
{
	struct reload *reload = round->reload;
	char reason[REASON_MAX];

	if (!new_listeners_place(&round->listeners, reload, round->config, reason, sizeof(reason)))
		return refuse_file(round, reason);
	return !new_listeners_differ(&round->listeners) || ask_servers(round, ask_for_listeners);
}

/* Comes last: who connects from here on waits for what is taken. */
static bool bind_listeners(struct round_of_reload *round)
{
	char reason[REASON_MAX];

	return new_listeners_bind(&round->listeners, reason, sizeof(reason)) ||
	       refuse(round, reason);
}

static bool try_rules(struct round_of_reload *round)
{
	struct mover *mover = round->reload->service->mover;
	const struct config *before = round->reload->service->config;

	round->other_rules = !reload_same_rules(before->rules, round->config->rules);
	if (!round->other_rules) {
		rule_set_unref(round->config->rules);
		round->config->rules = rule_set_ref(before->rules);
		return true;
	}
	round->held = mover_hold(mover, HOLD_MS, &round->reload->stopping);
	if (!round->held)
		return refuse(round, "the mover is still busy, maybe since a server does not "
				     "answer; try again");
	return ask_servers(round, ask_for_rules);
}

static bool load_certificates(struct round_of_reload *round)
{
	char reason[400];

	round->tls = tls_pairs_load(round->reload->service->tls, round->listeners.plan.open, reason,
				    sizeof(reason));
	return round->tls || refuse_file(round, reason);
}

static bool load_admin(struct round_of_reload *round)
{
	auto_free char *mistake = NULL;

	if (!round->reload->admin)
		return true;
	round->admin = admin_load(round->reload->admin, round->config, &mistake);
	return round->admin || refuse_file(round, mistake);
}

/* ---- What does not. */

static void take_config(struct round_of_reload *round)
{
	struct service *service = round->reload->service;
	const struct config *before = service->config;
	unsigned turn = 0;

	/* Who reads both sees the mover's targets and the file's rules agree. */
	pthread_mutex_lock(&service->reading);
	if (round->other_rules)
		turn = mover_take_rules(service->mover, round->config->rules);
	service->config = round->config;
	pthread_mutex_unlock(&service->reading);
	if (round->admin)
		admin_take(round->reload->admin, round->admin);
	if (round->other_rules && round->reload->loop_count == 0)
		mover_settled(service->mover, turn);
	loops_take_rules(round->reload->loops, round->reload->loop_count,
			 round->other_rules ? round->config->rules : NULL, turn);
	if (before != round->reload->first)
		config_free((struct config *)(uintptr_t)before);
	round->config = NULL;
}

static void tell(struct round_of_reload *round)
{
	log_info(
		"1034 reload: the file '%s' holds from now on, with %zu change%s; certificates are "
		"read again, and new connections use them",
		round->reload->path, round->changes.count, round->changes.count == 1 ? "" : "s");
	for (size_t i = 0; i < round->changes.count; i++) {
		auto_buffer struct buffer text = {0};

		tell_change(&text, &round->changes.list[i]);
		log_info("1035 reload: %s", (const char *)text.data);
		say(round, (const char *)text.data);
	}
}

/* More connections than before may have no room: the log is told. */
static void look_at_room(const struct round_of_reload *round)
{
	int64_t now = round->config->limits.connections, sockets;
	bson_error_t error;

	if (now > round->reload->service->config->limits.connections)
		(void)!descriptors_raise(now, &sockets, &error);
}

static void take(struct round_of_reload *round)
{
	const struct config *config = round->config;

	look_at_room(round);
	log_configure(config->log_level, config->log_json);
	mover_take_settings(round->reload->service->mover, config);
	tls_pairs_take(round->reload->service->tls, round->tls);
	/* First: under other rules nobody goes on by a listener that is gone and is not counted. */
	new_listeners_take(&round->listeners);
	take_config(round);
	tell(round);
}

/* Each line of the report. */
static void tell_refusal(const struct round_of_reload *round)
{
	auto_free char *text = must_strndup((const char *)round->report.data, round->report.length);
	char *rest = text, *line;

	log_error("1031 reload: nothing is changed, since the file '%s' cannot be taken:",
		  round->reload->path);
	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_error("1036 reload: %s", line);
}

static void round_fini(struct round_of_reload *round)
{
	if (round->held)
		mover_release(round->reload->service->mover);
	tls_load_free(round->tls);
	new_listeners_fini(&round->listeners);
	admin_load_free(round->admin);
	config_changes_fini(&round->changes);
	config_free(round->config);
}

static void run(struct reload *reload)
{
	struct round_of_reload round = {.reload = reload};
	bool good;

	reload_desk_begin(reload->desk);
	good = load(&round) && compare(&round) && place_listeners(&round) &&
	       load_certificates(&round) && load_admin(&round) && try_rules(&round) &&
	       bind_listeners(&round);
	if (good)
		take(&round);
	else
		tell_refusal(&round);
	round_fini(&round);
	reload_desk_end(reload->desk, good, text_steal(&round.report));
}

/* ---- The thread. */

static void *reload_run(void *context)
{
	struct reload *reload = context;

	ballast_be_patient();
	log_name_thread("reload");
	config_file_wait_for_none();
	run(reload);
	atomic_store(&reload->ended, true);
	return NULL;
}

static void refuse_without_thread(struct reload *reload)
{
	struct round_of_reload round = {.reload = reload};

	reload_desk_begin(reload->desk);
	say(&round, "the system gives no thread: raise the limit of memory, or of processes, and "
		    "try again");
	tell_refusal(&round);
	reload_desk_end(reload->desk, false, text_steal(&round.report));
}

void reload_start(struct reload *reload)
{
	reload->again = reload->running;
	if (reload->running)
		return;
	atomic_store(&reload->ended, false);
	reload->running = pthread_create(&reload->thread, NULL, reload_run, reload) == 0;
	if (!reload->running)
		refuse_without_thread(reload);
}

void reload_poll(struct reload *reload)
{
	if (!reload->running || !atomic_load(&reload->ended))
		return;
	pthread_join(reload->thread, NULL);
	reload->running = false;
	if (reload->again)
		reload_start(reload);
}

void reload_stop(struct reload *reload)
{
	struct timespec pause = {.tv_nsec = 20000000};

	atomic_store(&reload->stopping, true);
	while (reload->running && !atomic_load(&reload->ended)) {
		link_cut_all(&reload->stopping);
		nanosleep(&pause, NULL);
	}
	if (reload->running)
		pthread_join(reload->thread, NULL);
	reload->running = false;
}
