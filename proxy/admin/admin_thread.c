/* Waits for libmicrohttpd's events, and for descriptors if there are none. */
#include "proxy/admin/admin_thread.h"

#include "protocol/base.h"
#include "proxy/base/clock.h"
#include "proxy/base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define IDLE_MS 1000
#define RUN_OUT_MS 1000
#define SHORT_MS 100 /* between two looks while there are no descriptors */

/* Milliseconds until libmicrohttpd is to look at its connections. At least once a second: it
 * listens again after a shortage of descriptors only when it is called. */
static int due_in(struct admin_thread *thread)
{
	MHD_UNSIGNED_LONG_LONG milliseconds;

	if (MHD_get_timeout(thread->daemon, &milliseconds) != MHD_YES || milliseconds > IDLE_MS)
		return IDLE_MS;
	return (int)milliseconds;
}

/* False: no descriptor is left, but the spare one. */
static bool descriptor_left(struct admin_thread *thread)
{
	int another;

	if (thread->spare < 0)
		thread->spare = fcntl(thread->events, F_DUPFD_CLOEXEC, 0);
	another = thread->spare < 0 ? -1 : fcntl(thread->events, F_DUPFD_CLOEXEC, 0);
	if (another >= 0)
		close(another);
	return another >= 0;
}

static void run_short(struct admin_thread *thread)
{
	struct pollfd wake = {.fd = thread->wake, .events = POLLIN};

	if (thread->spare >= 0)
		close(thread->spare);
	thread->spare = -1;
	MHD_run(thread->daemon);
	(void)poll(&wake, 1, SHORT_MS);
}

/* Who has connected is answered; nobody else connects here any more. */
static void run_out(struct admin_thread *thread)
{
	const union MHD_DaemonInfo *info;
	struct pollfd events = {.fd = thread->events, .events = POLLIN};
	int64_t until = clock_now() + RUN_OUT_MS;

	(void)MHD_quiesce_daemon(thread->daemon);
	do {
		(void)poll(&events, 1, SHORT_MS);
		MHD_run(thread->daemon);
		info = MHD_get_daemon_info(thread->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
	} while (info && info->num_connections > 0 && clock_now() < until);
}

static void *admin_run(void *context)
{
	struct admin_thread *thread = context;
	struct pollfd waited[] = {{.fd = thread->wake, .events = POLLIN},
				  {.fd = thread->events, .events = POLLIN}};

	log_name_thread("admin");
	while (!(waited[0].revents & POLLIN)) {
		(void)poll(waited, ARRAY_LENGTH(waited), due_in(thread));
		if (descriptor_left(thread))
			MHD_run(thread->daemon);
		else
			run_short(thread);
	}
	if (thread->runs_out)
		run_out(thread);
	return NULL;
}

void admin_thread_start(struct admin_thread *thread, struct MHD_Daemon *daemon)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);

	require(info && info->epoll_fd >= 0);
	thread->daemon = daemon;
	thread->events = info->epoll_fd;
	thread->wake = eventfd(0, EFD_CLOEXEC);
	require(thread->wake >= 0);
	thread->spare = -1;
	thread->runs_out = false;
	require(pthread_create(&thread->thread, NULL, admin_run, thread) == 0);
}

void admin_thread_stop(struct admin_thread *thread)
{
	require(eventfd_write(thread->wake, 1) == 0);
	pthread_join(thread->thread, NULL);
	close(thread->wake);
	if (thread->spare >= 0)
		close(thread->spare);
}

void admin_thread_run_out(struct admin_thread *thread)
{
	thread->runs_out = true;
	admin_thread_stop(thread);
}
