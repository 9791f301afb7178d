/* An upgrade, seen by the process that goes. */
#include "proxy/upgrade.h"

#include "proxy/base/config_file.h"
#include "proxy/base/log.h"
#include "proxy/process/launcher.h"
#include "proxy/process/notify.h"
#include "proxy/process/takeover.h"
#include "proxy/reload/reload.h"
#include "rules/rule/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SAME "; this process goes on serving"

/* Says so to the log and to who asked; the upgrade is over. */
static void fail(struct upgrade *upgrade, const char *why)
{
	auto_buffer struct buffer report = {0};

	log_error("1053 upgrade: %s" SAME, why);
	notify_send("STATUS=accepts connections");
	text_append(&report, "%s" SAME "\n", why);
	reload_desk_end(upgrade->desk, false, text_steal(&report));
	if (upgrade->channel >= 0)
		close(upgrade->channel);
	upgrade->channel = -1;
}

#define OTHER_RULES \
	"the file has other rules than those in force, and two processes with different rules " \
	"would show each other's clients short arrays: reload first, then upgrade"
#define FIRST_PROCESS \
	"this process is the first of its container, which would end with it: start another " \
	"container"
#define WAITING_RULES \
	"rules of a reload wait for reads that began before: try again once the log says that " \
	"tails move under the new rules, or take these rules out by a reload"

/* NULL: the new process may start with the file as it is now. Else why not; freed by the caller. */
static char *look_at_file(const struct upgrade *upgrade, char digest[CONFIG_DIGEST])
{
	const struct service *service = upgrade->service;
	char *problems = NULL;
	struct config *config = config_load(upgrade->path, &problems);
	bool same;

	if (!config)
		return problems;
	config_loaded_digest(digest);
	same = reload_same_rules(service->config->rules, config->rules);
	config_free(config);
	if (!same)
		return must_strndup(OTHER_RULES, strlen(OTHER_RULES));
	return mover_rules_wait(service->mover) ? must_strndup(WAITING_RULES, strlen(WAITING_RULES))
						: NULL;
}

/* All sockets that listen, duplicates; NULL: `error` says why not. */
static int *collect_sockets(const struct upgrade *upgrade, size_t *count, bson_error_t *error)
{
	int *sockets = listeners_sockets(upgrade->listeners, count);
	int admin = admin_socket(upgrade->admin),
	    copy = admin >= 0 ? fcntl(admin, F_DUPFD_CLOEXEC, 0) : -1;

	if (!sockets || (admin >= 0 && copy < 0)) {
		bson_set_error(error, 0, 0, "there are no descriptors for its sockets: %s",
			       strerror(errno));
		for (size_t i = 0; sockets && i < *count; i++)
			close(sockets[i]);
		free(sockets);
		if (copy >= 0)
			close(copy);
		return NULL;
	}
	if (copy >= 0) {
		sockets = must_realloc(sockets, (*count + 1) * sizeof(*sockets));
		sockets[(*count)++] = copy;
	}
	return sockets;
}

static bool launch(struct upgrade *upgrade, const char *digest, bson_error_t *error)
{
	size_t count = 0;
	int *sockets = collect_sockets(upgrade, &count, error);
	bool good = sockets && launcher_launch(sockets, count, digest, &upgrade->channel, error);

	for (size_t i = 0; sockets && i < count; i++)
		close(sockets[i]);
	free(sockets);
	return good;
}

void upgrade_start(struct upgrade *upgrade)
{
	auto_buffer struct buffer text = {0};
	auto_free char *wrong = NULL;
	char digest[CONFIG_DIGEST];
	bson_error_t error = {0};

	config_file_wait_for_none();
	upgrade->wanted = false;
	if (upgrade_runs(upgrade)) {
		log_info("1054 upgrade: a new process is on its way already");
		return;
	}
	log_info("1055 upgrade: a new process is started; this one serves until that is ready");
	notify_send("STATUS=upgrade: a new process starts");
	reload_desk_begin(upgrade->desk);
	wrong = getpid() == 1 ? must_strndup(FIRST_PROCESS, strlen(FIRST_PROCESS))
			      : look_at_file(upgrade, digest);
	if (!wrong && launch(upgrade, digest, &error))
		return;
	text_append(&text, "no new process is started: %s", wrong ? wrong : error.message);
	while (text.length > 0 && text.data[text.length - 1] == '\n')
		text.length--;
	buffer_append(&text, "", 1);
	fail(upgrade, (const char *)text.data);
}

/* The manager hears of the new process from this one, which it knows; then from that. */
static void hand_over(struct upgrade *upgrade, const char *pid)
{
	const char yours = TAKEOVER_YOURS;

	notify_send("MAINPID=%s", pid);
	notify_close();
	(void)!send(upgrade->channel, &yours, 1, MSG_NOSIGNAL);
	upgrade->channel = -1; /* not closed: the new process sees by it when this one has ended */
	reload_desk_end(upgrade->desk, true, must_strndup("", 0));
	log_info("1056 upgrade: process %s serves from now on", pid);
}

static void note_failure(struct upgrade *upgrade, char *text)
{
	size_t length = strlen(text);
	auto_buffer struct buffer why = {0};

	while (length > 0 && text[length - 1] == '\n')
		text[--length] = '\0';
	text_append(&why, "the new process does not serve: %s", text);
	buffer_append(&why, "", 1);
	fail(upgrade, (const char *)why.data);
}

bool upgrade_poll(struct upgrade *upgrade)
{
	char packet[TAKEOVER_TEXT + 1];
	ssize_t got;

	if (!upgrade_runs(upgrade))
		return false;
	got = recv(upgrade->channel, packet, sizeof(packet) - 1, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	packet[got > 0 ? got : 0] = '\0';
	if (got > 0 && packet[0] == TAKEOVER_READY) {
		hand_over(upgrade, packet + 1);
		return true;
	}
	if (got > 0)
		note_failure(upgrade, packet + 1);
	else
		fail(upgrade, "the new process has ended before it was ready");
	return false;
}

void upgrade_cancel(struct upgrade *upgrade)
{
	const char no = TAKEOVER_NO;

	if (!upgrade_runs(upgrade))
		return;
	(void)!send(upgrade->channel, &no, 1, MSG_NOSIGNAL);
	fail(upgrade, "it is given up, since a signal ends this process");
}
