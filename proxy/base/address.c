/* Addresses as the configuration writes them, made into socket addresses. */
#include "proxy/base/address.h"

#include <stdlib.h>
#include <string.h>

struct resolution {
	uv_getaddrinfo_t request;
	void (*done)(void *context, const struct sockaddr *address);
	void *context;
};

/* "host:port" or "[host]:port" into its two parts. */
static bool split(const char *address, char *host, size_t size, const char **port)
{
	const char *colon = strrchr(address, ':');
	size_t length;

	if (!colon)
		return false;
	*port = colon + 1;
	length = (size_t)(colon - address);
	if (length >= 2 && address[0] == '[' && address[length - 1] == ']') {
		address++;
		length -= 2;
	}
	if (length == 0 || length >= size)
		return false;
	memcpy(host, address, length);
	host[length] = '\0';
	return true;
}

static bool numeric(const char *host, int port, struct sockaddr_storage *result)
{
	if (uv_ip4_addr(host, port, (struct sockaddr_in *)(void *)result) == 0)
		return true;
	return uv_ip6_addr(host, port, (struct sockaddr_in6 *)(void *)result) == 0;
}

static void address_on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
	struct resolution *resolution = (struct resolution *)(void *)request;

	resolution->done(resolution->context, status == 0 && found ? found->ai_addr : NULL);
	uv_freeaddrinfo(found);
	free(resolution);
}

static const struct addrinfo tcp_hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

static struct resolution *tell(void (*done)(void *context, const struct sockaddr *address),
			       void *context, const struct sockaddr *address)
{
	done(context, address);
	return NULL;
}

struct resolution *address_resolve(uv_loop_t *loop, const char *address,
				   void (*done)(void *context, const struct sockaddr *address),
				   void *context)
{
	struct sockaddr_storage result;
	struct resolution *resolution;
	char host[256];
	const char *port;

	if (!split(address, host, sizeof(host), &port))
		return tell(done, context, NULL);
	if (numeric(host, atoi(port), &result))
		return tell(done, context, (struct sockaddr *)&result);
	resolution = must_calloc(1, sizeof(*resolution));
	resolution->done = done;
	resolution->context = context;
	if (uv_getaddrinfo(loop, &resolution->request, address_on_resolved, host, port,
			   &tcp_hints) == 0)
		return resolution;
	free(resolution);
	return tell(done, context, NULL);
}

void address_give_up(struct resolution *resolution)
{
	(void)uv_cancel((uv_req_t *)(void *)&resolution->request);
}

must_check bool address_resolve_now(const char *address, struct sockaddr_storage *result)
{
	struct addrinfo *found = NULL;
	char host[256];
	const char *port;

	if (!split(address, host, sizeof(host), &port))
		return false;
	if (numeric(host, atoi(port), result))
		return true;
	if (getaddrinfo(host, port, &tcp_hints, &found) != 0 || !found)
		return false;
	memcpy(result, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return true;
}

bool address_equals(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
	const struct sockaddr_in *four = (const void *)one, *other_four = (const void *)other;
	const struct sockaddr_in6 *six = (const void *)one, *other_six = (const void *)other;

	if (one->ss_family != other->ss_family)
		return false;
	if (one->ss_family == AF_INET)
		return four->sin_port == other_four->sin_port &&
		       four->sin_addr.s_addr == other_four->sin_addr.s_addr;
	return one->ss_family == AF_INET6 && six->sin6_port == other_six->sin6_port &&
	       six->sin6_scope_id == other_six->sin6_scope_id &&
	       memcmp(&six->sin6_addr, &other_six->sin6_addr, sizeof(six->sin6_addr)) == 0;
}

in_port_t address_port(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)address)->sin_port;
	if (address->ss_family == AF_INET6)
		return ((const struct sockaddr_in6 *)(const void *)address)->sin6_port;
	return 0;
}

static bool is_any(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *four = (const void *)address;
	const struct sockaddr_in6 *six = (const void *)address;

	return address->ss_family == AF_INET ? four->sin_addr.s_addr == htonl(INADDR_ANY)
					     : IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
}

bool address_overlaps(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
	return address_port(one) == address_port(other) &&
	       (is_any(one) || is_any(other) || address_equals(one, other));
}

bool address_is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *four = (const void *)address;
	const struct sockaddr_in6 *six = (const void *)address;

	if (address->ss_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}
