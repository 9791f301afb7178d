/* Listening sockets that this process was started with. */
#include "proxy/process/inherited.h"

#include "proxy/base/address.h"
#include "proxy/base/log.h"
#include "proxy/process/environment.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST 3     /* SD_LISTEN_FDS_START */
#define MOST 100000 /* more are a mistake */
#define NAME_MAX_LENGTH 80

struct passed {
	struct sockaddr_storage address;
	int socket; /* -1: it is no listening socket of TCP, or was taken and is not to be shared */
	bool taken;
	bool shares; /* SO_REUSEPORT */
};

static struct passed *all; /* changed by one thread at a time: who opens listeners */
static size_t count;

static int option_of(int socket, int option)
{
	int value = 0;
	socklen_t length = sizeof(value);

	return getsockopt(socket, SOL_SOCKET, option, &value, &length) == 0 ? value : 0;
}

static void look_at(struct passed *passed, int socket)
{
	socklen_t length = sizeof(passed->address);
	int flags = fcntl(socket, F_GETFL);

	passed->socket = -1;
	if (flags < 0)
		return;
	fcntl(socket, F_SETFD, FD_CLOEXEC);
	if (!option_of(socket, SO_ACCEPTCONN) || option_of(socket, SO_TYPE) != SOCK_STREAM ||
	    getsockname(socket, (struct sockaddr *)&passed->address, &length) != 0) {
		close(socket);
		return;
	}
	fcntl(socket, F_SETFL, flags | O_NONBLOCK);
	passed->shares = option_of(socket, SO_REUSEPORT);
	passed->socket = socket;
}

void inherited_open(void)
{
	int64_t passed = environment_number("LISTEN_FDS");
	bool ours = environment_number("LISTEN_PID") == getpid();

	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDNAMES");
	if (!ours || passed < 1 || passed > MOST)
		return;
	count = (size_t)passed;
	all = must_calloc(count, sizeof(*all));
	for (size_t i = 0; i < count; i++)
		look_at(&all[i], FIRST + (int)i);
}

/* The first one whose address meets this one and that `fits` agrees to; NULL: none. */
static struct passed *find(const char *address, address_meeting *meets,
			   bool (*fits)(const struct passed *passed))
{
	struct sockaddr_storage where = {0};

	if (count == 0 || !address_resolve_now(address, &where))
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (all[i].socket >= 0 && meets(&all[i].address, &where) && fits(&all[i]))
			return &all[i];
	return NULL;
}

static bool is_any(const struct passed *passed)
{
	(void)passed;
	return true;
}

static bool is_free(const struct passed *passed)
{
	return !passed->taken;
}

static bool is_alone(const struct passed *passed)
{
	return !passed->shares;
}

must_check bool inherited_has(const char *address)
{
	return find(address, address_equals, is_any);
}

must_check bool inherited_overlaps(const char *address)
{
	return find(address, address_overlaps, is_any);
}

must_check int inherited_take_more(const char *address)
{
	struct passed *passed = find(address, address_equals, is_free);

	if (!passed)
		return -1;
	passed->taken = true;
	return passed->socket;
}

must_check int inherited_take(const char *address)
{
	int socket = inherited_take_more(address);
	struct passed *shared = socket < 0 ? find(address, address_equals, is_alone) : NULL;

	return shared ? fcntl(shared->socket, F_DUPFD_CLOEXEC, FIRST) : socket;
}

size_t inherited_count(void)
{
	return count;
}

static void close_unused(const struct passed *passed)
{
	char host[NAME_MAX_LENGTH] = "?", port[8] = "?";

	getnameinfo((const struct sockaddr *)&passed->address, sizeof(passed->address), host,
		    sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	log_warning("1052 a listening socket was passed on for '%s' port %s, which is no listener "
		    "of the file: it is closed",
		    host, port);
	close(passed->socket);
}

void inherited_close(void)
{
	for (size_t i = 0; i < count; i++)
		if (all[i].socket >= 0 && !all[i].taken)
			close_unused(&all[i]);
	free(all);
	all = NULL;
	count = 0;
}
