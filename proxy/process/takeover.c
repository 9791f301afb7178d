/* The new process of an upgrade. */
#include "proxy/process/takeover.h"

#include "proxy/base/log.h"
#include "proxy/process/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 10000 /* for the other process to answer */

static int channel = -1;
static int before = -1; /* the same channel, once this process serves */

static void say_error(const char *text)
{
	char packet[TAKEOVER_TEXT] = {TAKEOVER_ERROR};
	size_t length = strnlen(text, sizeof(packet) - 1);

	memcpy(packet + 1, text, length);
	(void)!send(channel, packet, length + 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void takeover_open(void)
{
	const char *text = getenv(LAUNCHER_CHANNEL);

	if (text && *text)
		channel = atoi(text);
	unsetenv(LAUNCHER_CHANNEL);
	if (channel < 0)
		return;
	if (fcntl(channel, F_SETFD, FD_CLOEXEC) != 0)
		channel = -1;
	else
		log_tell_errors(say_error);
}

must_check bool takeover_finds(const char *digest)
{
	const char *seen = getenv(LAUNCHER_DIGEST);
	bool same = channel < 0 || (seen && strcmp(seen, digest) == 0);

	unsetenv(LAUNCHER_DIGEST);
	if (!same)
		log_error("1063 upgrade: the file has been changed meanwhile");
	return same;
}

bool takeover_runs(void)
{
	return channel >= 0;
}

/* The other process's answer; 0: it has ended, or hangs. */
static char await_answer(void)
{
	struct pollfd readable = {.fd = channel, .events = POLLIN};
	char answer = 0;

	if (poll(&readable, 1, PATIENCE_MS) < 1 || recv(channel, &answer, 1, MSG_DONTWAIT) != 1)
		return 0;
	return answer;
}

must_check bool takeover_end(void)
{
	char packet[24] = {TAKEOVER_READY}, answer;

	if (channel < 0)
		return true;
	snprintf(packet + 1, sizeof(packet) - 1, "%d", (int)getpid());
	(void)!send(channel, packet, strlen(packet), MSG_NOSIGNAL);
	answer = await_answer();
	log_tell_errors(NULL);
	before = channel;
	channel = -1;
	if (answer == TAKEOVER_NO)
		log_error("1057 upgrade: the process before this one gives it up: this one ends");
	return answer != TAKEOVER_NO;
}

bool takeover_before_lives(void)
{
	char byte;
	ssize_t got;

	if (before < 0)
		return false;
	got = recv(before, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
		return true;
	close(before);
	before = -1;
	return false;
}
