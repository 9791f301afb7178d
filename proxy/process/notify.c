/* Tells the service manager how `serve` is: sd_notify(3) without its library. */
#include "proxy/process/notify.h"

#include "proxy/base/log.h"
#include "proxy/process/environment.h"
#include "proxy/process/takeover.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_SECONDS 5 /* a manager that is busy takes nothing meanwhile */
#define MESSAGE_MAX 1024
#define MICROSECONDS 1000 /* of a millisecond */

static int manager = -1;
static int failure; /* errno's; 0: none */

/* The length of the address; 0: it is none. '@' begins a name of the abstract namespace. */
static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
	size_t length = strlen(name);

	if ((name[0] != '/' && name[0] != '@') || length < 2 || length >= sizeof(address->sun_path))
		return 0;
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, name, length);
	if (name[0] == '@')
		address->sun_path[0] = '\0';
	else
		length++;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

static bool reach(const char *name)
{
	struct sockaddr_un address = {0};
	struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
	socklen_t length = address_of(name, &address);

	errno = EINVAL;
	if (length == 0)
		return false;
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (manager < 0)
		return false;
	setsockopt(manager, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return connect(manager, (const struct sockaddr *)(const void *)&address, length) == 0;
}

void notify_open(void)
{
	const char *name = getenv("NOTIFY_SOCKET");

	if (!name || !*name || reach(name))
		return;
	failure = errno;
	notify_close();
}

void notify_close(void)
{
	if (manager >= 0)
		close(manager);
	manager = -1;
}

void notify_complain(void)
{
	if (failure)
		log_warning("1040 the service manager is not told how serve is: NOTIFY_SOCKET: %s",
			    strerror(failure));
}

int64_t notify_watchdog_ms(void)
{
	int64_t process = environment_number("WATCHDOG_PID");

	if (manager < 0 || (process && process != getpid()))
		return 0;
	return environment_number("WATCHDOG_USEC") / MICROSECONDS;
}

void notify_send(const char *format, ...)
{
	char message[MESSAGE_MAX];
	va_list arguments;
	int length;

	/* Until it takes over, the manager does not know this process. */
	if (manager < 0 || takeover_runs())
		return;
	va_start(arguments, format);
	length = vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	if (length > 0 && (size_t)length < sizeof(message) &&
	    send(manager, message, (size_t)length, MSG_NOSIGNAL) < 0)
		log_debug("1041 the service manager did not take a message: %s", strerror(errno));
}
