/* Whether `serve` may run as root: what takes over the process would have the machine. */
#include "proxy/process/root.h"

#include "proxy/base/address.h"
#include "proxy/base/log.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_loopback(const struct sockaddr_storage *address)
{
	const struct in6_addr *six =
		&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;

	if (address->ss_family != AF_INET6)
		return ntohl(((const struct sockaddr_in *)(const void *)address)
				     ->sin_addr.s_addr) >>
			       24 ==
		       127;
	return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

/* Nobody can listen at a name that is not known: that ends the start for a reason of its own. */
static bool stays_here(const char *text)
{
	struct sockaddr_storage address = {0};

	return !address_resolve_now(text, &address) || is_loopback(&address);
}

/* The first address that other machines may reach; NULL: none. */
static const char *open_address(const struct config *config)
{
	for (size_t i = 0; i < config->listen_count; i++)
		if (!stays_here(config->listen[i].address))
			return config->listen[i].address;
	return config->admin.address && !stays_here(config->admin.address) ? config->admin.address
									   : NULL;
}

must_check bool root_may_listen(const struct config *config, bool allowed, bson_error_t *error)
{
	const char *environment = getenv(ROOT_ALLOW), *open;

	if (geteuid() != 0 || allowed || (environment && strcmp(environment, "1") == 0))
		return true;
	open = open_address(config);
	if (open)
		bson_set_error(
			error, 0, 0,
			"serve does not run as root on '%s', which other machines may reach: "
			"run it as a user of its own, or listen on 127.0.0.1; --allow-root "
			"or " ROOT_ALLOW "=1 in the environment lets it run",
			open);
	return !open;
}

must_check bool root_may_serve(const struct config *config, bool allowed, bson_error_t *error)
{
	bool may = root_may_listen(config, allowed, error);

	if (may && geteuid() == 0)
		log_warning("1024 serve runs as root; run it as a user of its own");
	return may;
}
