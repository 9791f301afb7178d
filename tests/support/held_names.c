/* Preloaded into a program under test: names below .test are this machine, and are looked up as
 * slowly as a test says, in a file that both map (support/failing.py). */
#include "tests/support/preloaded.h"

#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* As support/failing.py has them. */
struct control {
	_Atomic int64_t held;  /* 1: who asks waits, but for: */
	_Atomic int64_t let;   /* so many, since the start */
	_Atomic int64_t asked; /* since the start */
};

static struct control none, *control = &none;

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

__attribute__((constructor)) static void open_control(void)
{
	control = map_control("HELD_NAMES", &none, sizeof(none));
}

static void await_leave(void)
{
	int64_t number = ++control->asked;

	while (control->held && number > control->let)
		(void)poll(NULL, 0, 5);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **found)
{
	resolver *real = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
	size_t length = node ? strlen(node) : 0;

	if (length > 5 && strcmp(node + length - 5, ".test") == 0) {
		await_leave();
		node = "127.0.0.1";
	}
	return real(node, service, hints, found);
}
