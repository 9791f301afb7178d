/* Tests rules/config/config.c and rules/config/config_print.c: the file as a whole, and that what
 * is printed reads back. */
#include "tests/unit/configs.h"

#include <sched.h>
#include <stdlib.h>

#define LISTEN "listen:\n  - address: 127.0.0.1:1\n    server: 127.0.0.1:2\n" /* lines 1 to 3 */
#define RULES "rules: []\n"

#define ADDRESS_NEEDED " must be host:port or [IPv6]:port, the port from 1 to 65535, not "

Test(config, top_level_mistakes)
{
	bad("", &nothing, "f:1:1: the file is empty; it needs 'listen'\n");
	bad("- a\n", &nothing, "f:1:1: keys with values must stand here: listen, ...\n");
	bad("{}\n", &nothing, "f:1:1: 'listen' is missing here\nf:1:1: 'rules' is missing here\n");
	bad(LISTEN "rule: []\n" RULES, &nothing,
	    "f:4:1: unknown key 'rule'; did you mean 'rules'?\n");
	bad(LISTEN "rules:\n", &nothing, "f:4:1: 'rules' must be a list\n");
	bad("listen: []\n" RULES, &nothing, "f:1:9: 'listen' needs at least one entry\n");
	bad("listen: 127.0.0.1:1\n" RULES, &nothing, "f:1:9: 'listen' must be a list\n");
	bad("listen: [a]\n" RULES, &nothing,
	    "f:1:10: keys with values must stand here: address, ...\n");
	bad("listen: [{}]\n" RULES, &nothing,
	    "f:1:10: 'address' is missing here\nf:1:10: 'server' is missing here\n");
	bad(LISTEN "a: [\n", &nothing,
	    "f:5:1: not valid YAML: flow sequence without a closing bracket\n");
}

Test(config, addresses)
{
	static const char *const wrong[] = {"h",       ":1",    "h:",       "h:0",     "h:65536",
					    "h:1x",    "h:-1",  "h:00001x", "::1:27",  "[::1]",
					    "[::1]:0", "[]:1",  "[::1]x:1", "[x]:1",   "a b:1",
					    "h/x:1",   "a,b:1", "u@h:1",    "h:123456"};
	static const char *const right[] = {"h:1", "a-b.c_d:65535", "[::1]:27017",
					    "[fe80::1.2.3.4]:1", "10.0.0.1:27017"};

	for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
		struct buffer text = {0}, line = {0};
		auto_free char *file = NULL, *expected = NULL;

		text_append(&text, LISTEN RULES "admin: '%s'\n", wrong[i]);
		text_append(&line, "f:5:8: 'admin'" ADDRESS_NEEDED "'%s'\n", wrong[i]);
		file = text_steal(&text);
		expected = text_steal(&line);
		bad(file, &nothing, expected);
	}
	for (size_t i = 0; i < ARRAY_LENGTH(right); i++) {
		struct buffer text = {0};
		auto_free char *file = NULL;
		struct config *config;

		text_append(&text, LISTEN RULES "admin: '%s'\n", right[i]);
		file = text_steal(&text);
		config = good(file, &nothing);
		cr_assert_str_eq(config->admin.address, right[i]);
		config_free(config);
	}
}

Test(config, listeners_are_apart)
{
	bad("listen:\n  - { address: a:1, server: b:1 }\n  - { address: A:1, server: c:1 }\n" RULES,
	    &nothing, "f:3:16: 'address' 'A:1' is already that of another entry\n");
	bad("listen:\n  - { address: a:1, server: b:1 }\n  - { address: a:2, server: b:1 }\n" RULES,
	    &nothing, "f:3:29: 'server' 'b:1' is already that of another entry\n");
	bad("listen:\n  - { address: a:1, server: b:1, advertise: x:1 }\n"
	    "  - { address: a:2, server: b:2, advertise: x:1 }\n" RULES,
	    &nothing, "f:3:45: 'advertise' 'x:1' is already that of another entry\n");
	bad("listen:\n  - { address: a:1, server: b:1 }\n  - { address: a:2, server: a:1 }\n" RULES,
	    &nothing, "f:3:5: 'server' 'a:1' is an address that Spillway listens on\n");
	bad(LISTEN RULES "admin: 127.0.0.1:1\n", &nothing,
	    "f:5:8: 'admin' '127.0.0.1:1' is an address that clients connect to\n");
	bad("listen:\n  - { address: 0.0.0.0:1, server: b:1 }\n"
	    "  - { address: '[::]:2', server: c:1 }\n" RULES,
	    &nothing,
	    "f:2:5: 'advertise' is needed: clients cannot connect to '0.0.0.0:1'\n"
	    "f:3:5: 'advertise' is needed: clients cannot connect to '[::]:2'\n");
}

#define ADMIN LISTEN RULES "admin: "

Test(config, an_admin_address_is_a_section_or_its_address_alone)
{
	struct config *config = good(ADMIN "{ address: a:9, hosts: [b, '[::1]'], token_file: t, "
					   "tls: { cert: c, key: k, min_version: 1.3 } }\n",
				     &nothing);

	cr_assert_str_eq(config->admin.address, "a:9");
	cr_assert_str_eq(config->admin.hosts[0], "b");
	cr_assert_str_eq(config->admin.hosts[1], "[::1]");
	cr_assert_null(config->admin.hosts[2]);
	cr_assert_str_eq(config->admin.token_file, "t");
	cr_assert_str_eq(config->admin.tls.cert, "c");
	cr_assert_str_eq(config->admin.tls.key, "k");
	cr_assert(config->admin.tls.only_1_3);
	config_free(config);
	config = good(ADMIN "{ address: a:9, hosts: [] }\n", &nothing);
	cr_assert_null(config->admin.hosts);
	cr_assert_null(config->admin.tls.cert);
	cr_assert_not(config->admin.tls.only_1_3);
	config_free(config);
}

Test(config, mistakes_in_admin)
{
	bad(ADMIN "{ hosts: [b] }\n", &nothing, "f:5:8: 'address' is missing here\n");
	bad(ADMIN "[a:1]\n", &nothing, "f:5:8: 'admin' must be a single value\n");
	bad(ADMIN "\n", &nothing, "f:5:1: 'admin' has no value\n");
	bad(ADMIN "{ address: off }\n", &nothing, "f:5:19: 'address'" ADDRESS_NEEDED "'off'\n");
	bad(ADMIN "{ address: '127.0.0.1:1' }\n", &nothing,
	    "f:5:8: 'admin' '127.0.0.1:1' is an address that clients connect to\n");
	bad(ADMIN "{ address: a:9, hosts: b }\n", &nothing, "f:5:31: 'hosts' must be a list\n");
	bad(ADMIN "{ address: a:9, hosts: [[b], '', '\x7f'] }\n", &nothing,
	    "f:5:32: 'hosts' must be a single value\n"
	    "f:5:37: 'hosts' is empty\n"
	    "f:5:41: 'hosts' must be without control characters\n");
	bad(ADMIN "{ address: a:9, token_file: '' }\n", &nothing,
	    "f:5:36: 'token_file' is empty\n");
	bad(ADMIN "{ address: a:9, tls: { cert: c, min_version: 1.1 } }\n", &nothing,
	    "f:5:29: 'key' is missing here\n"
	    "f:5:53: 'min_version' must be '1.2' or '1.3', not '1.1'\n");
}

Test(config, hosts_are_names_without_a_port)
{
	static const char *const wrong[] = {"b:80", "[::1]:80", "[]", "a b", "*", "http://b"};

	for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
		struct buffer text = {0}, line = {0};
		auto_free char *file = NULL, *expected = NULL;

		text_append(&text, ADMIN "{ address: a:9, hosts: [b, '%s'] }\n", wrong[i]);
		text_append(&line,
			    "f:5:31: 'hosts' must hold names or addresses without a port, "
			    "not '%s'\n",
			    wrong[i]);
		file = text_steal(&text);
		expected = text_steal(&line);
		bad(file, &nothing, expected);
	}
	config_free(good(ADMIN "{ address: a:9, hosts: [b-1.example, 10.0.0.1, '::1', '[::1]'] }\n",
			 &nothing));
}

Test(config, who_may_send_a_proxy_header)
{
	struct config *config =
		good(LISTEN "    proxy_protocol_from: [10.0.0.0/8, \"::1\"]\n" RULES, &nothing);

	cr_expect_str_eq(config->listen[0].proxied[0], "10.0.0.0/8");
	cr_expect_str_eq(config->listen[0].proxied[1], "::1");
	cr_expect_null(config->listen[0].proxied[2]);
	config_free(config);
	config = good(LISTEN "    proxy_protocol_from: []\n" RULES, &nothing);
	cr_expect_null(config->listen[0].proxied);
	config_free(config);
	bad(LISTEN "    proxy_protocol_from: [10.0.0.1:5, '', [x], 10.0.0.0/8]\n" RULES, &nothing,
	    "f:4:26: 'proxy_protocol_from' must list IP addresses or networks, as in 10.0.0.0/8, "
	    "not '10.0.0.1:5'\n"
	    "f:4:39: 'proxy_protocol_from' is empty\n"
	    "f:4:43: 'proxy_protocol_from' must be a single value\n");
	bad(LISTEN "    proxy_protocol_from: lb\n" RULES, &nothing,
	    "f:4:26: 'proxy_protocol_from' must be a list\n");
}

static void bad_share(const char *share)
{
	auto_buffer struct buffer text = {0}, expected = {0};

	text_append(&text, LISTEN RULES "observe: { sample: %s }\n", share);
	text_append(&expected,
		    "f:5:20: 'sample' must be a fraction such as 0.01, or off, not '%s'\n", share);
	buffer_append(&text, "", 1);
	buffer_append(&expected, "", 1);
	bad((const char *)text.data, &nothing, (const char *)expected.data);
}

Test(config, workers_limits_and_log)
{
	static const char *const no_share[] = {"1%", ".5", "1.", "0.1234567", "10", "1e-3", "-0.5"};

	bad(LISTEN RULES "workers: 257\n", &nothing,
	    "f:5:10: 'workers' must be a whole number from 0 to 256, not '257'\n");
	bad(LISTEN RULES "limits: { connections: 0, handshake: 0s, drain: 0s, memory: 0 }\n",
	    &nothing,
	    "f:5:24: 'connections' must be a whole number from 1 to 1000000, not '0'\n"
	    "f:5:38: 'handshake' must be from 1ms to 1h, not '0s'\n"
	    "f:5:49: 'drain' must be from 1ms to 24h, not '0s'\n"
	    "f:5:61: 'memory' must be from 1MB to 1024GB, not '0'\n");
	bad(LISTEN RULES "limits: { connections_per_address: 0, login: 0s, progress: 61m }\n",
	    &nothing,
	    "f:5:36: 'connections_per_address' must be a whole number from 1 to 1000000, or off, "
	    "not '0'\n"
	    "f:5:46: 'login' must be from 1ms to 1h, not '0s'\n"
	    "f:5:60: 'progress' must be from 1ms to 1h, not '61m'\n");
	bad(LISTEN RULES "limits: { before_login: 1KB }\n", &nothing,
	    "f:5:25: 'before_login' must be from 16KB to 48MB, not '1KB'\n");
	bad(LISTEN RULES "log: { level: trace, format: xml }\n", &nothing,
	    "f:5:15: 'level' must be 'error', 'warning', 'info' or 'debug', not 'trace'\n"
	    "f:5:30: 'format' must be 'text' or 'json', not 'xml'\n");
	bad(LISTEN RULES "observe: { sample: 1.1 }\n", &nothing,
	    "f:5:20: 'sample' must be from 0.000001 to 1, or off, not '1.1'\n");
	for (size_t i = 0; i < ARRAY_LENGTH(no_share); i++)
		bad_share(no_share[i]);
	bad(LISTEN RULES "limits: 5\nlog: x\n", &nothing,
	    "f:5:9: keys with values must stand here: connections, ...\n"
	    "f:6:6: keys with values must stand here: level, ...\n");
}

Test(config, defaults)
{
	struct config *config = good(LISTEN RULES, &nothing);
	cpu_set_t cores;

	cr_assert_eq(config->listen_count, 1);
	cr_assert_str_eq(config->listen[0].address, "127.0.0.1:1");
	cr_assert_str_eq(config->listen[0].server, "127.0.0.1:2");
	cr_assert_str_eq(config->listen[0].advertise, "127.0.0.1:1");
	cr_assert_str_eq(config->upstream_uri, "mongodb://127.0.0.1:2/");
	cr_assert_null(config->admin.address);
	sched_getaffinity(0, sizeof(cores), &cores);
	cr_assert_eq(config->workers, CPU_COUNT(&cores));
	cr_assert_eq(config->limits.connections, 10000);
	cr_assert_eq(config->limits.handshake_ms, 10000);
	cr_assert_eq(config->limits.connections_per_address, 0);
	cr_assert_eq(config->limits.login_ms, 30000);
	cr_assert_eq(config->limits.progress_ms, 30000);
	cr_assert_eq(config->limits.before_login, 65536);
	cr_assert_eq(config->limits.drain_ms, 30000);
	cr_assert_eq(config->limits.handover_ms, 600000);
	cr_assert_eq(config->limits.memory, 1 << 30);
	cr_assert_eq(config->log_level, CONFIG_LOG_INFO);
	cr_assert_not(config->log_json);
	cr_assert_eq(config->log_slow_ms, 100);
	cr_assert_eq(rule_set_count(config->rules), 0);
	config_free(config);
	config = good(LISTEN RULES "admin: off\n", NULL);
	cr_assert_null(config->admin.address);
	config_free(config);
}

/* ---- The upstream account. */

static char *read_nothing(const char *name, const char *path, char **mistake)
{
	cr_assert_str_eq(name, "f");
	cr_assert_str_eq(path, "secret");
	*mistake = must_strndup("is not there", 12);
	return NULL;
}

static char *read_secret(const char *name, const char *path, char **mistake)
{
	(void)name;
	(void)path;
	(void)mistake;
	return must_strndup("mongodb://ann:pass@h/", 21);
}

static char *dislike(const char *uri)
{
	return strstr(uri, "bad") ? must_strndup("it is bad", 9) : NULL;
}

static void expect_uri(const char *upstream, const struct config_world *world, const char *uri)
{
	struct buffer text = {0};
	auto_free char *file = NULL;
	struct config *config;

	text_append(&text, "%s%s", LISTEN RULES, upstream);
	file = text_steal(&text);
	config = good(file, world);
	cr_assert_str_eq(config->upstream_uri, uri);
	config_free(config);
}

Test(config, the_upstream_account_comes_from_the_file_then_the_environment_then_listen)
{
	const struct config_world empty = {.upstream_uri = ""};
	const struct config_world environment = {.upstream_uri = "mongodb://env/",
						 .read_uri_file = read_secret};
	struct config *config;

	expect_uri("upstream: { uri: mongodb://file/ }\n", &environment, "mongodb://file/");
	expect_uri("upstream: { uri_file: secret }\n", &environment, "mongodb://ann:pass@h/");
	expect_uri("upstream: {}\n", &environment, "mongodb://env/");
	expect_uri("", &environment, "mongodb://env/");
	expect_uri("", &empty, "mongodb://127.0.0.1:2/");
	config = good("listen:\n  - { address: a:1, server: b:1 }\n"
		      "  - { address: a:2, server: '[::1]:2' }\n" RULES,
		      &nothing);
	cr_assert_str_eq(config->upstream_uri, "mongodb://[::1]:2,b:1/");
	config_free(config);
}

Test(config, an_upstream_account_that_cannot_be)
{
	const struct config_world world = {.upstream_uri = "mongodb://bad/",
					   .read_uri_file = read_nothing,
					   .uri_mistake = dislike};

	bad(LISTEN RULES "upstream: { uri: a, uri_file: b }\n", &world,
	    "f:5:31: 'uri' and 'uri_file' are given; only one can hold\n");
	bad(LISTEN RULES "upstream: { uri: 'http://h:1' }\n", &world,
	    "f:5:18: 'uri' is not right: it must begin with mongodb://\n");
	bad(LISTEN RULES "upstream: { uri: mongodb://bad }\n", &world,
	    "f:5:18: 'uri' is not right: it is bad\n");
	bad(LISTEN RULES "upstream: { uri: }\n", &world, "f:5:13: 'uri' has no value\n");
	bad(LISTEN RULES "upstream: { uri_file: secret }\n", &world,
	    "f:5:23: 'uri_file' 'secret' is not there\n");
	bad(LISTEN RULES "upstream: { uri_file: secret }\n", NULL,
	    "f:5:23: 'uri_file' cannot be read here\n");
	bad(LISTEN RULES, &world, "f:1:1: $SPILLWAY_UPSTREAM_URI is not right: it is bad\n");
	bad(LISTEN RULES "upstream: { uri: 'mongodb://ann:hunter@2@h/' }\n", &world,
	    "f:5:18: 'uri' is not right: it may have one '@', before the hosts: percent-encode the "
	    "user name and password ('@' is %40, ':' is %3A, '/' is %2F, '?' is %3F)\n");
	bad(LISTEN RULES "upstream: mongodb://h\n", &world,
	    "f:5:11: keys with values must stand here: uri, ...\n");
}

Test(config, an_upstream_that_is_spillway_itself)
{
	const struct config_world world = {.upstream_uri = "mongodb://127.0.0.1:1"};

	bad(LISTEN RULES "upstream: { uri: 'mongodb://ann:secret@h:2,127.0.0.1:1/?tls=true' }\n",
	    &nothing,
	    "f:5:18: 'uri' names '127.0.0.1:1', an address that Spillway listens on: it has to "
	    "name the servers behind it\n");
	bad(LISTEN RULES, &world,
	    "f:1:1: $SPILLWAY_UPSTREAM_URI names '127.0.0.1:1', an address that Spillway listens "
	    "on: it has to name the servers behind it\n");
}

Test(config, servers_that_the_mover_can_not_reach)
{
	static const char socket[] = "f:5:18: 'uri' is not right: servers must stand in it as "
				     "HOST:PORT; Unix sockets can't be used here\n";

	bad(LISTEN RULES "upstream: { uri: 'mongodb+srv://db.example.org/' }\n", &nothing,
	    "f:5:18: 'uri' is not right: mongodb+srv:// is understood with 'replica_set' only: "
	    "name the servers, as in mongodb://HOST:PORT,HOST:PORT/\n");
	bad(LISTEN RULES "upstream: { uri: 'mongodb://%2Ftmp%2Fmongodb-1.sock/' }\n", &nothing,
	    socket);
	bad(LISTEN RULES "upstream: { uri: 'mongodb:///tmp/mongodb-1.sock' }\n", &nothing, socket);
	bad(LISTEN RULES "upstream: { uri: 'mongodb://h/?tlss=true' }\n", &nothing,
	    "f:5:18: 'uri' is not right: the option 'tlss' is not known; did you mean 'tls'?\n");
}

Test(config, a_password_in_a_wrong_place_is_not_repeated)
{
	bad("listen: [{ address: 'mongodb://ann:hunter2@h/', server: 'b:1', advertise: 'c:1' }]\n"
	    "rules: []\n",
	    &nothing,
	    "f:1:21: 'address' must be host:port or [IPv6]:port, the port from 1 to 65535, not "
	    "'h/'\n");
}

Test(config, a_password_that_others_may_read_is_refused)
{
	const struct config_world open = {.others_may_read = true};

	bad(LISTEN RULES "upstream: { uri: 'mongodb://ann:pass@h/' }\n", &open,
	    "f:5:18: 'uri' holds a password and others may read this file: chmod 600 it, or use "
	    "'uri_file'\n");
	expect_uri("upstream: { uri: 'mongodb://ann@h/' }\n", &open, "mongodb://ann@h/");
	expect_uri("upstream: { uri: 'mongodb://ann:pass@h/' }\n", &nothing,
		   "mongodb://ann:pass@h/");
}

/* ---- Printing. */

static void expect_print(const char *text, const char *expected)
{
	struct config *config = good(text, &nothing), *again;
	auto_free char *printed = config_print(config), *printed_again = NULL;

	config_free(config);
	cr_assert_str_eq(printed, expected);
	again = good(printed, &nothing);
	printed_again = config_print(again);
	config_free(again);
	cr_assert_str_eq(printed_again, expected);
}

Test(config, every_default_is_printed)
{
	expect_print("listen: [{ address: 127.0.0.1:27117, server: 127.0.0.1:27017 }]\n"
		     "workers: 3\n"
		     "rules:\n"
		     "  - name: book-sales\n"
		     "    namespace: shop.sales\n"
		     "    array: a.customers\n"
		     "    threshold: 50\n"
		     "    overflow: { layout: batches, link: book_id, array: extra }\n",
		     "listen:\n"
		     "  - address: 127.0.0.1:27117\n"
		     "    server: 127.0.0.1:27017\n"
		     "    advertise: 127.0.0.1:27117\n"
		     "upstream:\n"
		     "  uri: mongodb://127.0.0.1:27017/\n"
		     "admin: off\n"
		     "workers: 3\n"
		     "limits: { connections: 10000, connections_per_address: off, handshake: 10s, "
		     "login: 30s, progress: 30s, before_login: 64KB, drain: 30s, handover: 10m, "
		     "memory: 1GB }\n"
		     "mover: { rate: off, max_lag: off, max_load: off }\n"
		     "log: { level: info, format: text, slow: 100ms }\n"
		     "observe: { sample: off }\n"
		     "rules:\n"
		     "  - name: book-sales\n"
		     "    namespace: shop.sales\n"
		     "    array: a.customers\n"
		     "    threshold: 50\n"
		     "    max_bytes: 1MB\n"
		     "    fold_limit: 16MB\n"
		     "    when_outlier: keep\n"
		     "    settle: 1s\n"
		     "    gather: 100\n"
		     "    quiet: 1s\n"
		     "    gc_delay: 1m\n"
		     "    sweep: 1h\n"
		     "    existing: wait\n"
		     "    access: full\n"
		     "    change_streams: exact\n"
		     "    damaged: fail\n"
		     "    expose: []\n"
		     "    overflow:\n"
		     "      collection: \"{collection}_a_customers_overflow\"\n"
		     "      layout: batches\n"
		     "      link: book_id\n"
		     "      array: extra\n"
		     "      batch: { size: 1000, max_bytes: 256KB }\n"
		     "      listed: false\n");
}

Test(config, admin_is_printed_as_briefly_as_it_can_be)
{
	struct config *config = good(ADMIN "{ address: a:9, hosts: [] }\n", &nothing);
	auto_free char *brief = config_print(config), *whole = NULL;

	cr_assert(strstr(brief, "\nadmin: a:9\nworkers:"), "%s", brief);
	config_free(config);
	config = good(ADMIN "{ address: a:9, hosts: [b, '::1'], tls: { cert: c, key: k } }\n",
		      &nothing);
	whole = config_print(config);
	cr_assert(strstr(whole, "\nadmin:\n  address: a:9\n  hosts: [b, \"::1\"]\n"
				"  tls: { cert: c, key: k, min_version: 1.2 }\nworkers:"),
		  "%s", whole);
	config_free(config);
	config = good(whole, &nothing);
	config_free(config);
}

Test(config, elements_are_printed_without_what_batches_have)
{
	struct config *config = good(
		"listen: [{ address: 127.0.0.1:27117, server: 127.0.0.1:27017 }]\n"
		"rules: [{ name: r, namespace: d.c, array: a, threshold: 5, overflow: { layout: "
		"elements, link: of } }]\n",
		&nothing);
	auto_free char *printed = config_print(config);

	cr_assert(strstr(printed, "      layout: elements\n      link: of\n"), "%s", printed);
	cr_assert_not(strstr(printed, "batch"), "%s", printed);
	config_free(config);
	config = good(printed, &nothing);
	config_free(config);
}

Test(config, everything_is_printed_as_it_was_read)
{
	static const char text[] =
		"listen:\n"
		"  - address: \"[::1]:27117\"\n"
		"    server: db1:27017\n"
		"    advertise: public:1\n"
		"  - address: 127.0.0.1:27118\n"
		"    server: db2:27017\n"
		"    advertise: public:2\n"
		"    proxy_protocol_from: [10.0.0.0/8, \"::1\"]\n"
		"upstream:\n"
		"  uri: \"mongodb://ann@db1,db2/?replicaSet=rs\"\n"
		"admin: 127.0.0.1:9117\n"
		"workers: 3\n"
		"limits: { connections: 5, connections_per_address: 4, handshake: 1500ms, login: "
		"5s, progress: 1m, before_login: 1MB, drain: 90s, handover: 2m, memory: "
		"2000KB }\n"
		"mover: { rate: 50, max_lag: 10s, max_load: 7 }\n"
		"log: { level: warning, format: json, slow: off }\n"
		"observe: { sample: 0.000025 }\n"
		"rules:\n"
		"  - name: true\n"
		"    namespace: \"tenant_*.posts: of #1\"\n"
		"    array: \"null\"\n"
		"    threshold: 0\n"
		"    max_bytes: 1000000B\n"
		"    fold_limit: 1MB\n"
		"    when_outlier: empty\n"
		"    settle: 0s\n"
		"    gather: 1\n"
		"    quiet: 1ms\n"
		"    gc_delay: 0s\n"
		"    sweep: off\n"
		"    existing: move\n"
		"    access: full\n"
		"    change_streams: exact\n"
		"    damaged: skip\n"
		"    flag: { field: \"an, other}\", value: \"true\\\"\\\\\\x01\\x00\", otherwise: "
		"1.0 }\n"
		"    counters: { total: \"a: b\", documents: d, owner: app }\n"
		"    reference: { field: r, format: \"{_id}_posts\" }\n"
		"    expose: [flag, reference]\n"
		"    overflow:\n"
		"      collection: \"posts {collection}\"\n"
		"      layout: batches\n"
		"      link: \"of \"\n"
		"      array: \"'more'\"\n"
		"      batch: { field: \"[i]\", size: 7, max_bytes: 8MB }\n"
		"      created: \"- at\"\n"
		"      listed: true\n"
		"      indexes:\n"
		"        - keys: { \"'more'.a: b\": 1, \"x\": -1 }\n"
		"        - keys: { \"t\": \"text\" }\n"
		"  - name: two\n"
		"    namespace: shop.sales\n"
		"    array: a\n"
		"    threshold: 1\n"
		"    max_bytes: 1MB\n"
		"    fold_limit: 16MB\n"
		"    when_outlier: keep\n"
		"    settle: 1s\n"
		"    gather: 100\n"
		"    quiet: 1s\n"
		"    gc_delay: 1m\n"
		"    sweep: 1h\n"
		"    existing: wait\n"
		"    access: full\n"
		"    change_streams: exact\n"
		"    damaged: fail\n"
		"    flag: { field: f, value: null, otherwise: -7 }\n"
		"    counters: { documents: d, owner: spillway }\n"
		"    expose: [counters]\n"
		"    overflow:\n"
		"      collection: other.sales.extra\n"
		"      layout: batches\n"
		"      link: of\n"
		"      array: more\n"
		"      batch: { size: 1000, max_bytes: 256KB }\n"
		"      listed: false\n";

	expect_print(text, text);
}

Test(config, no_password_is_printed)
{
	struct config *config =
		good(LISTEN RULES "upstream: { uri: 'mongodb://ann:pass@h/' }\n", &nothing);
	auto_free char *printed = config_print(config);

	cr_assert_null(strstr(printed, "pass"));
	cr_assert_not_null(strstr(printed, "  uri: \"mongodb://ann:***@h/\"\n"));
	cr_assert_str_eq(config->upstream_uri, "mongodb://ann:pass@h/");
	config_free(config);
}
