/* Reads the configuration file as a whole: addresses, the upstream account, limits, and the rules.
 */
#include "rules/config/config.h"

#include "protocol/proxied.h"
#include "rules/config/replica_set.h"
#include "rules/config/rules_file.h"
#include "rules/config/section.h"
#include "rules/rule/text.h"
#include "rules/config/uri.h"
#include "rules/config/includes.h"
#include "rules/config/variables.h"

#include <sched.h>
#include <stdlib.h>
#include <strings.h>

struct reader {
	struct section file;
	const char *name;
	const struct config_world *world;
	struct config *config;
	struct includes *includes;
};

/* ---- Listeners. */

static bool same_address(const char *one, const char *other)
{
	return one && other && strcasecmp(one, other) == 0;
}

/* Clients cannot connect to "all interfaces". */
static bool is_wildcard(const char *address)
{
	return strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0;
}

static void complete_advertise(const struct section *section, struct config_listen *listen)
{
	if (section_find(section, "advertise") || !listen->address)
		return;
	if (is_wildcard(listen->address))
		problem_add(section->problems, section->node->at,
			    "'advertise' is needed: clients cannot connect to '%s'",
			    listen->address);
	else
		listen->advertise = must_strndup(listen->address, strlen(listen->address));
}

static void check_listen_twice(const struct section *section, const struct config_listen *listen,
			       const struct config_listen *before)
{
	const struct {
		const char *key, *address, *taken;
	} pairs[] = {{"address", listen->address, before->address},
		     {"server", listen->server, before->server},
		     {"advertise", listen->advertise, before->advertise}};

	for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++) {
		if (same_address(pairs[i].address, pairs[i].taken) &&
		    (i < 2 || !same_address(listen->address, before->address)))
			problem_add(section->problems, section_place(section, pairs[i].key),
				    "'%s' '%s' is already that of another entry", pairs[i].key,
				    pairs[i].address);
	}
}

static void check_client_cert(const struct section *section, const struct config_tls *tls)
{
	if (tls->client_cert != CONFIG_CLIENT_CERT_NONE && !tls->ca)
		problem_add(
			section->problems, section_place(section, "tls"),
			"'client_cert' needs 'ca': the certificates that sign those of clients");
}

static void check_networks(const struct section *section, char *const *texts)
{
	struct network network;

	for (; texts && *texts; texts++)
		if (!network_parse(bytes_of(*texts), &network))
			problem_add(
				section->problems, section_place(section, "proxy_protocol_from"),
				"'proxy_protocol_from' must list IP addresses or networks, as in "
				"10.0.0.0/8, not '%s'",
				text_quote(bytes_of(*texts)).text);
}

static void read_listener(struct reader *reader, const struct yaml_node *node)
{
	struct config_listen *listen = &reader->config->listen[reader->config->listen_count++];
	struct section section;

	if (!section_open(&section, reader->file.problems, node, "listen"))
		return;
	section_read(&section, listen);
	listen->open = true;
	complete_advertise(&section, listen);
	check_client_cert(&section, &listen->tls);
	check_networks(&section, listen->proxied);
	for (size_t i = 0; i + 1 < reader->config->listen_count; i++)
		check_listen_twice(&section, listen, &reader->config->listen[i]);
}

/* A listener behind which Spillway itself listens would call itself without end. */
static void check_loop(const struct reader *reader, struct place at, const char *server)
{
	const struct config *config = reader->config;

	for (size_t i = 0; i < config->listen_count; i++) {
		if (same_address(server, config->listen[i].address))
			problem_add(reader->file.problems, at,
				    "'server' '%s' is an address that Spillway listens on", server);
	}
}

/* One of the two, and not both. */
static void check_listen(const struct section *file)
{
	if (!section_find(file, "replica_set"))
		(void)section_require(file, "listen");
	else if (section_find(file, "listen"))
		problem_add(file->problems, section_place(file, "replica_set"),
			    "'listen' and 'replica_set' are given; only one can hold");
}

static void read_replica_set(struct reader *reader)
{
	const struct config_replica_set *set = &reader->config->replica_set;
	struct section section = section_inner(&reader->file, "replica_set");

	if (!section.node)
		return;
	replica_set_read(&reader->file, reader->config);
	check_client_cert(&section, &set->tls);
	check_networks(&section, set->proxied);
}

static void read_listen(struct reader *reader)
{
	const struct yaml_node *list = section_list(&reader->file, "listen");
	size_t index = 0;

	if (!list || section_find(&reader->file, "replica_set"))
		return;
	if (list->count == 0)
		problem_add(reader->file.problems, list->at, "'listen' needs at least one entry");
	reader->config->listen = must_calloc(list->count, sizeof(*reader->config->listen));
	for (const struct yaml_node *item = list->first; item; item = item->next)
		read_listener(reader, item);
	for (const struct yaml_node *item = list->first; item; item = item->next)
		check_loop(reader, item->at, reader->config->listen[index++].server);
}

/* ---- The upstream account. */

char *config_beside(const char *name, const char *path)
{
	const char *slash = strrchr(name, '/');
	auto_buffer struct buffer joined = {0};

	if (*path != '/' && slash)
		buffer_append(&joined, name, (size_t)(slash + 1 - name));
	text_append(&joined, "%s", path);
	return text_steal(&joined);
}

static void append_file_option(struct buffer *uri, const char *option, const char *name,
			       const char *path)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/";
	auto_free char *whole = path ? config_beside(name, path) : NULL;

	if (!whole)
		return;
	text_append(uri, "&%s=", option);
	for (const char *at = whole; *at; at++)
		text_append(uri, strchr(plain, *at) ? "%c" : "%%%02X", (unsigned char)*at);
}

/* The account goes the same way as clients' connections. */
static void append_tls(struct buffer *uri, const struct reader *reader, char before)
{
	const struct config_tls *tls = &reader->config->server_tls;

	if (!tls->on)
		return;
	text_append(uri, "%ctls=true", before);
	append_file_option(uri, "tlsCAFile", reader->name, tls->ca);
	append_file_option(uri, "tlsCertificateKeyFile", reader->name, tls->cert);
	if (tls->key || tls->server_name)
		problem_add(reader->file.problems, section_place(&reader->file, "servers"),
			    "'upstream' is needed: the driver of Spillway's own account knows no "
			    "'key' and no 'server_name'; give 'upstream' a URI with tls=true");
}

static int compare_texts(const void *one, const void *other)
{
	return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* Sorted: entries in another order are no other account. */
static void build_uri(const struct reader *reader)
{
	const struct config *config = reader->config;
	size_t count = config->listen_count;
	const char **servers = must_calloc(count ? count : 1, sizeof(*servers));
	auto_buffer struct buffer uri = {0};

	for (size_t i = 0; i < count; i++)
		servers[i] = config->listen[i].server ? config->listen[i].server : "";
	qsort((void *)servers, count, sizeof(*servers), compare_texts);
	text_append(&uri, "mongodb://");
	for (size_t i = 0; i < count; i++)
		text_append(&uri, "%s%s", i > 0 ? "," : "", servers[i]);
	free((void *)servers);
	text_append(&uri, "/");
	append_tls(&uri, reader, '?');
	reader->config->upstream_uri = text_steal(&uri);
}

/* A seed that says nothing of TLS. */
static void add_tls(const struct reader *reader)
{
	char **uri = &reader->config->upstream_uri;
	auto_wiped_buffer struct buffer whole = {0};
	const char *hosts = *uri ? strstr(*uri, "://") : NULL;

	if (!hosts || !reader->config->server_tls.on || uri_is_srv(*uri) ||
	    strcasestr(*uri, "tls=") || strcasestr(*uri, "ssl="))
		return;
	text_append(&whole, "%s%s", *uri, strchr(hosts + 3, '/') ? "" : "/");
	append_tls(&whole, reader, strchr(*uri, '?') ? '&' : '?');
	bytes_wipe(bytes_of(*uri));
	free(*uri);
	*uri = text_steal(&whole);
}

/* Through Spillway the account would see no tail, and write none. */
static void check_upstream_loop(const struct reader *reader, struct place at, const char *what)
{
	const struct config *config = reader->config;
	char *host;

	for (size_t index = 0; (host = uri_host(config->upstream_uri, index)); index++) {
		for (size_t i = 0; i < config->listen_count; i++)
			if (same_address(host, config->listen[i].address))
				problem_add(
					reader->file.problems, at,
					"%s names '%s', an address that Spillway listens on: it "
					"has to name the servers behind it",
					what, config->listen[i].address);
		free(host);
	}
}

/* No message repeats the URI: there may be a password in it. */
static void check_uri(const struct reader *reader, struct place at, const char *what)
{
	const char *uri = reader->config->upstream_uri;
	auto_free char *mistake = NULL;
	const char *hosts;

	if (!uri)
		return;
	hosts = reader->config->replica_set.on && uri_is_srv(uri) ? NULL : uri_hosts_mistake(uri);
	mistake = uri_mistake(uri);
	if (!mistake && !hosts && reader->world->uri_mistake)
		mistake = reader->world->uri_mistake(uri);
	if (mistake || hosts)
		problem_add(reader->file.problems, at, "%s is not right: %s", what,
			    mistake ? mistake : hosts);
	else
		check_upstream_loop(reader, at, what);
}

static void read_uri_file(struct reader *reader, const struct section *upstream)
{
	struct place at = section_place(upstream, "uri_file");
	auto_free char *path = NULL, *mistake = NULL;

	section_text(upstream, "uri_file", &path);
	if (!path)
		return;
	if (!reader->world->read_uri_file) {
		problem_add(upstream->problems, at, "'uri_file' cannot be read here");
		return;
	}
	reader->config->uri_file = must_strndup(path, strlen(path));
	reader->config->upstream_uri = reader->world->read_uri_file(reader->name, path, &mistake);
	if (!reader->config->upstream_uri)
		problem_add(upstream->problems, at, "'uri_file' '%s' %s",
			    text_quote(bytes_of(path)).text, mistake);
	check_uri(reader, at, "what 'uri_file' holds");
}

static void read_uri(struct reader *reader, const struct section *upstream)
{
	struct place at = section_place(upstream, "uri");
	const char *uri = reader->config->upstream_uri;

	if (uri && reader->world->others_may_read && uri_has_secret(uri) &&
	    !section_find(upstream, "uri")->filled)
		problem_add(upstream->problems, at,
			    "'uri' holds a password and others may read this file: "
			    "chmod 600 it, or use 'uri_file'");
	check_uri(reader, at, "'uri'");
}

/* A seed without `tls` goes the way of clients' connections. */
static void take_seed(struct reader *reader, bool account)
{
	struct section set = section_inner(&reader->file, "replica_set");
	const char *seed = reader->config->replica_set.seed;
	struct place at;

	if (!set.node)
		return;
	at = section_place(&set, "seed");
	if (seed && reader->world->others_may_read && uri_has_secret(seed))
		problem_add(set.problems, at,
			    "'seed' holds a password and others may read this file: chmod 600 it, "
			    "or use 'upstream.uri_file'");
	replica_set_take_seed(&reader->file, reader->config, account);
	if (account)
		return;
	check_uri(reader, at, "'seed'");
	add_tls(reader);
}

static void read_upstream(struct reader *reader)
{
	const struct yaml_node *node = section_find(&reader->file, "upstream");
	struct section upstream = section_inner(&reader->file, "upstream");
	const char *given = reader->world->upstream_uri;
	const char *environment = given && *given ? given : NULL;
	bool uri = section_find(&upstream, "uri"), file = section_find(&upstream, "uri_file");

	if (node && !upstream.node)
		return;
	if (uri && file) {
		problem_add(upstream.problems, section_place(&upstream, "uri_file"),
			    "'uri' and 'uri_file' are given; only one can hold");
	} else if (file) {
		read_uri_file(reader, &upstream);
	} else if (uri) {
		read_uri(reader, &upstream);
	} else if (environment) {
		reader->config->upstream_uri = must_strndup(environment, strlen(environment));
		check_uri(reader, (struct place){1, 1, NULL}, "$SPILLWAY_UPSTREAM_URI");
	} else if (!section_find(&reader->file, "replica_set")) {
		build_uri(reader);
	}
	take_seed(reader, uri || file || environment);
}

/* ---- The rest. */

/* Requests name a host with any port or none. */
static bool is_host(const char *text)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
	static const char of_six[] = "0123456789abcdefABCDEF:.";
	size_t length = strlen(text);

	if (*text == '[')
		return length > 2 && 1 + strspn(text + 1, of_six) == length - 1 &&
		       text[length - 1] == ']';
	return strspn(text, allowed) == length ||
	       (strspn(text, of_six) == length && strchr(text, ':') != strrchr(text, ':'));
}

static void check_hosts(const struct reader *reader)
{
	struct section admin = section_inner(&reader->file, "admin");

	for (char **host = reader->config->admin.hosts; host && *host; host++)
		if (!is_host(*host))
			problem_add(admin.problems, section_place(&admin, "hosts"),
				    "'hosts' must hold names or addresses without a port, not '%s'",
				    text_quote(bytes_of(*host)).text);
}

static void check_admin(const struct reader *reader)
{
	const struct config *config = reader->config;
	const char *address = config->admin.address;

	for (size_t i = 0; i < config->listen_count; i++) {
		if (same_address(address, config->listen[i].address))
			problem_add(reader->file.problems, section_place(&reader->file, "admin"),
				    "'admin' '%s' is an address that clients connect to", address);
	}
	check_hosts(reader);
}

static void check_server_tls(const struct reader *reader)
{
	const struct config_tls *tls = &reader->config->server_tls;

	if (tls->key && !tls->cert)
		problem_add(reader->file.problems, section_place(&reader->file, "servers"),
			    "'key' needs 'cert': the certificate that it belongs to");
}

/* The cores that this process may use. */
static int64_t core_count(void)
{
	cpu_set_t cores;
	int count;

	if (sched_getaffinity(0, sizeof(cores), &cores) != 0)
		return 1;
	count = CPU_COUNT(&cores);
	return count > CONFIG_WORKERS_MAX ? CONFIG_WORKERS_MAX : count;
}

/* The rules may all be in files that are included. */
static void read_rules(struct reader *reader)
{
	const struct yaml_node *include = section_list(&reader->file, "include");
	struct yaml_node none = {.kind = YAML_LIST};
	/* The tree is this reader's own. */
	struct yaml_node *rules =
		(struct yaml_node *)(uintptr_t)section_list(&reader->file, "rules");

	if (!include && !section_require(&reader->file, "rules"))
		return;
	if (!section_find(&reader->file, "rules"))
		rules = &none;
	if (rules && includes_append(reader->includes, reader->name, include, rules))
		reader->config->rules = rules_file_read(rules, reader->file.problems);
}

static void read_file(struct reader *reader, struct problems *problems,
		      const struct yaml_node *root)
{
	struct config *config = reader->config;

	if (!root) {
		problem_add(problems, (struct place){1, 1, NULL},
			    "the file is empty; it needs 'listen'");
		return;
	}
	if (!section_open(&reader->file, problems, root, ""))
		return;
	settings_fill("", config);
	check_listen(&reader->file);
	section_read(&reader->file, config);
	if (config->workers == 0)
		config->workers = core_count();
	read_listen(reader);
	read_replica_set(reader);
	check_server_tls(reader);
	read_upstream(reader);
	check_admin(reader);
	read_rules(reader);
}

struct config *config_parse(const char *name, struct bytes text, const struct config_world *world,
			    char **problems)
{
	static const struct config_world nothing;
	struct problems found = {.name = name};
	struct config *config = must_calloc(1, sizeof(*config));
	struct reader reader = {.name = name, .world = world ? world : &nothing, .config = config};
	struct includes includes = {.world = reader.world, .problems = &found};
	struct yaml_tree tree = {0};
	bool good;

	reader.includes = &includes;
	config->file = must_strndup(name, strlen(name));
	if (yaml_parse(&tree, text, &found)) {
		variables_fill(&tree, reader.world->variable, &found);
		read_file(&reader, &found, tree.root);
	}
	config->included = includes_paths(&includes);
	yaml_tree_fini(&tree);
	good = found.count == 0;
	if (!good)
		*problems = problems_steal(&found);
	includes_fini(&includes);
	if (good)
		return config;
	config_free(config);
	return NULL;
}

static void tls_free(struct config_tls *tls)
{
	free(tls->cert);
	free(tls->key);
	free(tls->ca);
	free(tls->server_name);
}

static void texts_free(char **texts)
{
	for (char **text = texts; text && *text; text++)
		free(*text);
	free((void *)texts);
}

static void admin_fini(struct config_admin *admin)
{
	texts_free(admin->hosts);
	free(admin->address);
	free(admin->token_file);
	free(admin->tls.cert);
	free(admin->tls.key);
}

void config_listen_fini(struct config_listen *listen)
{
	free(listen->address);
	free(listen->server);
	free(listen->advertise);
	tls_free(&listen->tls);
	texts_free(listen->proxied);
}

static void listen_free(struct config *config)
{
	for (size_t i = 0; i < config->listen_count && !config->listen_shared; i++) {
		if (config->replica_set.on) { /* they are the set's */
			config->listen[i].tls = (struct config_tls){0};
			config->listen[i].proxied = NULL;
		}
		config_listen_fini(&config->listen[i]);
	}
	if (!config->listen_shared)
		free(config->listen);
	free(config->replica_set.seed);
	free(config->replica_set.listen);
	free(config->replica_set.advertise);
	tls_free(&config->replica_set.tls);
	texts_free(config->replica_set.proxied);
}

void config_free(struct config *config)
{
	if (!config)
		return;
	listen_free(config);
	tls_free(&config->server_tls);
	if (config->upstream_uri) /* it may hold a password */
		bytes_wipe(bytes_of(config->upstream_uri));
	free(config->upstream_uri);
	admin_fini(&config->admin);
	free(config->uri_file);
	texts_free(config->include);
	texts_free(config->included);
	free(config->file);
	rule_set_unref(config->rules);
	free(config);
}
