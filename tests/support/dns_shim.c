/* Preloaded into a program under test: its questions to the DNS go to 127.0.0.1 at the port in
 * $DNS_PORT, and names below .test are this machine. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>

#undef res_ninit
int __res_ninit(res_state state);

int __res_ninit(res_state state)
{
	int (*real)(res_state) = (int (*)(res_state))dlsym(RTLD_NEXT, "__res_ninit");
	const char *port = getenv("DNS_PORT");
	int result = real(state);

	if (result != 0 || !port)
		return result;
	state->nscount = 1;
	state->nsaddr_list[0].sin_family = AF_INET;
	state->nsaddr_list[0].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	state->nsaddr_list[0].sin_port = htons((unsigned short)strtol(port, NULL, 10));
	return 0;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **found)
{
	typedef int resolver(const char *, const char *, const struct addrinfo *,
			     struct addrinfo **);
	resolver *real = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
	size_t length = node ? strlen(node) : 0;

	if (length > 5 && strcmp(node + length - 5, ".test") == 0)
		node = "127.0.0.1";
	return real(node, service, hints, found);
}
