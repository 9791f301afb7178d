/* Starts the program anew for an upgrade.
 *
 *     serve ── sockets, 200 a packet; then the channel ──> launcher ── fork, fork, exec ──> serve
 */
#include "proxy/process/launcher.h"

#include "proxy/process/takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST 3     /* where the sockets stand in the new process */
#define PACKET 200  /* descriptors in one packet; the kernel takes 253 */
#define MOST 100000 /* sockets */
#define SOCKETS 'S' /* a packet with listening sockets */
#define DIGEST 80   /* its text with a NUL, at most */
#define CHANNEL 'C' /* the last packet, with the channel */

static int to_launcher = -1; /* of `serve` */

/* ---- The launcher. It uses little of the C library, and none of the others. */

struct launch {
	int sockets[MOST];
	size_t count;
	char digest[DIGEST];
};

/* All descriptors from `first` on, but `kept`. */
static void close_others(unsigned first, int kept)
{
	if ((unsigned)kept > first)
		close_range(first, (unsigned)kept - 1, 0);
	close_range((unsigned)kept + 1, ~0U, 0);
}

static void set_number(const char *variable, long long number)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", number);
	setenv(variable, text, 1);
}

/* Numbers FIRST and so on for the sockets, the next one for the channel. Two steps: a descriptor
 * must not be overwritten that is still to be moved. */
static void place_sockets(struct launch *launch, int channel)
{
	int beyond = FIRST + (int)launch->count + 1;

	for (size_t i = 0; i < launch->count; i++)
		launch->sockets[i] = fcntl(launch->sockets[i], F_DUPFD, beyond);
	channel = fcntl(channel, F_DUPFD, beyond);
	for (size_t i = 0; i < launch->count; i++)
		dup2(launch->sockets[i], FIRST + (int)i);
	dup2(channel, beyond - 1);
	close_range((unsigned)beyond, ~0U, 0);
}

static void run_program(struct launch *launch, int channel, char *const *arguments)
{
	char why[TAKEOVER_TEXT];

	place_sockets(launch, channel);
	channel = FIRST + (int)launch->count;
	set_number("LISTEN_FDS", (long long)launch->count);
	set_number("LISTEN_PID", getpid());
	set_number(LAUNCHER_CHANNEL, channel);
	setenv(LAUNCHER_DIGEST, launch->digest, 1);
	if (getenv("WATCHDOG_PID"))
		set_number("WATCHDOG_PID", getpid());
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	execvp(arguments[0], arguments);
	snprintf(why, sizeof(why), "%ccannot start '%s': %s", TAKEOVER_ERROR, arguments[0],
		 strerror(errno));
	(void)!send(channel, why, strlen(why), MSG_NOSIGNAL);
	_exit(1);
}

/* The program's parent ends at once, so that the service manager becomes its parent. */
static void launch_program(struct launch *launch, int channel, char *const *arguments)
{
	pid_t between = fork();

	if (between == 0) {
		if (fork() == 0)
			run_program(launch, channel, arguments);
		_exit(0);
	}
	if (between > 0)
		waitpid(between, NULL, 0);
	close(channel);
	for (size_t i = 0; i < launch->count; i++)
		close(launch->sockets[i]);
	launch->count = 0;
}

/* The kind of the packet; 0: `serve` has ended. Its descriptors are added to the launch's. */
static char take_packet(int from, struct launch *launch)
{
	char kind = 0;
	struct iovec data[] = {{&kind, 1}, {launch->digest, DIGEST - 1}};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(PACKET * sizeof(int))];
	} control;
	struct msghdr packet = {.msg_iov = data,
				.msg_iovlen = ARRAY_LENGTH(data),
				.msg_control = control.room,
				.msg_controllen = sizeof(control.room)};
	const struct cmsghdr *head;
	size_t got;

	while (recvmsg(from, &packet, MSG_CMSG_CLOEXEC) < 0)
		if (errno != EINTR)
			return 0;
	head = CMSG_FIRSTHDR(&packet);
	if (!head || head->cmsg_type != SCM_RIGHTS || (packet.msg_flags & MSG_CTRUNC))
		return 0;
	got = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	if (launch->count + got > MOST)
		return 0;
	memcpy(launch->sockets + launch->count, CMSG_DATA(head), got * sizeof(int));
	launch->count += got;
	return kind;
}

/* Sockets may be more than the soft limit of a shell. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* A terminal's Ctrl-C and the service manager's SIGTERM reach both processes: `serve` decides. */
static void run_launcher(int from, char *const *arguments)
{
	static struct launch launch;
	char kind;

	close_others(FIRST, from);
	raise_limit();
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	while ((kind = take_packet(from, &launch)))
		if (kind == CHANNEL) {
			int channel = launch.sockets[--launch.count];

			launch_program(&launch, channel, arguments);
		}
	_exit(0);
}

/* ---- `serve`. */

void launcher_start(char *const *arguments)
{
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return;
	child = fork();
	if (child == 0)
		run_launcher(ends[1], arguments);
	close(ends[1]);
	if (child > 0)
		to_launcher = ends[0];
	else
		close(ends[0]);
}

void launcher_stop(void)
{
	if (to_launcher >= 0)
		close(to_launcher);
	to_launcher = -1;
}

static bool send_packet(char kind, const char *digest, const int *descriptors, size_t count)
{
	struct iovec data[] = {{&kind, 1}, {(void *)(uintptr_t)digest, strlen(digest) + 1}};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(PACKET * sizeof(int))];
	} control = {0};
	struct msghdr packet = {.msg_iov = data,
				.msg_iovlen = ARRAY_LENGTH(data),
				.msg_control = control.room,
				.msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *head = CMSG_FIRSTHDR(&packet);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(head), descriptors, count * sizeof(int));
	return sendmsg(to_launcher, &packet, MSG_NOSIGNAL) > 0;
}

static bool send_all(const int *sockets, size_t count, const char *digest, int channel)
{
	for (size_t i = 0; i < count; i += PACKET)
		if (!send_packet(SOCKETS, "", sockets + i, count - i < PACKET ? count - i : PACKET))
			return false;
	return send_packet(CHANNEL, digest, &channel, 1);
}

must_check bool launcher_launch(const int *sockets, size_t count, const char *digest, int *channel,
				bson_error_t *error)
{
	int ends[2];
	bool sent;

	if (to_launcher < 0) {
		bson_set_error(error, 0, 0,
			       "the process that would start it could not be made at "
			       "the start of this one, or has ended");
		return false;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		bson_set_error(error, 0, 0, "no socket for it: %s", strerror(errno));
		return false;
	}
	sent = send_all(sockets, count, digest, ends[1]);
	if (!sent) {
		bson_set_error(error, 0, 0, "the listening sockets cannot be passed on: %s",
			       strerror(errno));
		close(ends[0]);
		launcher_stop();
	}
	close(ends[1]);
	if (sent)
		*channel = ends[0];
	return sent;
}
