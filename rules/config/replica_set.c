/* Reads `replica_set`: a range of ports, one for each member that the set may have. */
#include "rules/config/replica_set.h"

#include "rules/config/uri.h"
#include "rules/rule/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define HOST_MAX 256

/* "0.0.0.0:27117-27126" */
struct port_range {
	char host[HOST_MAX];
	int first, last;
};

static bool read_port(const char *text, size_t length, int *port)
{
	*port = 0;
	if (length < 1 || length > 5 || strspn(text, "0123456789") < length)
		return false;
	for (size_t i = 0; i < length; i++)
		*port = 10 * *port + (text[i] - '0');
	return *port >= 1 && *port <= 65535;
}

static bool read_range(const char *text, struct port_range *range)
{
	const char *colon = strrchr(text, ':'), *dash = colon ? strchr(colon, '-') : NULL;
	char first[HOST_MAX + 8];

	if (!dash || colon - text >= HOST_MAX ||
	    !read_port(colon + 1, (size_t)(dash - colon) - 1, &range->first) ||
	    !read_port(dash + 1, strlen(dash + 1), &range->last) || range->last < range->first)
		return false;
	snprintf(range->host, sizeof(range->host), "%.*s", (int)(colon - text), text);
	snprintf(first, sizeof(first), "%s:%d", range->host, range->first);
	return section_is_address(first);
}

static char *address_at(const char *host, int port)
{
	auto_buffer struct buffer text = {0};

	text_append(&text, "%s:%d", host, port);
	return text_steal(&text);
}

static bool is_wildcard_host(const char *host)
{
	return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "[::]") == 0;
}

static void check_advertise(const struct section *set, struct config_replica_set *replica_set,
			    const struct port_range *range)
{
	auto_free char *address = NULL;

	if (!replica_set->advertise && is_wildcard_host(range->host)) {
		problem_add(set->problems, set->node->at,
			    "'advertise' is needed: clients cannot connect to '%s'", range->host);
		return;
	}
	if (!replica_set->advertise)
		replica_set->advertise = must_strndup(range->host, strlen(range->host));
	address = address_at(replica_set->advertise, range->first);
	if (!section_is_address(address) || is_wildcard_host(replica_set->advertise))
		problem_add(set->problems, section_place(set, "advertise"),
			    "'advertise' must be a name or an address without a port, to which "
			    "clients can connect, not '%s'",
			    text_quote(bytes_of(replica_set->advertise)).text);
}

/* TLS and the load balancers are those of the set. */
static void fill_entries(struct config *config, const struct port_range *range)
{
	const struct config_replica_set *set = &config->replica_set;
	struct config_listen *entry;

	config->listen_count = (size_t)range->last - (size_t)range->first + 1;
	config->listen = must_calloc(config->listen_count, sizeof(*config->listen));
	for (size_t i = 0; i < config->listen_count; i++) {
		entry = &config->listen[i];
		entry->address = address_at(range->host, range->first + (int)i);
		entry->advertise = address_at(set->advertise ? set->advertise : range->host,
					      range->first + (int)i);
		entry->tls = set->tls;
		entry->proxied = set->proxied;
		entry->open = true;
	}
}

void replica_set_read(const struct section *file, struct config *config)
{
	struct section set = section_inner(file, "replica_set");
	struct port_range range;

	if (!set.node || !config->replica_set.listen)
		return;
	if (!read_range(config->replica_set.listen, &range)) {
		problem_add(set.problems, section_place(&set, "listen"),
			    "'listen' must be host:first-last, as in 0.0.0.0:27117-27126, not '%s'",
			    text_quote(bytes_of(config->replica_set.listen)).text);
		return;
	}
	if (range.last - range.first >= CONFIG_MEMBERS_MAX) {
		problem_add(set.problems, section_place(&set, "listen"),
			    "'listen' has %d ports; it may have %d", range.last - range.first + 1,
			    CONFIG_MEMBERS_MAX);
		return;
	}
	check_advertise(&set, &config->replica_set, &range);
	fill_entries(config, &range);
}

/* ---- The seed. */

/* Whether every host of one stands in the other. */
static bool hosts_within(const char *one, const char *other)
{
	char *host, *each;
	bool found = true;

	for (size_t i = 0; found && (host = uri_host(one, i)); i++) {
		found = false;
		for (size_t j = 0; !found && (each = uri_host(other, j)); j++) {
			found = strcasecmp(host, each) == 0;
			free(each);
		}
		free(host);
	}
	return found;
}

static void check_seed(const struct section *set, const char *seed, const char *account)
{
	struct place at = section_place(set, "seed");

	if (uri_has_user(seed))
		problem_add(set->problems, at,
			    "'seed' names an account and so does 'upstream'; only one can hold");
	else if (!hosts_within(seed, account) || !hosts_within(account, seed))
		problem_add(set->problems, at,
			    "'seed' names other servers than 'upstream': name the same ones, or "
			    "leave 'seed' out");
}

void replica_set_take_seed(const struct section *file, struct config *config, bool account)
{
	struct section set = section_inner(file, "replica_set");
	struct config_replica_set *replica_set = &config->replica_set;
	char *seed = replica_set->seed;

	if (!set.node)
		return;
	if (!seed && !account) {
		problem_add(set.problems, set.node->at,
			    "'seed' is missing here: a URI of the replica set, as in "
			    "mongodb://HOST:PORT,HOST:PORT/");
	} else if (!account) {
		replica_set->is_account = true;
		config->upstream_uri = must_strndup(seed, strlen(seed));
	} else if (seed && config->upstream_uri) {
		check_seed(&set, seed, config->upstream_uri);
	}
	if (!seed)
		return;
	replica_set->seed = uri_masked(seed); /* what is printed */
	bytes_wipe(bytes_of(seed));
	free(seed);
}
